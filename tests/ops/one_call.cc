// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/one_call.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/graph.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

// Inputs and attributes for a small call; only ops that do not take plain equal shapes are named.
struct Call {
  std::vector<Shape> shapes;
  Attrs attrs;
  std::vector<DType> types = {};  // of inputs that have a type of their own
};

using L = std::vector<int64_t>;

Call CallOf(const std::string& op, const OpDef& def) {
  const Shape image = {2, 4, 5, 6};
  if (op == "cast") return {{{2, 3}}, {{"to", DType::kF16}}};
  if (op == "where") return {{{2, 3}, {2, 3}, {3}}, {}, {DType::kBool}};
  if (op == "clip") return {{{2, 3}, {}, {}}, {}};
  if (op == "reshape") return {{{2, 6}}, {{"shape", L{3, -1}}}};
  if (op == "squeeze") return {{{2, 1, 3}}, {{"axes", L{1}}}};
  if (op == "unsqueeze") return {{{2, 3}}, {{"axes", L{0, 2}}}};
  if (op == "expand") return {{{2, 1}}, {{"shape", L{4, 1, 3}}}};
  if (op == "slice")
    return {{{5, 6}}, {{"starts", L{1, -1}}, {"ends", L{4, 0}}, {"steps", L{2, -2}}}};
  if (op == "concat") return {{{2, 3}, {2, 1}}, {{"axis", int64_t{1}}}};
  if (op == "split") return {{{2, 4}}, {{"axis", int64_t{1}}, {"split", L{1, 3}}}};
  if (op == "gather") return {{{4, 3}, {2, 2}}, {{"axis", int64_t{0}}}, {DType::kF32, DType::kI64}};
  const std::vector<DType> indexed = {DType::kF32, DType::kI64};
  const std::vector<DType> step = {DType::kF32, DType::kI64};
  if (op == "random_bits") return {{{2, 3}, {3}}, {}, {DType::kU64, DType::kU64}};
  if (op == "random_uniform" || op == "random_normal") return {{}, {{"shape", L{2, 3}}}};
  if (op == "bernoulli" || op == "dropout") return {{{2, 3}, {}}, {}, step};
  if (op == "multinomial") return {{{2, 3}, {}}, {{"to", DType::kI32}}, step};
  if (op == "iota") return {{}, {{"shape", L{2, 3}}, {"axis", int64_t{1}}}};
  if (op == "gather_elements") return {{{4, 3}, {2, 3}}, {{"axis", int64_t{0}}}, indexed};
  if (op == "take") return {{{4, 3, 2}, {5}, {5}}, {}, {DType::kF32, DType::kI64, DType::kI64}};
  if (op == "lookup")
    return {{{2, 3, 4}, {3, 256}}, {{"axis", int64_t{1}}}, {DType::kU8, DType::kI8}};
  if (op == "top_k") return {{{3, 4}}, {{"k", int64_t{2}}}};
  if (op == "cumulative") return {{{3, 4}}, {{"axis", int64_t{1}}}};
  if (op == "scatter_elements")
    return {{{4, 3}, {2, 3}, {2, 3}}, {{"axis", int64_t{0}}, {"reduction", int64_t{1}}}, indexed};
  if (op == "scatter_nd") return {{{4, 3}, {2, 1}, {2, 3}}, {{"reduction", int64_t{1}}}, indexed};
  if (op == "scatter_sum")
    return {{{2, 1}, {2, 3}}, {{"shape", L{4, 3}}}, {DType::kI64, DType::kF32}};
  if (op == "pad") return {{{2, 3}}, {{"pads", L{1, 0, 0, 2}}, {"value", 1.5}}};
  if (op == "upsample") return {{{2, 3}}, {{"scales", L{1, 2}}}};
  if (op == "elements") return {{{2}}, {{"symbols", std::string("[a, b]")}}, {DType::kI64}};
  if (op == "measure") return {{{2, 3}}, {{"extents", std::string("[k, 3]")}}};
  if (op == "match_extent") return {{{2, 3}, {3, 4}}, {{"axis", int64_t{1}}, {"to", int64_t{0}}}};
  if (op == "nonzero") return {{{2, 3}}, {{"extents", std::string("[2, k]")}}};
  if (op == "compress")
    return {{{2, 3}, {3}},
            {{"axis", int64_t{1}}, {"extents", std::string("[2, k]")}},
            {DType::kF32, DType::kBool}};
  if (op == "unique") return {{{4}}, {{"extents", std::string("[k, k, 4, k]")}}};
  if (op == "non_max_suppression")
    return {{{1, 4, 4}, {1, 2, 4}}, {{"extents", std::string("[k, 3]")}}};
  if (op == "constant_of_shape") return {{}, {{"shape", L{2, 3}}}};
  if (op == "layer_norm") return {{{2, 3, 4}, {4}, {4}}, {}};
  if (op == "batch_norm") return {{image, {4}, {4}, {4}, {4}}, {}};
  if (op == "instance_norm") return {{image, {4}, {4}}, {}};
  if (op.rfind("global_", 0) == 0) return {{image}, {}};
  if (op == "matmul") return {{{2, 3, 4}, {4, 5}}, {}};
  const std::vector<DType> bytes = {DType::kU8, DType::kI8, DType::kU8, DType::kI8};
  if (op == "matmul_integer") return {{{2, 3, 4}, {4, 5}, {3, 1}, {5}}, {}, bytes};
  if (op == "conv_integer")
    return {{image, {6, 2, 3, 3}, {}, {6}},
            {{"group", int64_t{2}}, {"pads", L{1, 1, 0, 1}}, {"strides", L{2, 1}}},
            bytes};
  if (op == "qlinear_conv")
    return {
        {image, {}, {}, {6, 2, 3, 3}, {6}, {6}, {}, {}, {6}},
        {{"group", int64_t{2}}, {"pads", L{1, 1, 0, 1}}, {"strides", L{2, 1}}, {"to", DType::kU8}},
        {DType::kU8, DType::kF32, DType::kU8, DType::kI8, DType::kF32, DType::kI8, DType::kF32,
         DType::kU8, DType::kI32}};
  if (op == "gemm")
    return {{{3, 4}, {5, 4}, {5}}, {{"trans_b", int64_t{1}}, {"alpha", 3.0}, {"beta", 2.0}}};
  if (op == "conv")
    return {{image, {6, 2, 3, 3}, {6}},
            {{"group", int64_t{2}}, {"pads", L{1, 1, 0, 1}}, {"strides", L{2, 1}}}};
  if (op == "conv_transpose")
    return {{image, {4, 3, 3, 3}, {3}}, {{"strides", L{2, 2}}, {"output_padding", L{1, 0}}}};
  if (op == "conv_backward_weights")
    return {{image, {2, 6, 2, 6}},
            {{"kernel", L{3, 3}},
             {"group", int64_t{2}},
             {"pads", L{1, 1, 0, 1}},
             {"strides", L{2, 1}}}};
  const Attrs pool = {{"kernel", L{3, 2}}, {"pads", L{1, 0, 1, 1}}};
  if (op == "max_pool_backward") return {{image, image}, pool};
  if (op == "average_pool_backward") {
    Attrs attrs = pool;
    attrs["shape"] = DimsValue(image);
    return {{image}, std::move(attrs)};
  }
  if (op == "max_pool" || op == "average_pool") return {{image}, pool};
  const int count = def.max_inputs < 0 ? 3 : def.max_inputs;
  return {std::vector<Shape>(static_cast<size_t>(count), Shape{2, 3}), {}};
}

}  // namespace

bool HasPlainCall(const OpDef& op) {
  const std::string name = op.name;
  return op.kind != OpKind::kControl && name != "custom" && name != "composed";
}

absl::StatusOr<Graph> OneCall(const OpDef& op, DType type) {
  const Call call = CallOf(op.name, op);
  GraphBuilder b("one");
  std::vector<ValueId> inputs;
  for (size_t k = 0; k < call.shapes.size(); ++k) {
    const DType own = k < call.types.size() && call.types[k] != DType::kF32 ? call.types[k] : type;
    inputs.push_back(b.Input(absl::StrCat("x", k), own, call.shapes[k]));
  }
  if (std::string(op.name) == "range") {
    inputs = {b.Scalar(type, 0), b.Scalar(type, 5), b.Scalar(type, 2)};
  }
  const std::vector<ValueId> outputs = b.Ops(op.name, inputs, call.attrs);
  for (size_t k = 0; k < outputs.size(); ++k) b.Output(outputs[k], absl::StrCat("y", k));
  return std::move(b).Finish();
}

}  // namespace kiln
