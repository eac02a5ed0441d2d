// SPDX-License-Identifier: Apache-2.0
#include "fusion/legality.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "fusion/literal.h"
#include "fusion/node_key.h"
#include "graph/op.h"
#include "kiln/dim.h"
#include "schedule/analysis.h"
#include "schedule/choose.h"
#include "schedule/device.h"

namespace kiln {
namespace {

// True if a loop nest for each stage is as good as any schedule for this kernel.
bool StageByStageWillDo(const Kernel& kernel) {
  if (kernel.num_iterated() <= 1) return true;
  const Stage* reduce = nullptr;
  for (const Stage& stage : kernel.stages) {
    if (stage.kind != Stage::Kind::kReduce) continue;
    if (reduce != nullptr) return false;
    reduce = &stage;
  }
  return reduce != nullptr &&
         std::all_of(kernel.outputs.begin(), kernel.outputs.end(),
                     [&](const KernelOutput& output) { return output.dims == reduce->dims; });
}

Decision CheckKernel(const Kernel& kernel, const DeviceModel& model) {
  const GroupCaps& caps = model.caps;
  const auto numbers = static_cast<size_t>(
      std::count_if(kernel.inputs.begin(), kernel.inputs.end(),
                    [](const KernelInput& input) { return input.dims.empty(); }));
  const size_t buffers = kernel.inputs.size() - numbers + kernel.outputs.size();
  if (Decision allowed = caps.Allows(buffers, numbers); !allowed) return allowed;
  if (const int64_t work = CompileWork(kernel); work > caps.compile_work) {
    return Decision::No(absl::StrCat("compiling the kernel would take long: ", work,
                                     " operations with functions expanded, the limit is ",
                                     caps.compile_work));
  }
  const Decision fuses = model.fuses(kernel);
  if (fuses || (!Scatters(kernel) && StageByStageWillDo(kernel))) return Decision::Yes();
  return Decision::No(absl::StrCat("no template takes them as one kernel (", fuses.reason(), ")"));
}

// True if its text has an extent as a number: inputs are read at i / k or i % k of a coordinate.
bool DividesByExtents(const Kernel& kernel) {
  for (const ScalarExpr* expr : Expressions(kernel)) {
    for (const ExprNode& node : expr->nodes()) {
      for (const IndexExpr& index : node.index)
        if (index.div != 1 || index.mod != 0) return true;
    }
  }
  return false;
}

// Those whose extents a price depends on: not the sizes that reads are only offset by.
std::vector<bool> PricedDims(const Kernel& kernel) {
  std::vector<bool> priced(kernel.dims.size(), false);
  for (size_t d = 0; d < priced.size(); ++d) priced[d] = kernel.dims[d].iterated;
  for (const KernelInput& input : kernel.inputs)
    for (const int32_t dim : input.dims) priced[static_cast<size_t>(dim)] = true;
  for (const ScalarExpr* expr : Expressions(kernel)) {
    for (const ExprNode& node : expr->nodes())
      if (node.op == ScalarOp::kExtent) priced[static_cast<size_t>(node.ref)] = true;
  }
  return priced;
}

}  // namespace

// Writes the structure of a group. Keys are read by nobody, and live as long as the process.
class Legality::StructureWriter {
 public:
  StructureWriter(const Graph& graph, const GraphAnalysis& analysis, const Group& group)
      : graph_(graph), analysis_(analysis), group_(group) {}

  Structure Run() && {
    for (const NodeId id : group_.nodes) AddNode(id);
    return std::move(made_);
  }

 private:
  void Put(int64_t number) {
    made_.key.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }

  bool IsInside(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    return std::binary_search(group_.nodes.begin(), group_.nodes.end(), producer);
  }

  void AddNode(NodeId id) {
    const Node& node = graph_.node(id);
    if (const auto& moves = analysis_.nodes[static_cast<size_t>(id.v)].moves) {
      made_.key += "\nmoves";
      Put(static_cast<int64_t>(moves->reads.size()));
      for (const NodeRead& read : moves->reads) AddRead(read);
    } else {
      absl::StrAppend(&made_.key, "\n", node.op->name);
      AppendAttrs(node.attrs, made_.key);
      Put(static_cast<int64_t>(node.inputs.size()));
      for (const ValueId input : node.inputs) AddInput(input);
      if (node.op->kind == OpKind::kReduce) AddCount(node);
      if (node.op->kind == OpKind::kIndex) made_.decides_the_kernel = false;
    }
    for (const ValueId output : node.outputs) {
      AddValue(output);
      Put(std::binary_search(group_.outputs.begin(), group_.outputs.end(), output) ? 1 : 0);
    }
  }

  // Of a node that only moves elements, this is all that lowering looks at.
  void AddRead(const NodeRead& read) {
    AddInput(read.value);
    for (const ReadAxis& axis : read.axes) {
      const int64_t offset = axis.offset.constant().value_or(0);
      Put(static_cast<int64_t>(axis.kind));
      Put(axis.out_axis);
      Put(axis.coef);
      Put(offset < 0 ? -1 : offset > 0 ? 1 : 0);
      if (offset != 0) AddNumber(std::abs(offset));
    }
  }

  void AddInput(ValueId input) {
    Put(input.valid() ? 1 : 0);
    if (!input.valid()) return;
    AddValue(input);
    const ValueId root = analysis_.root[static_cast<size_t>(input.v)];
    Put(root != input ? 1 : 0);
    if (root != input) AddView(input, root);
  }

