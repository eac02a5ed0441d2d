// SPDX-License-Identifier: Apache-2.0
// OpDef, an op definition ("record"): what an operator means, in one constexpr struct, a row in the
// table of its family (graph/ops/*.cc). From it follow type and shape inference, the float64
// interpreter, kernels and their cost, the text form, import from and export to ONNX where that has
// the same operator, `kiln ops` and the generic tests. Elsewhere are what ONNX says otherwise
// (graph/onnx/convert_*.cc, export_node.cc), what passes know of it (fusion/), and code of library
// and host ops (exec/library/). Example, the whole of relu:
//
//   {.name = "relu",
//    .doc = "max(x, 0); NaN stays NaN.",
//    .kind = OpKind::kScalar,
//    .infer = InferNumber,
//    .scalar = [](ScalarBody& b) { return Apply(ScalarOp::kMax, b.in(0), b.in(0).Like(0)); },
//    .onnx = {{"Relu"}},
//    .test = {-4, 4},
//    .witness = "onnx node tests: relu"}
#ifndef KILN_GRAPH_OP_H_
#define KILN_GRAPH_OP_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "kernel/kernel.h"
#include "kernel/scalar_expr.h"

namespace kiln {

enum class OpKind : uint8_t {
  kScalar,   // one output element from one element of each (broadcast) input: `scalar`
  kReduce,   // `reduce` over attribute `axes`, with an optional map before and after
  kIndex,    // output elements are input elements (or a fill) found by index arithmetic: `index`
  kScatter,  // input 1, slices, added in order to zeros where the rows of input 0 say; the others'
             // opposite: elements are not looked up but sent
  kComposite,  // means its `decompose`: softmax, layer_norm, gelu, batch_norm
  kLibrary,    // matmul, conv, pool: a thunk of exec/library, and a reference loop
  kHost,  // shape arithmetic and what depends on data: evaluated symbolically where possible, else
          // on the host
  kControl,  // if, loop: runs graphs that it owns
};

// kDims is a list of extents that may be symbolic: held as kInts where all are numbers, else as the
// text of a Shape, "[n, 64]".
enum class AttrKind : uint8_t {
  kInt,
  kFloat,
  kString,
  kInts,
  kFloats,
  kType,
  kTensor,
  kDims,
  kGraph,
  kCustom
};
struct AttrSpec {
  const char* name;
  AttrKind kind;
  bool required;
  double number;     // default of kInt and kFloat
  const char* text;  // default of kString; kInts "1 1"; null: absent unless given
  const char* doc;
  // kDims: the input that says the same. AddNode turns such an input, when its elements are known,
  // into the attribute and makes the input absent: `reshape(x, s)` becomes `reshape(x) {shape = [n,
  // 64]}`, and the chain that computed s is dead.
  int input = -1;
  const char* onnx = nullptr;  // ONNX's name of it; null: the same
};

// What inference sees: input types, shapes and contents, attributes with defaults filled in. It
// sets output types and shapes, and may ask for guards.
class InferContext {
 public:
  InferContext(Graph& graph, const Node& node) : graph_(graph), node_(node) {}
  int num_inputs() const { return static_cast<int>(node_.inputs.size()); }
  bool has_input(int k) const {
    return k < num_inputs() && node_.inputs[static_cast<size_t>(k)].valid();
  }
  const Value& input(int k) const { return graph_.value(node_.inputs[static_cast<size_t>(k)]); }
  DType type(int k) const { return input(k).type; }
  const Shape& shape(int k) const { return input(k).shape; }
  const Node& node() const { return node_; }
  const Graph& graph() const { return graph_; }
  // Elements of a small integer input, symbolically: from a constant or from shape_content.
  // kUnimplemented if unknown.
  absl::StatusOr<Shape> Content(int k) const;
  // A kDims attribute: as given, else its input's elements, else its default. kUnimplemented if the
  // input is there and unknown, kInvalidArgument if there is none of the three (!has_dims).
  absl::StatusOr<Shape> Dims(absl::string_view name) const;
  bool has_dims(absl::string_view name) const;
  void SetOutput(int k, DType type, Shape shape);
  void SetContent(int k, Shape content);  // the output's elements are these, for shape arithmetic
  void Assume(Guard guard) { graph_.AddGuard(std::move(guard)); }
  // Ok if the two are equal, or where the guard that it asks for makes them so; kInvalidArgument if
  // they differ for all values of the symbols.
  absl::Status Require(const Dim& a, const Dim& b, absl::string_view what);

  struct Output {
    DType type = DType::kF32;
    Shape shape;
    std::optional<Shape> content;
  };
  std::vector<Output> outputs;

