// SPDX-License-Identifier: Apache-2.0
#include "compiler/program_builder.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/proto_add.h"
#include "base/status_macros.h"
#include "compiler/device_library.h"
#include "compiler/element_moves.h"
#include "compiler/kernel_choice.h"
#include "compiler/kernel_key.h"
#include "compiler/lowered_groups.h"
#include "compiler/tuner.h"
#include "exec/support/device.h"
#include "fusion/lower.h"
#include "graph/op.h"
#include "kernel/text.h"
#include "schedule/analysis.h"
#include "schedule/choose.h"

namespace kiln {
namespace {

template <typename Repeated>
void SetShape(const Shape& shape, Repeated* out) {
  for (const Dim& extent : shape) *AddTo(out) = extent.ToString();
}

// Names of the group's nodes for people: at most three, then a count.
std::string NameOf(const Graph& graph, const Group& group) {
  std::vector<std::string> names;
  for (NodeId id : group.nodes) names.push_back(graph.node(id).name);
  const size_t all = names.size();
  if (all > 3) names.resize(3);
  return absl::StrCat(absl::StrJoin(names, "+"),
                      all > 3 ? absl::StrCat("+", all - 3, " more") : "");
}

std::string OpsOf(const Graph& graph, const Group& group) {
  std::vector<std::string> ops;
  for (NodeId id : group.nodes) ops.push_back(graph.node(id).op->name);
  return absl::StrJoin(ops, "+");
}

class Builder {
 public:
  Builder(const Graph& graph, const Grouping& grouping, const CompileOptions& options)
      : graph_(graph),
        grouping_(grouping),
        options_(options),
        machine_(MachineOf(options)),
        device_memory_(!OnHost(machine_.target.device)),
        library_(LibraryRulesOf(options)),
        dump_(options.dump),
        lowered_(graph),
        moves_(graph, grouping) {}

  absl::StatusOr<BuiltProgram> Build() {
    region_ = AddTo(out_.program.mutable_regions());
    out_.program.set_parallel_grain(machine_.parallel_grain);
    for (const ValueId id : graph_.inputs()) AddInput(id);
    ChooseOutputs();
    for (const Group& group : grouping_.groups) {
      const int before = region_->thunks_size();
      KILN_RETURN_IF_ERROR(AddGroup(group));
      const int last = region_->thunks_size() - 1;
      out_.thunk_of.push_back(last < before ? -1 : last);
    }
    for (size_t k = 0; k < graph_.outputs().size(); ++k) AddOutput(static_cast<int>(k));
    return std::move(out_);
  }

 private:
  // Where a value lies: in the host's memory, or in that of the device that kernels run on, if it
  // has one of its own. A value may lie in both.
  enum class Where : uint8_t { kHost, kDevice };

  program::Buffer* NewBuffer(ValueId id, program::Buffer::Kind kind, int index,
                             Where where = Where::kHost) {
    const Value& value = graph_.value(id);
    program::Buffer* const buffer = AddTo(out_.program.mutable_buffers());
    buffer->set_kind(kind);
    buffer->set_index(index);
    buffer->set_bytes(
        (Product(value.shape) * Dim(static_cast<int64_t>(SizeOf(value.type)))).ToString());
    buffer->set_name(value.name);
    // Where the device's memory is the host's, all is the device's.
    if (device_memory_ ? where == Where::kDevice : machine_.target.device != DefaultDevice())
      buffer->set_device(std::string(Name(machine_.target.device)));
    return buffer;
  }

  void AddInput(ValueId id) {
    const Value& value = graph_.value(id);
    program::Port* const port = AddTo(out_.program.mutable_inputs());
    port->set_name(value.name);
    port->set_dtype(static_cast<uint32_t>(value.type));
    SetShape(value.shape, port->mutable_shape());
    if (value.shape_content) SetShape(*value.shape_content, port->mutable_elements());
    port->set_buffer(out_.program.buffers_size());
    buffer_of_[{id, Where::kHost}] = out_.program.buffers_size();
    NewBuffer(id, program::Buffer::INPUT, out_.program.inputs_size() - 1);
  }

  // An output whose memory a kernel or library operator writes, directly or seen through views,
  // lives in the caller's memory.
  void ChooseOutputs() {
    for (size_t k = 0; k < graph_.outputs().size(); ++k) {
      const ValueId source = moves_.ThroughViews(graph_.outputs()[k].value);
      if (moves_.IsWritten(source)) output_of_.emplace(source, static_cast<int>(k));
    }
  }