  void AddValue(ValueId value) {
    const auto [it, added] = local_.emplace(value.v, static_cast<int>(local_.size()));
    Put(it->second);
    if (!added) return;
    const Value& described = graph_.value(value);
    Put(static_cast<int64_t>(described.type));
    Put(static_cast<int64_t>(described.shape.size()));
    for (const Dim& extent : described.shape) AddExtent(extent);
    if (EstimatedElements(described.shape) > INT32_MAX) {
      made_.decides_the_kernel = false;
      made_.key += "large";
    }
    const bool inside = IsInside(value);
    const bool literal = !inside && LiteralOf(described).has_value();
    Put(inside ? 1 : literal ? 2 : 0);
  }

  void AddView(ValueId view, ValueId root) {
    AddValue(root);
    if (IsInside(root) && !IsSameButForOnes(graph_.value(view).shape, graph_.value(root).shape))
      made_.decides_the_kernel = false;
  }

  static bool IsSameButForOnes(Shape a, Shape b) {
    for (Shape* shape : {&a, &b})
      std::erase_if(*shape, [](const Dim& extent) { return extent.IsConst(1); });
    return a == b;
  }

  void AddExtent(const Dim& extent) {
    const std::optional<int64_t> number = extent.constant();
    if (number && *number > 0) return AddNumber(*number);
    made_.decides_the_kernel = false;
    absl::StrAppend(&made_.key, "?", extent.ToString(), ";");
  }

  // Its number among the extents; 1 is no extent like others.
  void AddNumber(int64_t extent) {
    if (extent == 1) return Put(-1);
    std::vector<int64_t>& extents = made_.extents;
    const auto known = std::find(extents.begin(), extents.end(), extent);
    Put(known - extents.begin());
    if (known == extents.end()) extents.push_back(extent);
  }

  // Kernels know how many elements a mean is of.
  void AddCount(const Node& node) {
    const int64_t read = EstimatedElements(graph_.value(node.inputs[0]).shape);
    const int64_t made = EstimatedElements(graph_.value(node.outputs[0]).shape);
    if (read > 0 && made > 0) AddNumber(read / made);
  }

  const Graph& graph_;
  const GraphAnalysis& analysis_;
  const Group& group_;
  std::unordered_map<int32_t, int> local_;  // value -> its number in the key
  Structure made_;
};

const Verdict& Legality::Check(const Group& group) {
  const Structure structure = StructureWriter(graph_, analysis_, group).Run();
  const auto [found, is_new] = known_.forms.try_emplace(structure.key);
  GroupForm& form = found->second;
  if (is_new) form = FormOf(group, structure);
  std::vector<int64_t> extents;
  for (const std::vector<size_t>& factors : form.dims) {
    int64_t& extent = extents.emplace_back(1);
    for (const size_t factor : factors) extent *= structure.extents[factor];
  }
  const auto [verdict, added] =
      form.verdicts.try_emplace(form.needs_extents ? structure.extents : extents);
  if (!added) return verdict->second;
  if (form.needs_extents) return verdict->second = VerdictOf(group);
  verdict->second.legal = form.legal;
  if (form.kernel) verdict->second.price = PriceOf(*form.kernel, extents, machine_);
  return verdict->second;
}

absl::StatusOr<LoweredGroup> Legality::Lowered(const Group& group) {
  ++known_.lowered;
  return LowerGroup(graph_, group);
}

Verdict Legality::VerdictOf(const Group& group) {
  const absl::StatusOr<LoweredGroup> lowered = Lowered(group);
  if (!lowered.ok()) return {Decision::No(std::string(lowered.status().message())), {}};
  return {CheckKernel(lowered->canonical.kernel, ModelOf(machine_.target)),
          EstimatedPrice(*lowered, machine_)};
}

GroupForm Legality::FormOf(const Group& group, const Structure& structure) {
  GroupForm form;
  form.needs_extents = !structure.decides_the_kernel;
  if (form.needs_extents) return form;
  absl::StatusOr<LoweredGroup> lowered = Lowered(group);
  if (!lowered.ok()) {
    form.legal = Decision::No(std::string(lowered.status().message()));
    return form;
  }
  Kernel& kernel = lowered->canonical.kernel;
  const std::vector<bool> priced = PricedDims(kernel);
  for (size_t d = 0; d < kernel.dims.size(); ++d) {
    std::vector<size_t>& dim = form.dims.emplace_back();
    for (const Dim& factor : priced[d] ? lowered->factors[d] : Shape()) {
      if (factor.IsConst(1)) continue;
      const std::vector<int64_t>& extents = structure.extents;
      const auto at = std::find(extents.begin(), extents.end(), factor.constant().value_or(-1));
      if (at == extents.end()) form.needs_extents = true;
      dim.push_back(static_cast<size_t>(at - extents.begin()));
    }
  }
  if (form.needs_extents || DividesByExtents(kernel)) return {.needs_extents = true};
  form.legal = CheckKernel(kernel, ModelOf(machine_.target));
  form.kernel = std::move(kernel);
  return form;
}

Price EstimatedPrice(const LoweredGroup& lowered, const Machine& machine) {
  std::vector<int64_t> extents;
  for (const Dim& dim : lowered.dims) extents.push_back(EstimatedElements({dim}));
  return PriceOf(lowered.canonical.kernel, extents, machine);
}

}  // namespace kiln
