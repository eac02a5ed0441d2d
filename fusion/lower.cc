// SPDX-License-Identifier: Apache-2.0
#include "fusion/lower.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/stack.h"
#include "base/status_macros.h"
#include "fusion/emit.h"
#include "fusion/group_axes.h"
#include "fusion/literal.h"
#include "fusion/reduction_runs.h"

namespace kiln {
namespace {

// Puts the atoms of `dims` that `order` lacks behind the atom that stands before them in `dims`.
void Insert(const std::vector<int32_t>& dims, std::vector<int32_t>& order) {
  auto at = order.begin();
  for (const int32_t dim : dims) {
    const auto found = std::find(order.begin(), order.end(), dim);
    at = (found != order.end() ? found : order.insert(at, dim)) + 1;
  }
}

// The iterated dims, outermost first: in the order of the first reduction's operand, else of the
// output with most dims.
std::vector<int32_t> IterationOrder(const GroupAxes& group, const EmittedGroup& emitted) {
  std::vector<int32_t> order;
  for (const ValueId value : group.computed()) {
    const Node& node = group.graph().node(group.graph().value(value).producer);
    if (node.op->kind != OpKind::kReduce) continue;
    Insert(Flatten(group.ReadAxes(value, 0)), order);
    break;
  }
  const std::vector<KernelOutput>& outputs = emitted.kernel.outputs;
  if (outputs[0].adds()) {  // in the order in which updates lie
    Insert(emitted.summed, order);
    return order;
  }
  const auto fuller = [](const KernelOutput& a, const KernelOutput& b) {
    return a.dims.size() < b.dims.size();
  };
  Insert(std::max_element(outputs.begin(), outputs.end(), fuller)->dims, order);
  for (const KernelOutput& output : outputs) Insert(output.dims, order);
  for (const Stage& stage : emitted.kernel.stages) {
    Insert(stage.dims, order);
    Insert(stage.over, order);
  }
  return order;
}

// Every output and reduction of a kernel runs over all dims that no reduction takes away.
absl::Status CheckDomain(const Kernel& kernel, const std::vector<int32_t>& order) {
  std::set<int32_t> needed(order.begin(), order.end());
  for (const Stage& stage : kernel.stages) {
    for (const int32_t dim : stage.over) needed.erase(dim);
  }
  const auto covers = [&](const std::vector<int32_t>& dims, const std::vector<int32_t>& over) {
    std::set<int32_t> have(dims.begin(), dims.end());
    have.insert(over.begin(), over.end());
    return std::includes(have.begin(), have.end(), needed.begin(), needed.end());
  };
  const absl::Status apart = absl::UnimplementedError("its values do not run over the same dims");
  for (const Stage& stage : kernel.stages) {
    if (stage.kind == Stage::Kind::kReduce && !covers(stage.dims, stage.over)) return apart;
  }
  for (const KernelOutput& output : kernel.outputs) {
    if (!output.adds() && !covers(output.dims, {})) return apart;
  }
  return absl::OkStatus();
}

// Gives the atoms and sizes of an emitted kernel their final numbers: iterated dims in `order`,
// then sizes.
class Numbering {
 public:
  explicit Numbering(const std::vector<int32_t>& order) : order_(order) {}

  int32_t Number(int32_t dim) const {
    if (dim >= kFirstSize) return static_cast<int32_t>(order_.size()) + dim - kFirstSize;
    return static_cast<int32_t>(std::find(order_.begin(), order_.end(), dim) - order_.begin());
  }

  std::vector<int32_t> Numbers(std::vector<int32_t> dims, bool ascending) const {
    for (int32_t& dim : dims) dim = Number(dim);
    if (ascending) std::sort(dims.begin(), dims.end());
    return dims;
  }

  ScalarExpr Rewrite(const ScalarExpr& from) const {
    ScalarExpr to;
    const auto replace = [&](ExprId id, const std::vector<ExprId>& map) -> ExprId {
      ExprNode node = from.node(id);
      if (node.op == ScalarOp::kIndex || node.op == ScalarOp::kExtent) {
        node.ref = Number(node.ref);
      } else if (!node.index.empty()) {
        for (ExprId& arg : node.args) arg = arg < 0 ? arg : map[static_cast<size_t>(arg)];
        for (IndexExpr& index : node.index) RewriteIndex(index, map);
        // A stage is read by identity, and its axes are in ascending order now.
        const auto first = [](const IndexExpr& index) {
          return index.terms.empty() ? 0 : index.terms[0].dim;
        };
        if (node.source == ReadSource::kStage) {
          std::sort(node.index.begin(), node.index.end(),
                    [&](const IndexExpr& a, const IndexExpr& b) { return first(a) < first(b); });
        }
      } else {
        return -1;
      }
      return to.Add(std::move(node));
    };
    to.set_root(CopyExpr(from, from.root(), to, replace));
    return to;
  }

 private:
  void RewriteIndex(IndexExpr& index, const std::vector<ExprId>& map) const {
    if (index.load >= 0) index.load = map[static_cast<size_t>(index.load)];
    for (IndexExpr::Term& term : index.terms) term.dim = Number(term.dim);
    std::sort(index.terms.begin(), index.terms.end(), [](const auto& a, const auto& b) {
      return std::pair(a.extent, a.dim) < std::pair(b.extent, b.dim);
    });
  }