  // Where it was written first.
  Where HomeOf(ValueId id) const {
    const auto found = home_of_.find(id);
    return found != home_of_.end() ? found->second : Where::kHost;
  }

  // The buffer that holds `id` there, made when it is first asked for.
  int BufferOf(ValueId id, Where where) {
    if (const auto found = buffer_of_.find({id, where}); found != buffer_of_.end())
      return found->second;
    const int index = out_.program.buffers_size();
    buffer_of_[{id, where}] = index;
    const Value& value = graph_.value(id);
    const auto output = output_of_.find(id);
    if (value.constant.has_value()) {
      NewBuffer(id, program::Buffer::CONSTANT, ConstantIndex(id), where);
    } else if (where == Where::kHost && output != output_of_.end()) {
      NewBuffer(id, program::Buffer::OUTPUT, output->second);
    } else {
      NewBuffer(id, program::Buffer::TEMPORARY, 0, where);
    }
    return index;
  }

  int ConstantIndex(ValueId id) {
    const auto [at, is_new] = constant_of_.emplace(id, static_cast<int>(out_.constants.size()));
    if (is_new) AddConstant(*graph_.value(id).constant);
    return at->second;
  }

  // Sees to it that what follows can read the value there: copies it from its home, once. A
  // constant lies in both, and so does a view of one: no run copies it.
  void Bring(ValueId id, Where where) {
    if (!id.valid() || graph_.value(id).constant.has_value() || HomeOf(id) == where ||
        buffer_of_.count({id, where}) != 0)
      return;
    if (const auto seen = constant_views_.find(id); seen != constant_views_.end()) {
      Bring(seen->second.base, where);
      program::Thunk* const thunk = AddTo(region_->mutable_thunks());
      thunk->set_name(graph_.value(id).name);
      program::ViewThunk* const view = Make(thunk, &program::Thunk::set_allocated_view);
      SetStridedRef(seen->second, where, view->mutable_from());
      SetRef(id, where, view->mutable_to());
      return;
    }
    program::Thunk* const thunk = AddTo(region_->mutable_thunks());
    thunk->set_name(absl::StrCat("copy of ", graph_.value(id).name,
                                 where == Where::kHost ? " to the host" : " to the device"));
    program::CopyThunk* const copy = Make(thunk, &program::Thunk::set_allocated_copy);
    SetRef(id, HomeOf(id), copy->mutable_from());
    SetRef(id, where, copy->mutable_to());
  }
  template <typename Ids>
  void BringAll(const Ids& ids, Where where) {
    for (const ValueId id : ids) Bring(id, where);
  }

  void AddConstant(const Tensor& tensor) {
    program::Constant* const constant = AddTo(out_.program.mutable_constants());
    constant->set_dtype(static_cast<uint32_t>(tensor.dtype()));
    for (const int64_t extent : tensor.shape()) constant->add_shape(extent);
    out_.constants.push_back(tensor.is_dense() ? tensor : tensor.Clone());
  }

  void SetRef(ValueId id, const Shape& shape, Where where, program::TensorRef* ref) {
    ref->set_buffer(BufferOf(id, where));
    ref->set_dtype(static_cast<uint32_t>(graph_.value(id).type));
    SetShape(shape, ref->mutable_shape());
  }
  void SetRef(ValueId id, Where where, program::TensorRef* ref) {
    SetRef(id, graph_.value(id).shape, where, ref);
  }

  void AddOutput(int k) {
    const Graph::Output& output = graph_.outputs()[static_cast<size_t>(k)];
    const Value& value = graph_.value(output.value);
    program::Port* const port = AddTo(out_.program.mutable_outputs());
    port->set_name(output.name);
    port->set_dtype(static_cast<uint32_t>(value.type));
    SetShape(value.shape, port->mutable_shape());
    const ValueId source = moves_.ThroughViews(output.value);
    if (const auto written = output_of_.find(source);
        written != output_of_.end() && written->second == k) {
      Bring(source, Where::kHost);
      port->set_buffer(BufferOf(source, Where::kHost));
      return;
    }
    const int buffer = out_.program.buffers_size();
    NewBuffer(output.value, program::Buffer::OUTPUT, k);
    port->set_buffer(buffer);
    program::Thunk* const thunk = AddTo(region_->mutable_thunks());
    thunk->set_name(absl::StrCat("copy to ", output.name));
    program::CopyThunk* const copy = Make(thunk, &program::Thunk::set_allocated_copy);
    SetRef(output.value, HomeOf(output.value), copy->mutable_from());
    program::TensorRef* const to = copy->mutable_to();
    SetRef(output.value, HomeOf(output.value), to);
    to->set_buffer(buffer);
  }