 private:
  Graph& graph_;
  const Node& node_;
};

// What a scalar body sees: the elements of its inputs as expressions (of compute type), and
// attributes. An input that is a constant of one element is given as a literal. The result has the
// compute type of the output.
class ScalarBody {
 public:
  ScalarBody(ScalarExpr& expr, std::vector<Ex> inputs, const Node& node, DType out)
      : expr_(expr), inputs_(std::move(inputs)), node_(node), out_(out) {}
  Ex in(int k) const { return inputs_[static_cast<size_t>(k)]; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  bool has(int k) const { return k < num_inputs() && inputs_[static_cast<size_t>(k)].id >= 0; }
  const Node& node() const { return node_; }
  DType out() const { return out_; }  // stored type of the output
  ScalarExpr& expr() const { return expr_; }

 private:
  ScalarExpr& expr_;
  std::vector<Ex> inputs_;
  const Node& node_;
  DType out_;
};

// The reduce record: out = after(reduce op over axes (before(x))). `after` sees the result and the
// number of reduced elements as an expression of the accumulator's type (for means).
struct ReduceRule {
  ReduceOp op;
  Ex (*before)(Ex x);                // null: identity
  Ex (*after)(Ex result, Ex count);  // null: identity
};

// One term of an index op's meaning. Output element at coordinates o is: the first piece whose
// bounds hold gives input[piece.input][at(o)], else `fill` (0 unless the record says otherwise).
// Coordinates are affine in o, per input axis.
//   transpose  one piece, no bounds, axes permuted
//   slice      one piece, at = start + step * o
//   expand     one piece, axes of extent 1 are read at 0
//   pad        one piece with bounds; the fill is an attribute
//   concat     one piece per input, with bounds lower <= o[axis] < upper
//   gather     one piece, one axis is loaded from input 1
struct IndexAxis {
  int out_axis = -1;  // -1: a constant coordinate
  Dim coef = 1;       // coordinate = floor((coef * o[out_axis] + offset) / div)
  Dim offset = 0;
  int64_t div = 1;
  // >= 0: the coordinate is the element of that input at o[load_axes[0]], o[load_axes[1]], ...;
  // negative ones count from the end of the axis, and it is clamped to the axis (IndexExpr in
  // kernel/scalar_expr.h).
  int load_input = -1;
  std::vector<int> load_axes = {};  // -1: coordinate 0
};
struct IndexPiece {
  int input = 0;
  std::vector<IndexAxis> axes;  // one per axis of the input
  struct Bound {
    int out_axis;
    Dim lower, upper;  // lower <= o[out_axis] < upper
  };
  std::vector<Bound> bounds;  // empty: everywhere
};
struct IndexMap {
  std::vector<IndexPiece> pieces;
  // The bits of a value of the output's type, as kConst of its compute type has them.
  uint64_t fill = 0;
  // True if the output is its only input's memory, seen with another shape (reshape, squeeze,
  // flatten): a view, no copy.
  bool view = false;
};

class GraphBuilder;  // kiln/graph.h

struct TestRange {
  double lo = -4, hi = 4;
};

// The operator by which ONNX says what a record says: the same operands in the same order, and
// attributes of the same meaning and default, under the same name but where AttrSpec::onnx has
// another. Axes and extents may be operands (AttrSpec::input). Import and export follow from it.
//
//   .onnx = {{"Add", 7}}                                   at operator set 6, "Add" was another
//   .onnx = {{"And", 7, IsBool}, {"BitwiseAnd", 18}}       written as And if input 0 is of bools
//
// What is more than that has a function in graph/onnx, which goes before: a converter
// (convert_*.cc) for other versions of the operator and for attributes that the record has not, a
// writer (export_node.cc) for calls that ONNX does not allow.
struct OnnxForm {
  const char* op = nullptr;
  int since = 6;  // the operator set from which on this holds; 6: and in those before it, too
  bool (*when)(DType) = nullptr;  // types of input 0 for which it is written; null: all
};

// How a node's gradient follows where its body does not say it all (graph/gradient/). Without a
// rule it is that of the scalar body, the ReduceRule, the IndexMap or the decomposition.
struct GradientSlot {
  // Cotangents of the inputs from those of the outputs, each of its value's type. An invalid id is
  // a zero, and what an input has that no gradient goes to. May add nodes to `b`.
  absl::StatusOr<std::vector<ValueId>> (*rule)(GraphBuilder& b, const Node& node,
                                               std::span<const ValueId> cotangents) = nullptr;
  const char* none = nullptr;  // why there is none
  const char* note = "";       // what it is at kinks and ties, for `kiln ops --gradients`
};

// Inputs [first, last] of a node; first -1: none, last -1: all from `first` on.
struct InputRange {
  int first = -1, last = -1;
};

struct OpDef {
  const char* name;
  const char* doc;
  OpKind kind;
  int min_inputs = 1;
  int max_inputs = 1;   // -1: any number
  int num_outputs = 1;  // -1: by attribute
  std::span<const AttrSpec> attrs = {};
  absl::Status (*infer)(InferContext& c) = nullptr;
  Ex (*scalar)(ScalarBody& b) = nullptr;  // kScalar
  const ReduceRule* reduce = nullptr;     // kReduce
  absl::StatusOr<IndexMap> (*index)(const Graph& graph, const Node& node,
                                    int output) = nullptr;  // kIndex
  absl::StatusOr<std::vector<ValueId>> (*decompose)(GraphBuilder& b,
                                                    const Node& node) = nullptr;  // kComposite
  // kLibrary: what it means in scalar, reduce and index nodes, for devices without a library
  // (fusion/expand_library.cc). kUnimplemented: nothing, for this node. Null: nothing.
  absl::StatusOr<std::vector<ValueId>> (*by_kernels)(GraphBuilder& b, const Node& node) = nullptr;
  // Reference loops in float64 for kLibrary and kHost: dense inputs (floats widened to f64,
  // integers to i64) to outputs.
  absl::Status (*reference)(const Node& node, std::span<const Tensor> inputs,
                            std::span<Tensor> outputs) = nullptr;
  OnnxForm onnx[2] = {};
  // More ONNX operators that become this one, by converters; space separated.
  const char* onnx_converted = "";
  TestRange test = {};
  const char* witness = "";  // an outside check of its meaning
  // What a node of this op gives is known only when it runs: extents of its outputs (attribute
  // `extents`: all outputs' extents in a row, with new symbols where they depend on data), or what
  // is executed at all. Such a node ends a segment of the program (compiler/segments.h).
  bool dynamic = false;
  // Of kLibrary: its work grows with the elements that it reads and writes, not with their product.
  bool linear = false;
  // Reference of dynamic kHost ops: as `reference`, but the outputs are made here.
  absl::Status (*evaluate)(const Node& node, std::span<const Tensor> inputs,
                           std::vector<Tensor>& outputs) = nullptr;
  GradientSlot gradient = {};
  // Inputs that are coordinates, or the step of random numbers: integers, whose type has nothing to
  // do with that of the other inputs. A number there is i64 (kiln::Operand).
  InputRange index_inputs = {};
  // An input of one element that has to be a constant of the graph, such as what pad fills with.
  int constant_input = -1;
};

// The body of a kScalar node: input k is a read of kInput k with an empty index, or a literal (see
// ScalarBody), but a read where `reads` says so.
ScalarExpr ScalarBodyOf(const Graph& graph, const Node& node, const std::vector<bool>& reads = {});

// The elements of `value`, row-major, if it is a small tensor of integers or bools that are known:
// from its constant or its shape_content.
std::optional<Shape> ContentOf(const Value& value);
inline constexpr int64_t kMaxContent = 1024;  // elements of a tensor that is followed symbolically

// All records, sorted by name: those of all families (graph/ops/ops.h). Immutable.
std::span<const OpDef* const> AllOps();
const OpDef* FindOp(absl::string_view name);

// The ONNX operators that become this one, in the order of the record.
std::vector<absl::string_view> OnnxNames(const OpDef& op);
// ONNX's name of an attribute.
inline const char* OnnxName(const AttrSpec& spec) {
  return spec.onnx != nullptr ? spec.onnx : spec.name;
}

// Attributes with the record's defaults; the attribute must be in the schema.
int64_t IntAttr(const Node& node, absl::string_view name);
// As ONNX has them: rounded to f32, also where the node computes in f64.
double FloatAttr(const Node& node, absl::string_view name);
std::string StringAttr(const Node& node, absl::string_view name);
std::vector<int64_t> IntsAttr(const Node& node, absl::string_view name);
std::vector<double> FloatsAttr(const Node& node, absl::string_view name);
DType TypeAttr(const Node& node, absl::string_view name);
Shape DimsAttr(const Node& node, absl::string_view name);  // of a node that AddNode has accepted
AttrValue DimsValue(const Shape& shape);                   // how a kDims attribute holds `shape`
bool HasAttr(const Node& node, absl::string_view name);
const Graph& GraphAttr(const Node& node, absl::string_view name);  // required ones only

}  // namespace kiln

#endif  // KILN_GRAPH_OP_H_