  const std::vector<int32_t>& order_;
};

void NumberDims(EmittedGroup& emitted, const std::vector<int32_t>& order) {
  const Numbering numbering(order);
  Kernel& kernel = emitted.kernel;
  const size_t sizes = emitted.sizes.size();
  for (size_t i = 0; i < order.size(); ++i) kernel.dims.push_back({absl::StrCat("d", i), true});
  for (size_t i = 0; i < sizes; ++i) kernel.dims.push_back({absl::StrCat("n", i), false});
  for (KernelInput& input : kernel.inputs)
    input.dims = numbering.Numbers(std::move(input.dims), false);
  for (Stage& stage : kernel.stages) {
    stage.dims = numbering.Numbers(std::move(stage.dims), true);
    stage.over = numbering.Numbers(std::move(stage.over), true);
    stage.expr = numbering.Rewrite(stage.expr);
  }
  for (KernelOutput& output : kernel.outputs) {
    output.dims = numbering.Numbers(std::move(output.dims), false);
    output.expr = numbering.Rewrite(output.expr);
  }
  for (std::vector<ReducedRun>& runs : emitted.runs) {
    for (ReducedRun& run : runs) run.dims = numbering.Numbers(std::move(run.dims), false);
  }
}

Shape Extents(const std::vector<int32_t>& dims, const std::vector<Dim>& extents) {
  Shape shape;
  for (const int32_t dim : dims) shape.push_back(extents[static_cast<size_t>(dim)]);
  return shape;
}

// What the launch binds to a canonical kernel.
LoweredGroup Bind(CanonicalKernel canonical, const std::vector<Dim>& raw_extents,
                  const std::vector<ValueId>& raw_inputs, const std::vector<ValueId>& raw_outputs) {
  LoweredGroup lowered;
  for (const std::vector<int32_t>& merged : canonical.dims) {
    lowered.factors.push_back(Extents(merged, raw_extents));
    lowered.dims.push_back(Product(lowered.factors.back()));
  }
  const Kernel& kernel = canonical.kernel;
  for (size_t k = 0; k < canonical.inputs.size(); ++k) {
    lowered.inputs.push_back(raw_inputs[static_cast<size_t>(canonical.inputs[k])]);
    lowered.input_shapes.push_back(Extents(kernel.inputs[k].dims, lowered.dims));
  }
  for (size_t k = 0; k < canonical.outputs.size(); ++k) {
    lowered.outputs.push_back(raw_outputs[static_cast<size_t>(canonical.outputs[k])]);
    lowered.output_shapes.push_back(Extents(kernel.outputs[k].dims, lowered.dims));
  }
  // Lowering writes numbers as literals and no parameters, so each parameter stands for a literal.
  for (size_t k = 0; k < canonical.params.size(); ++k) {
    lowered.params.push_back(ParamBytes(kernel.params[k], canonical.params[k].bits));
  }
  lowered.canonical = std::move(canonical);
  return lowered;
}

// Nodes of the longest path from a node of the group to its last one, views between them too.
size_t LongestChain(const Graph& graph, const Group& group) {
  std::map<ValueId, size_t> depths;
  size_t longest = 0;
  for (NodeId id = group.nodes.front(); id <= group.nodes.back(); ++id.v) {
    size_t depth = std::binary_search(group.nodes.begin(), group.nodes.end(), id) ? 1 : 0;
    for (const ValueId input : graph.node(id).inputs)
      if (const auto known = depths.find(input); known != depths.end())
        depth = std::max(depth, known->second + 1);
    longest = std::max(longest, depth);
    if (depth == 0) continue;
    for (const ValueId output : graph.node(id).outputs) depths[output] = depth;
  }
  return longest;
}

}  // namespace

absl::StatusOr<LoweredGroup> LowerGroup(const Graph& graph, const Group& group) {
  if (group.kind != Group::Kind::kKernel || group.outputs.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("group: kind ", Name(group.kind), " with ", group.outputs.size(),
                     " outputs has no kernel; lower groups of kind kernel"));
  }
  KILN_ASSIGN_OR_RETURN(const GroupAxes axes, GroupAxes::Make(graph, group.nodes, group.outputs));
  // Emission recurses along the group's longest chain, 2.5 KiB for each node (measured).
  constexpr size_t kFrame = 3072, kRest = size_t{24} << 10;  // correctness
  const auto bytes = [](size_t chain) { return kRest + kFrame * chain; };
  const auto most = static_cast<size_t>(group.nodes.back().v - group.nodes.front().v + 1);
  const bool fits = StackLeft() >= bytes(most);  // no chain is longer: as a rule none is looked for
  absl::StatusOr<EmittedGroup> made = absl::InternalError("group: not emitted");
  KILN_RETURN_IF_ERROR(WithStack(bytes(fits ? most : LongestChain(graph, group)),
                                 [&] { made = EmitGroup(axes, group.outputs); }));
  KILN_ASSIGN_OR_RETURN(EmittedGroup emitted, std::move(made));
  std::vector<int32_t> order = IterationOrder(axes, emitted);
  KeepRunsApart(emitted, order);
  KILN_RETURN_IF_ERROR(CheckDomain(emitted.kernel, order));
  NumberDims(emitted, order);
  std::vector<Dim> extents;
  for (const int32_t dim : order) extents.push_back(dim < kFirstUnit ? axes.extent(dim) : Dim(1));
  extents.insert(extents.end(), emitted.sizes.begin(), emitted.sizes.end());
  std::vector<int64_t> known;
  for (const Dim& extent : extents) known.push_back(extent.constant().value_or(0));
  KILN_ASSIGN_OR_RETURN(CanonicalKernel canonical, Canonicalize(emitted.kernel, known));
  KILN_RETURN_IF_ERROR(CheckRuns(emitted, canonical));
  return Bind(std::move(canonical), extents, emitted.inputs, group.outputs);
}

}  // namespace kiln