  program::Thunk* NewThunk(const Group& group) {
    program::Thunk* const thunk = AddTo(region_->mutable_thunks());
    thunk->set_name(NameOf(graph_, group));
    return thunk;
  }

  // Where what is seen lies.
  void AddView(const Group& group, const StridedView& from, ValueId to) {
    const Where where = HomeOf(from.base);
    home_of_[to] = where;
    if (graph_.value(from.base).constant.has_value() || constant_views_.count(from.base) != 0)
      constant_views_.emplace(to, from);
    program::ViewThunk* const view = NewThunk(group)->mutable_view();
    SetStridedRef(from, where, view->mutable_from());
    SetRef(to, where, view->mutable_to());
  }

  void AddRows(const Group& group, const std::vector<StridedView>& rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
      AddView(group, rows[i], graph_.node(group.nodes[i]).outputs.front());
    }
  }

  // A copy for each part, which the executor leaves out where the part is written in its place.
  void AddParts(const Group& group) {
    const Node& node = graph_.node(group.nodes.front());
    const ValueId whole = node.outputs.front();
    const auto item = static_cast<int64_t>(SizeOf(graph_.value(whole).type));
    const bool all = std::all_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId part) { return HomeOf(part) == Where::kDevice; });
    const Where where = all ? Where::kDevice : Where::kHost;
    BringAll(node.inputs, where);
    home_of_[whole] = where;
    Dim offset = 0;
    for (const ValueId part : node.inputs) {
      program::CopyThunk* const copy = Make(NewThunk(group), &program::Thunk::set_allocated_copy);
      SetRef(part, where, copy->mutable_from());
      SetRef(whole, graph_.value(part).shape, where, copy->mutable_to());
      if (!offset.IsConst(0)) copy->mutable_to()->set_offset(offset.ToString());
      offset = offset + Product(graph_.value(part).shape) * Dim(item);
    }
  }

  absl::Status AddGroup(const Group& group) {
    const std::vector<StridedView>& rows = moves_.RowsOf(group);
    if (!rows.empty()) {
      AddRows(group, rows);
      return absl::OkStatus();
    }
    if (moves_.IsConcatOfParts(group)) {
      AddParts(group);
      return absl::OkStatus();
    }
    switch (group.kind) {
      case Group::Kind::kKernel:
        return AddKernel(group);
      case Group::Kind::kView: {
        const Node& node = graph_.node(group.nodes.front());
        const ValueId from = node.inputs.front();
        AddView(group, DenseView(graph_, from), node.outputs.front());
        return absl::OkStatus();
      }
      case Group::Kind::kLibrary:
        return AddLibrary(group);
      case Group::Kind::kHost:
        return AddHost(group, Make(NewThunk(group), &program::Thunk::set_allocated_host));
    }
    return absl::InternalError("program: unknown kind of group");
  }

  absl::Status AddKernel(const Group& group) {
    absl::StatusOr<LoweredGroup> lowered = lowered_.Lower(group);
    if (!lowered.ok()) {
      return absl::Status(lowered.status().code(),
                          absl::StrCat("node \"", NameOf(graph_, group), "\" (",
                                       OpsOf(graph_, group), "): ", lowered.status().message()));
    }
    KILN_ASSIGN_OR_RETURN(const int kernel, KernelIndex(group, *lowered));
    const bool compiled = !out_.program.kernels(kernel).choices(0).schedule().empty();
    const Where where = device_memory_ && compiled ? Where::kDevice : Where::kHost;
    BringAll(lowered->inputs, where);
    program::KernelThunk* const thunk =
        Make(NewThunk(group), &program::Thunk::set_allocated_kernel);
    thunk->set_kernel(kernel);
    for (size_t k = 0; k < lowered->inputs.size(); ++k) {
      SetRef(lowered->inputs[k], lowered->input_shapes[k], where, AddTo(thunk->mutable_inputs()));
    }
    for (const Dim& extent : lowered->dims) *AddTo(thunk->mutable_dims()) = extent.ToString();
    for (std::string& bytes : lowered->params) *AddTo(thunk->mutable_params()) = std::move(bytes);
    for (size_t k = 0; k < lowered->outputs.size(); ++k) {
      home_of_[lowered->outputs[k]] = where;
      SetRef(lowered->outputs[k], lowered->output_shapes[k], where,
             AddTo(thunk->mutable_outputs()));
    }
    return absl::OkStatus();
  }

  // The kernel's place in the program; equal text with equal choices is stored once.
  absl::StatusOr<int> KernelIndex(const Group& group, const LoweredGroup& lowered) {
    const Kernel& kernel = lowered.canonical.kernel;
    program::KernelDef def;
    def.set_text(Print(kernel));
    const SizeClass known = KnownExtents(lowered);
    // Choices follow from text and extents, unless somebody else makes them.
    int* const chosen = options_.tuner == nullptr && !options_.choose
                            ? &chosen_.try_emplace({def.text(), known.at_most}, -1).first->second
                            : nullptr;
    if (chosen != nullptr && *chosen >= 0) return *chosen;
    def.set_grain(GrainFor(kernel, machine_));
    if (AcceptsKernel(kernel, machine_.target)) {
      AddChoices(lowered, known, def);
    } else {
      AddTo(def.mutable_choices())->set_row_step(1);  // for the VM
    }
    const auto [at, is_new] =
        kernels_.emplace(def.SerializeAsString(), out_.program.kernels_size());
    if (is_new) {
      if (dump_) dump_("kernel", absl::StrCat("kernel", at->second), def.text());
      def.set_name(OpsOf(graph_, group));
      *AddTo(out_.program.mutable_kernels()) = std::move(def);
    }
    if (chosen != nullptr) *chosen = at->second;
    return at->second;
  }

  Schedule ChooseFor(const LoweredGroup& lowered, const SizeClass& sizes) const {
    const Kernel& kernel = lowered.canonical.kernel;
    const std::vector<Candidate> candidates =
        CandidatesFor(kernel, sizes, machine_, options_.workspace_limit);
    if (options_.tuner == nullptr) return candidates.front().schedule;
    return options_.tuner->Choose(
        {&kernel, sizes, lowered.params,
         ExtentsToTime(lowered.dims, graph_.guards(), sizes, options_.tune_at)},
        candidates);
  }

  static SizeClass KnownExtents(const LoweredGroup& lowered) {
    SizeClass known;
    for (const Dim& extent : lowered.dims)
      known.at_most.push_back(extent.constant().value_or(kUnbounded));
    return known;
  }

  void AddChoices(const LoweredGroup& lowered, const SizeClass& known, program::KernelDef& def) {
    const Kernel& kernel = lowered.canonical.kernel;
    for (const SizeClass& sizes : SizeClassesFor(kernel, known)) {
      std::optional<Schedule> schedule;
      if (options_.choose) schedule = options_.choose(kernel, sizes);
      if (!schedule) schedule = ChooseFor(lowered, sizes);
      SetChoice(*schedule, sizes, AddTo(def.mutable_choices()));
    }
  }

  // Library operators are the host's, or a library's of the device.
  absl::Status AddLibrary(const Group& group) {
    const LibraryCall& call = *group.call;
    const Node& node = graph_.node(call.op);
    const bool on_device = device_memory_ && IsDeviceCall(graph_, node, library_);
    const Where where = on_device ? Where::kDevice : Where::kHost;
    for (const StridedView& input : call.inputs) Bring(input.base, where);
    program::LibraryThunk* const thunk =
        Make(NewThunk(group), &program::Thunk::set_allocated_library);
    thunk->set_op(node.op->name);
    KILN_RETURN_IF_ERROR(AddAttributes(node, *thunk));
    for (const StridedView& input : call.inputs) {
      program::TensorRef* const ref = AddTo(thunk->mutable_inputs());
      if (input.base.valid()) {
        SetStridedRef(input, where, ref);
      } else {
        ref->set_buffer(-1);
      }
    }
    home_of_[call.output.base] = where;
    SetStridedRef(call.output, where, AddTo(thunk->mutable_outputs()));
    for (size_t k = 1; k < node.outputs.size(); ++k) {
      home_of_[node.outputs[k]] = where;
      SetRef(node.outputs[k], where, AddTo(thunk->mutable_outputs()));
    }
    for (const LibraryPostOp& op : call.post_ops) {
      program::PostOp* const post_op = AddTo(thunk->mutable_post_ops());
      post_op->set_name(op.name);
      post_op->mutable_numbers()->Add(op.numbers.begin(), op.numbers.end());
    }
    return absl::OkStatus();
  }

  static absl::Status AddAttributes(const Node& node, program::LibraryThunk& thunk) {
    for (const AttrSpec& spec : node.op->attrs) {
      // Operands have their types and extents.
      if (spec.kind == AttrKind::kType || spec.kind == AttrKind::kDims) continue;
      const bool one = spec.kind == AttrKind::kInt;
      if (!one && spec.kind != AttrKind::kInts) {
        return absl::InternalError(absl::StrCat("library operator ", node.op->name,
                                                ": attribute \"", spec.name,
                                                "\" is not of integers"));
      }
      program::Attribute* const attribute = AddTo(thunk.mutable_attributes());
      attribute->set_name(spec.name);
      const std::vector<int64_t> values =
          one ? std::vector<int64_t>{IntAttr(node, spec.name)} : IntsAttr(node, spec.name);
      attribute->mutable_ints()->Add(values.begin(), values.end());
    }
    return absl::OkStatus();
  }

  void SetStridedRef(const StridedView& view, Where where, program::TensorRef* ref) {
    SetRef(view.base, view.shape, where, ref);
    const auto item = static_cast<int64_t>(SizeOf(graph_.value(view.base).type));
    if (!view.offset.IsConst(0)) ref->set_offset((view.offset * Dim(item)).ToString());
    if (!IsDense(view)) SetShape(view.strides, ref->mutable_strides());
  }

  absl::Status AddHost(const Group& group, program::HostThunk* thunk) {
    const Node& node = graph_.node(group.nodes.front());
    const Value& value = graph_.value(node.outputs.front());
    if (!value.shape_content.has_value() || node.outputs.size() != 1) {
      return absl::UnimplementedError(
          absl::StrCat("node \"", node.name, "\" (", node.op->name,
                       "): its result depends on data in a way that cannot run yet"));
    }
    thunk->set_op("dims");
    for (const Dim& element : *value.shape_content)
      *AddTo(thunk->mutable_dims()) = element.ToString();
    SetRef(node.outputs.front(), Where::kHost, AddTo(thunk->mutable_outputs()));
    return absl::OkStatus();
  }

  const Graph& graph_;
  const Grouping& grouping_;
  const CompileOptions& options_;
  const Machine& machine_;
  const bool device_memory_;  // kernels run on a device with memory of its own
  const LibraryRules library_;
  const DumpFn& dump_;
  LoweredGroups lowered_;
  const ElementMoves moves_;
  BuiltProgram out_;
  program::Region* region_ = nullptr;
  std::map<std::pair<ValueId, Where>, int> buffer_of_;
  std::map<ValueId, StridedView> constant_views_;  // values that are views of constants
  std::map<ValueId, Where> home_of_;               // of what thunks write; others' is the host
  std::map<ValueId, int> constant_of_;             // index of a constant
  std::map<ValueId, int> output_of_;               // value written by a thunk -> program output
  std::map<std::string, int> kernels_;             // serialised KernelDef -> index
  // (text, known extents) -> index, of kernels whose choices these decide; -1: being chosen
  std::map<std::pair<std::string, std::vector<int64_t>>, int> chosen_;
};

}  // namespace

program::Program PortsOf(const Graph& graph) {
  program::Program program;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    program::Port* const port = AddTo(program.mutable_inputs());
    port->set_name(value.name);
    port->set_dtype(static_cast<uint32_t>(value.type));
    SetShape(value.shape, port->mutable_shape());
    if (value.shape_content) SetShape(*value.shape_content, port->mutable_elements());
    port->set_buffer(-1);
  }
  for (const Graph::Output& output : graph.outputs()) {
    program::Port* const port = AddTo(program.mutable_outputs());
    port->set_name(output.name);
    port->set_dtype(static_cast<uint32_t>(graph.value(output.value).type));
    SetShape(graph.value(output.value).shape, port->mutable_shape());
  }
  return program;
}

absl::StatusOr<BuiltProgram> BuildProgram(const Graph& graph, const Grouping& grouping,
                                          const CompileOptions& options) {
  return Builder(graph, grouping, options).Build();
}

}  // namespace kiln
