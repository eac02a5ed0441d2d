// SPDX-License-Identifier: Apache-2.0
#include "exec/plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/batch_tiling.h"
#include "exec/kernel_form.h"
#include "exec/kernel_operands.h"
#include "exec/needed_thunks.h"
#include "exec/operands.h"
#include "exec/plan_verifier.h"
#include "exec/resolve.h"
#include "exec/sample_tiling.h"
#include "exec/vm/vm.h"

namespace kiln {
namespace {

constexpr size_t kBufferWords = sizeof(BufferArg) / sizeof(uint64_t);
static_assert(sizeof(BufferArg) % sizeof(uint64_t) == 0 && alignof(BufferArg) <= sizeof(uint64_t));

constexpr int64_t kDefaultGrain = 1 << 15;  // speed
constexpr double kProductsPerElement = 16;  // speed
// A plan of less work, some 50 us, is serial: to wake a thread that sleeps takes as long.
constexpr double kSerialGrains = 4;  // speed
// And so is a library call of less.
constexpr double kAloneGrains = 0.5;  // speed
// From this on, some 10 us, kernels are cut into tasks, which threads that are awake may share.
constexpr double kOpportunisticGrains = 1;  // speed

template <typename... T>
absl::Status Invalid(const T&... text) {
  return absl::InvalidArgumentError(absl::StrCat(text...));
}

bool AllEmpty(const std::vector<ResolvedRef>& refs) {
  for (const ResolvedRef& ref : refs) {
    if (ref.elements > 0) return false;
  }
  return true;
}

bool AnyEmpty(const std::vector<ResolvedRef>& refs) {
  return std::any_of(refs.begin(), refs.end(),
                     [](const ResolvedRef& ref) { return ref.elements == 0; });
}

// halide_type_code_t and bits.
std::pair<uint8_t, uint8_t> TypeCode(DType type) {
  const auto bits = static_cast<uint8_t>(8 * SizeOf(type));
  if (type == DType::kBF16) return {4, bits};
  if (IsFloat(type)) return {2, bits};
  return {IsSigned(type) ? 0 : 1, bits};
}

std::vector<OperandShape> ShapesOf(const std::vector<ResolvedRef>& inputs,
                                   const std::vector<ResolvedRef>& outputs) {
  std::vector<OperandShape> shapes;
  for (const auto* refs : {&inputs, &outputs}) {
    for (const ResolvedRef& ref : *refs)
      shapes.push_back({ref.shape, ref.strides, static_cast<int64_t>(SizeOf(ref.type))});
  }
  return shapes;
}

// What does not fit belongs to dims of which a piece has one coordinate.
int32_t Clamped(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(),
                                                  std::numeric_limits<int32_t>::max()));
}

}  // namespace

class PlanBuilder {
 public:
  PlanBuilder(std::shared_ptr<const CheckedProgram> program, const SymbolValues& symbols,
              const std::vector<bool>& present, const std::vector<bool>& wanted,
              const std::shared_ptr<library::Session>& session, const library::Choosing& choosing,
              const PlanOptions& options)
      : plan_(new ExecutionPlan()),
        program_(*program),
        symbols_(symbols),
        present_(present),
        wanted_(wanted),
        session_(session),
        choosing_(choosing),
        options_(options) {
    plan_->program_ = std::move(program);
  }

  absl::StatusOr<std::shared_ptr<const ExecutionPlan>> Build() {
    if (present_.size() != program_.inputs.size() || wanted_.size() != program_.outputs.size())
      return Invalid("program: one flag per input and output is needed");
    needed_ = NeededThunks(program_, wanted_);
    KILN_RETURN_IF_ERROR(SizeBuffers());
    operands_.resize(program_.thunks.size());
    prepared_.resize(program_.thunks.size());
    problem_.steps.resize(program_.thunks.size());
    for (size_t t = 0; t < program_.thunks.size(); ++t)
      if (needed_[t]) KILN_RETURN_IF_ERROR(Named(t, ResolveOperands(t)));
    ChooseThreads();
    if (options_.by_samples) {
      KILN_RETURN_IF_ERROR(TileSamples());
    } else {
      tilings_ = TileBatch(program_, session_->threads(), operands_, problem_);
    }
    lanes_.assign(program_.thunks.size(), 1);
    for (const BatchTiling& tiling : tilings_) {
      std::fill_n(lanes_.begin() + static_cast<ptrdiff_t>(tiling.begin), tiling.end - tiling.begin,
                  tiling.lanes);
    }
    for (size_t t = 0; t < program_.thunks.size(); ++t)
      if (needed_[t]) KILN_RETURN_IF_ERROR(Named(t, PrepareThunk(t)));
    KILN_ASSIGN_OR_RETURN(plan_->placement_,
                          PlaceBuffers(problem_, options_.separate_buffers, options_.plan_memory));
    if (options_.verified) KILN_RETURN_IF_ERROR(VerifyPlacement(problem_, plan_->placement_));
    plan_->donations_ = Donations(problem_, plan_->placement_);
    plan_->patches_.resize(1 + program_.inputs.size() + program_.outputs.size());
    AddSteps();
    for (const Tensor& constant : program_.variant->constants)
      plan_->constant_bytes_ += constant.size_bytes();
    for (const PlacementProblem::Buffer& buffer : problem_.buffers)
      plan_->buffer_bytes_.push_back(buffer.bytes);
    plan_->MakeReport();
    if (options_.separate_buffers)
      plan_->arena_ranges_ = ArenaRangesOf(problem_, plan_->placement_, lanes_);
    if (options_.verified)
      plan_->problem_ = std::make_unique<const PlacementProblem>(std::move(problem_));
    return std::move(plan_);
  }

 private:
  using Space = PlacementProblem::Space;
  // Whose addresses are filled in: a lane of a tiling (batch_tiling.h), outside tilings the only
  // one.
  struct LaneAt {
    int64_t number = 0;
    int64_t first = 0;  // of its parts
  };

  absl::Status Named(size_t t, const absl::Status& status) const {
    if (status.ok()) return status;
    return Annotate(status, absl::StrCat("thunk ", t, " \"", program_.thunks[t].name, "\""));
  }

  absl::Status SizeBuffers() {
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      const CheckedBuffer& buffer = program_.buffers[b];
      PlacementProblem::Buffer sized;
      sized.device = buffer.device;
      bool absent = false;
      switch (buffer.kind) {
        case program::Buffer::INPUT:
          sized.space = Space::kInput;
          absent = !present_[static_cast<size_t>(buffer.index)];
          break;
        case program::Buffer::OUTPUT:
          if (wanted_[static_cast<size_t>(buffer.index)]) sized.space = Space::kOutput;
          break;
        case program::Buffer::CONSTANT:
          sized.space = Space::kConstant;
          break;
        default:
          break;
      }
      absent_.push_back(absent);
      if (!absent) {
        const absl::StatusOr<int64_t> bytes = buffer.bytes.Evaluate(symbols_);
        const std::string subject = absl::StrCat("buffer ", b, " \"", buffer.name, "\"");
        if (!bytes.ok()) return Annotate(bytes.status(), subject);
        if (*bytes < 0) return Invalid(subject, ": ", *bytes, " bytes");
        sized.bytes = *bytes;
      }
      problem_.buffers.push_back(sized);
    }
    for (const CheckedPort& port : program_.outputs) {
      KILN_ASSIGN_OR_RETURN(std::vector<int64_t> shape, Evaluate(port.shape, symbols_));
      if (CheckedBytes(port.type, shape) < 0) {
        return Invalid("output \"", port.name, "\": shape [", absl::StrJoin(shape, ", "),
                       "] is not possible");
      }
      plan_->output_shapes_.push_back(std::move(shape));
    }
    for (const CheckedSubRange& range : program_.sub_ranges) {
      KILN_ASSIGN_OR_RETURN(const int64_t offset, range.offset.Evaluate(symbols_));
      problem_.fixed.push_back({range.buffer, range.of, offset});
    }
    return absl::OkStatus();
  }

  enum class Access { kWrite, kRead, kNone };

  absl::StatusOr<std::vector<ResolvedRef>> ResolveAll(const std::vector<CheckedRef>& refs,
                                                      bool may_be_absent, Access access) {
    std::vector<ResolvedRef> made;
    for (const CheckedRef& ref : refs) {
      if (ref.buffer < 0 || absent_[static_cast<size_t>(ref.buffer)]) {
        if (!may_be_absent) return Invalid("uses input buffer ", ref.buffer, ", which is absent");
        made.emplace_back();
        continue;
      }
      const int64_t bytes = problem_.buffers[static_cast<size_t>(ref.buffer)].bytes;
      KILN_ASSIGN_OR_RETURN(made.emplace_back(),
                            access == Access::kNone   ? ResolveUnread(ref, symbols_)
                            : access == Access::kRead ? Resolve(ref, symbols_, bytes)
                                                      : ResolveWritten(ref, symbols_, bytes));
    }
    return made;
  }

  absl::Status ResolveOperands(size_t t) {
    const CheckedThunk& thunk = program_.thunks[t];
    Operands& operands = operands_[t];
    PlacementProblem::Step& step = problem_.steps[t];
    const bool library = thunk.kind == CheckedThunk::Kind::kLibrary;
    KILN_ASSIGN_OR_RETURN(operands.outputs, ResolveAll(thunk.outputs, false, Access::kWrite));
    // Views are about memory, whatever shapes their ends have.
    const bool unread = thunk.kind != CheckedThunk::Kind::kView && AllEmpty(operands.outputs);
    KILN_ASSIGN_OR_RETURN(
        operands.inputs, ResolveAll(thunk.inputs, library, unread ? Access::kNone : Access::kRead));
    KILN_ASSIGN_OR_RETURN(operands.dims, Evaluate(thunk.dims, symbols_));
    for (const ResolvedRef& ref : operands.inputs) {
      if (ref.buffer >= 0) step.reads.push_back(AccessOf(ref));
    }
    for (const ResolvedRef& ref : operands.outputs) step.writes.push_back(AccessOf(ref));
    return absl::OkStatus();
  }

  // Work of a thunk in elements of a kernel of few operations. A contraction of a and b to y has as
  // many products as the root of the product of their sizes for a matmul or a 1x1 convolution, and
  // roughly so for others; kProductsPerElement of them take the time of an element.
  double Work(const CheckedThunk& thunk, const Operands& operands) const {
    double most = 0;
    for (const ResolvedRef& ref : operands.inputs)
      most = std::max(most, static_cast<double>(ref.elements));
    for (const ResolvedRef& ref : operands.outputs)
      most = std::max(most, static_cast<double>(ref.elements));
    if (thunk.kind == CheckedThunk::Kind::kKernel) {
      const int64_t grain = program_.variant->program.kernels(thunk.kernel).grain();
      return grain > 0 ? most * Grain() / static_cast<double>(grain) : most;
    }
    if (thunk.kind != CheckedThunk::Kind::kLibrary || operands.inputs.size() < 2) return most;
    const auto size = [](const ResolvedRef& ref) { return static_cast<double>(ref.elements); };
    const double products =
        std::sqrt(size(operands.inputs[0]) * size(operands.inputs[1]) * size(operands.outputs[0]));
    return most + products / kProductsPerElement;
  }

  double Grain() const {
    const int64_t given = program_.variant->program.parallel_grain();
    return static_cast<double>(given > 0 ? given : kDefaultGrain);
  }

  void ChooseThreads() {
    double work = 0;
    for (size_t t = 0; t < program_.thunks.size(); ++t)
      work += Work(program_.thunks[t], operands_[t]);
    if (work >= kSerialGrains * Grain()) return;
    plan_->share_ = work < kOpportunisticGrains * Grain() ? Admission::Share::kShared
                                                          : Admission::Share::kOpportunistic;
    session_ = session_->Serial();
  }

  // Each library operator that is cut is a tiling of its own. Whether it works on all threads is
  // asked of one sample of the whole program, and of it, so that it does not depend on the batch:
  // where not, each lane has samples of its own.
  absl::Status TileSamples() {
    samples_.resize(program_.thunks.size());
    double work = 0;
    for (size_t t = 0; t < program_.thunks.size(); ++t) {
      if (!needed_[t]) continue;
      absl::StatusOr<SampleCut> cut = CutIntoSamples(program_, program_.thunks[t], operands_[t]);
      if (!cut.ok()) return Named(t, cut.status());
      samples_[t] = *std::move(cut);
      TakeFirstSample(samples_[t], operands_[t]);
      if (samples_[t].samples > 0) work += Work(program_.thunks[t], operands_[t]);
    }
    samples_share_ = work >= kSerialGrains * Grain();
    for (size_t t = 0; t < program_.thunks.size(); ++t) {
      const int64_t samples = samples_[t].samples;
      if (samples <= 1) continue;
      const int64_t lanes = SampleShares(t) ? 1 : LanesFor(samples, session_->threads());
      tilings_.push_back({t, t + 1, samples, lanes});
      problem_.repeats.push_back({t, t + 1, lanes});
    }
    return absl::OkStatus();
  }

  // Whether all threads work on a sample of a step that is cut.
  bool SampleShares(size_t t) const {
    return samples_share_ && Work(program_.thunks[t], operands_[t]) >= kAloneGrains * Grain();
  }

  absl::Status PrepareThunk(size_t t) {
    switch (program_.thunks[t].kind) {
      case CheckedThunk::Kind::kKernel:
        return PrepareKernel(t);
      case CheckedThunk::Kind::kLibrary:
        return PrepareLibrary(t);
      case CheckedThunk::Kind::kView:
        return PrepareView(t);
      case CheckedThunk::Kind::kCopy:
        return PrepareCopy(t);
      case CheckedThunk::Kind::kHostDims:
        return PrepareDims(t);
    }
    return absl::InternalError("unknown thunk");
  }

  // ---- Kernels

  size_t SlotOf(const std::shared_ptr<KernelHandle>& handle) {
    std::vector<std::shared_ptr<KernelHandle>>& kernels = plan_->kernels_;
    const auto found = std::find(kernels.begin(), kernels.end(), handle);
    if (found != kernels.end()) return static_cast<size_t>(found - kernels.begin());
    kernels.push_back(handle);
    return kernels.size() - 1;
  }

  absl::Status PrepareKernel(size_t t) {
    const CheckedThunk& thunk = program_.thunks[t];
    Operands& operands = operands_[t];
    const auto k = static_cast<size_t>(thunk.kernel);
    KILN_RETURN_IF_ERROR(CheckKernelOperands(program_.kernels[k], operands));
    if (AllEmpty(operands.outputs)) return absl::OkStatus();
    const program::KernelDef& def = program_.variant->program.kernels(thunk.kernel);
    const std::optional<int> choice = ChooseForm(def, operands.dims);
    KernelLaunch launch;
    std::shared_ptr<KernelHandle> handle;  // none: no form is for these extents
    if (choice) {
      const program::KernelChoice& chosen = def.choices(*choice);
      const bool waits = RowsWait(program_.kernels[k], chosen.row_step(), operands.dims);
      for (int i = 0; i < chosen.in_place_size() && !waits; i += 2) {
        problem_.steps[t].in_place.emplace_back(chosen.in_place(i), chosen.in_place(i + 1));
      }
      handle = program_.variant->kernels[k][static_cast<size_t>(*choice)];
    }
    const Kernel& kernel = program_.kernels[k];
    const std::vector<OperandShape> shapes = ShapesOf(operands.inputs, operands.outputs);
    if (!FitsAtOnce(kernel, operands.dims, shapes)) {
      launch.pieces = PlanPieces(kernel, operands.dims, shapes);
      launch.large = !launch.pieces.has_value();
    }
    if (handle == nullptr || launch.large || AnyEmpty(operands.inputs)) {
      KILN_ASSIGN_OR_RETURN(handle, OnVm(kernel, launch.large ? &RunLargeVm : &RunVm));
    }
    launch.exceeds_cache = ExceedsCache(shapes, kernel.inputs.size());
    launch.slot = SlotOf(handle);
    launch.inputs = kernel.inputs.size();
    launch.params = thunk.params;
    for (int64_t lane = 0; lane < lanes_[t]; ++lane) prepared_[t].emplace_back(launch);
    return absl::OkStatus();
  }

  // Fills in the block of arguments. The vectors of the launch have their final size before any
  // address in them is taken.
  void FinishKernel(KernelLaunch& launch, const Operands& operands, const LaneAt& lane) {
    std::vector<const ResolvedRef*> refs;
    for (const ResolvedRef& ref : operands.inputs) refs.push_back(&ref);
    for (const ResolvedRef& ref : operands.outputs) refs.push_back(&ref);
    size_t axes = 0;
    for (const ResolvedRef* ref : refs) axes += ref->shape.size();
    launch.dims.resize(axes);
    if (launch.large) launch.large_dims.resize(axes);
    launch.operands = refs.size();
    launch.buffers = AddWords(refs.size() * kBufferWords);
    size_t at = 0;
    for (size_t i = 0; i < refs.size(); ++i) {
      const ResolvedRef& ref = *refs[i];
      BufferArg buffer;
      std::tie(buffer.type_code, buffer.type_bits) = TypeCode(ref.type);
      buffer.dimensions = static_cast<int32_t>(ref.shape.size());
      buffer.dim = launch.large ? reinterpret_cast<BufferDim*>(launch.large_dims.data() + at)
                                : launch.dims.data() + at;
      for (size_t axis = ref.shape.size(); axis-- > 0; ++at) {  // innermost first
        launch.dims[at] = {0, Clamped(ref.shape[axis]), Clamped(ref.strides[axis]), 0};
        if (launch.large) launch.large_dims[at] = {ref.shape[axis], ref.strides[axis]};
      }
      const Word word = launch.buffers + i * kBufferWords;
      std::memcpy(&plan_->words_[word], &buffer, sizeof buffer);
      AddPatch(word + offsetof(BufferArg, host) / sizeof(uint64_t), ref, lane);
    }
    for (const int64_t extent : operands.dims) launch.extents.push_back(Clamped(extent));
    if (launch.large) launch.large_extents = operands.dims;
    AddArgv(launch);
  }

  void AddArgv(KernelLaunch& launch) {
    const size_t dims = launch.extents.size();
    launch.argv = AddWords(1 + launch.operands + dims + launch.params.size());
    Word word = launch.argv + 1;
    const auto add_buffers = [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i)
        plan_->links_.push_back({word++, launch.buffers + i * kBufferWords});
    };
    add_buffers(0, launch.inputs);
    for (size_t d = 0; d < dims; ++d) {
      SetWord(word++, launch.large ? static_cast<const void*>(&launch.large_extents[d])
                                   : &launch.extents[d]);
    }
    for (const uint64_t& param : launch.params) SetWord(word++, &param);
    add_buffers(launch.inputs, launch.operands);
  }

  // ---- Library operators

  const void* ConstantData(const ResolvedRef& ref) const {
    const CheckedBuffer& buffer = program_.buffers[static_cast<size_t>(ref.buffer)];
    if (buffer.kind != program::Buffer::CONSTANT) return nullptr;
    const Tensor& tensor = program_.variant->constants[static_cast<size_t>(buffer.index)];
    return static_cast<const uint8_t*>(tensor.data()) + ref.offset;
  }

  absl::Status PrepareLibrary(size_t t) {
    const CheckedThunk& thunk = program_.thunks[t];
    Operands& operands = operands_[t];
    if (AllEmpty(operands.outputs)) return absl::OkStatus();
    library::Request request;
    request.attributes = thunk.attributes;
    request.post_ops = thunk.post_ops;
    for (const ResolvedRef& ref : operands.inputs) {
      if (ref.buffer < 0) {
        request.inputs.push_back({false, DType::kF32, {}, {}, nullptr});
      } else {
        // What moves from part to part is packed for none.
        const void* const constant = ref.part_bytes == 0 ? ConstantData(ref) : nullptr;
        request.inputs.push_back({true, ref.type, ref.shape, ref.strides, constant});
      }
    }
    for (const ResolvedRef& ref : operands.outputs) {
      request.outputs.push_back({true, ref.type, ref.shape, ref.strides, nullptr});
    }
    for (int64_t lane = 0; lane < lanes_[t]; ++lane) {
      LibraryLaunch launch;
      launch.state = plan_->states_++;
      KILN_ASSIGN_OR_RETURN(launch.primitive,
                            library::MakeChosen(*thunk.op, request, SessionFor(t), choosing_));
      problem_.steps[t].scratch = launch.primitive->scratch_bytes();
      if (lane == 0) plan_->constant_bytes_ += launch.primitive->packed_bytes();
      prepared_[t].emplace_back(std::move(launch));
    }
    return absl::OkStatus();
  }

  // Lanes have a thread each, and small calls are over before another thread has its part.
  const std::shared_ptr<library::Session>& SessionFor(size_t t) {
    const bool cut = options_.by_samples && samples_[t].samples > 0;
    const bool shares =
        cut ? SampleShares(t)
            : lanes_[t] == 1 && Work(program_.thunks[t], operands_[t]) >= kAloneGrains * Grain();
    if (session_->threads() == 1 || shares) return session_;
    if (alone_ == nullptr) alone_ = session_->Serial();
    return alone_;
  }

  void FinishLibrary(LibraryLaunch& launch, const Operands& operands, size_t t,
                     const LaneAt& lane) {
    launch.inputs = AddWords(operands.inputs.size());
    launch.outputs = AddWords(operands.outputs.size());
    launch.scratch = AddWords(1);
    for (size_t i = 0; i < operands.inputs.size(); ++i) {
      if (operands.inputs[i].buffer >= 0) AddPatch(launch.inputs + i, operands.inputs[i], lane);
    }
    for (size_t i = 0; i < operands.outputs.size(); ++i)
      AddPatch(launch.outputs + i, operands.outputs[i], lane);
    const int64_t scratch = plan_->placement_.scratch_offset[t];
    if (scratch < 0) return;
    const int64_t step = plan_->placement_.scratch_step[t];
    plan_->patches_[0].push_back({launch.scratch, scratch + lane.number * step});
  }

  // ---- Views, copies, values of dims

  // A view is about memory: it covers all bytes of the new buffer, whatever shapes its ends are
  // written with.
  absl::Status PrepareView(size_t t) {
    PlacementProblem::Access &from = problem_.steps[t].reads[0], &to = problem_.steps[t].writes[0];
    const int64_t bytes = problem_.buffers[static_cast<size_t>(to.buffer)].bytes;
    const int64_t offset = operands_[t].inputs[0].offset;
    const int64_t room = problem_.buffers[static_cast<size_t>(from.buffer)].bytes - offset;
    if (bytes > room) return Invalid("the view needs ", bytes, " bytes; its source has ", room);
    problem_.steps[t].view = true;
    from = {from.buffer, offset, offset + bytes, true, 1};
    to = {to.buffer, 0, bytes, true, 1};
    return absl::OkStatus();
  }

  absl::Status PrepareCopy(size_t t) {
    Operands& operands = operands_[t];
    const ResolvedRef &from = operands.inputs[0], &to = operands.outputs[0];
    if (from.shape != to.shape) {
      return Invalid("copies [", absl::StrJoin(from.shape, ", "), "] to [",
                     absl::StrJoin(to.shape, ", "), "]");
    }
    if (to.elements == 0) return absl::OkStatus();
    if (IsPart(t)) {
      problem_.steps[t].view = true;
      return absl::OkStatus();
    }
    CopyLaunch launch;
    launch.copy = StridedCopy(to.shape, from.strides, to.strides, SizeOf(to.type));
    prepared_[t].emplace_back(std::move(launch));
    return absl::OkStatus();
  }

  // A dense copy into a part of a temporary or an output: what it copies may be written there.
  bool IsPart(size_t t) const {
    const PlacementProblem::Access &from = problem_.steps[t].reads[0],
                                   &to = problem_.steps[t].writes[0];
    const Operands& operands = operands_[t];
    const auto dense = [](const ResolvedRef& ref) {
      return ref.strides == DenseStrides(ref.shape);
    };
    return dense(operands.inputs[0]) && dense(operands.outputs[0]) && from.item == to.item &&
           to.end - to.begin < problem_.buffers[static_cast<size_t>(to.buffer)].bytes;
  }

  absl::Status PrepareDims(size_t t) {
    Operands& operands = operands_[t];
    const ResolvedRef& to = operands.outputs[0];
    const auto count = static_cast<int64_t>(operands.dims.size());
    if (to.elements != count)
      return Invalid(count, " values for a tensor of ", to.elements, " elements");
    if (count == 0) return absl::OkStatus();
    DimsLaunch launch;
    KILN_ASSIGN_OR_RETURN(launch.bytes, BytesOf(operands.dims, to.type));
    launch.copy = StridedCopy(to.shape, DenseStrides(to.shape), to.strides, SizeOf(to.type));
    prepared_[t].emplace_back(std::move(launch));
    return absl::OkStatus();
  }

  void AddViewCopy(size_t t) {
    const PlacementProblem::Access &from = problem_.steps[t].reads[0],
                                   &to = problem_.steps[t].writes[0];
    CopyLaunch launch;
    launch.copy = StridedCopy({to.end - to.begin}, {1}, {1}, 1);
    PlanStep& step = plan_->steps_.emplace_back();
    step.launch = std::move(launch);
    step.thunk = t;
    step.bytes = 2 * (to.end - to.begin);
    CopyLaunch& placed = std::get<CopyLaunch>(step.launch);
    placed.from = AddWords(2);
    placed.to = placed.from + 1;
    AddPatch(placed.from, from.buffer, from.begin, {});
    AddPatch(placed.to, to.buffer, to.begin, {});
    if (!options_.watched) return;
    const std::vector<int64_t> bytes = {to.end - to.begin};
    step.inputs = 1;
    step.operands = {{from.buffer, DType::kU8, bytes, {1}}, {to.buffer, DType::kU8, bytes, {1}}};
  }

  // For who watches the launches.
  void AddOperands(const Operands& operands, PlanStep& step) {
    step.inputs = operands.inputs.size();
    for (const auto* refs : {&operands.inputs, &operands.outputs}) {
      for (const ResolvedRef& ref : *refs)
        step.operands.push_back({ref.buffer, ref.type, ref.shape, ref.strides});
    }
  }

  // ---- Putting it together

  // `count` more words of the block of arguments, all 0.
  Word AddWords(size_t count) {
    const Word first = plan_->words_.size();
    plan_->words_.resize(first + count);
    return first;
  }
  void SetWord(Word word, const void* address) {
    plan_->words_[word] = reinterpret_cast<uintptr_t>(address);
  }

  void AddPatch(Word word, const ResolvedRef& ref, const LaneAt& lane) {
    AddPatch(word, ref.buffer, ref.offset + lane.first * ref.part_bytes, lane);
    if (ref.part_bytes != 0)
      plan_->tilings_.back().lanes[static_cast<size_t>(lane.number)].moving.push_back(
          {word, ref.part_bytes});
  }

  // `word` holds the address of an operand. Empty operands of a launch get one they never use.
  void AddPatch(Word word, int32_t buffer, int64_t offset, const LaneAt& lane) {
    const Placement::Place& place = plan_->placement_.places[static_cast<size_t>(buffer)];
    const auto root = static_cast<size_t>(place.root);
    const auto index = static_cast<size_t>(program_.buffers[root].index);
    offset += place.offset;
    switch (problem_.buffers[root].space) {
      case Space::kInput:
        plan_->patches_[1 + index].push_back({word, offset});
        break;
      case Space::kOutput:
        plan_->patches_[1 + program_.inputs.size() + index].push_back({word, offset});
        break;
      case Space::kConstant:
        SetWord(word,
                static_cast<const uint8_t*>(program_.variant->constants[index].data()) + offset);
        break;
      case Space::kTemporary:
        offset +=
            plan_->placement_.arena_offset[root] + lane.number * plan_->placement_.arena_step[root];
        plan_->patches_[0].push_back({word, offset});
        break;
    }
  }

  void Finish(PlanLaunch& launch, const Operands& operands, size_t t, const LaneAt& lane) {
    if (auto* kernel = std::get_if<KernelLaunch>(&launch)) {
      FinishKernel(*kernel, operands, lane);
    } else if (auto* library = std::get_if<LibraryLaunch>(&launch)) {
      FinishLibrary(*library, operands, t, lane);
    } else if (auto* copy = std::get_if<CopyLaunch>(&launch)) {
      copy->from = AddWords(2);
      copy->to = copy->from + 1;
      AddPatch(copy->from, operands.inputs[0], lane);
      AddPatch(copy->to, operands.outputs[0], lane);
    } else if (auto* dims = std::get_if<DimsLaunch>(&launch)) {
      dims->to = AddWords(1);
      AddPatch(dims->to, operands.outputs[0], lane);
    }
  }

  void AddStep(size_t t, const BatchTiling& tiling) {
    Operands& operands = operands_[t];
    if (plan_->placement_.copies[t]) AddViewCopy(t);
    if (prepared_[t].empty()) return;
    PlanStep& step = plan_->steps_.emplace_back();
    step.launch = std::move(prepared_[t].front());
    std::move(prepared_[t].begin() + 1, prepared_[t].end(), std::back_inserter(step.others));
    step.thunk = t;
    step.times = tiling.parts;
    for (const ResolvedRef& ref : operands.inputs) step.bytes += ref.bytes() * step.times;
    for (const ResolvedRef& ref : operands.outputs) step.bytes += ref.bytes() * step.times;
    if (options_.watched) AddOperands(operands, step);
    Finish(step.launch, operands, t, {});
    for (size_t i = 0; i < step.others.size(); ++i) {
      const auto lane = static_cast<int64_t>(i) + 1;
      Finish(step.others[i], operands, t, {lane, FirstPart(tiling, lane)});
    }
  }

  void AddSteps() {
    size_t at = 0;
    const auto add = [&](const BatchTiling& tiling) {
      AddStep(static_cast<size_t>(plan_->placement_.order[at++]), tiling);
    };
    for (const BatchTiling& tiling : tilings_) {
      while (at < tiling.begin) add({});
      PlanTiling& made = plan_->tilings_.emplace_back();
      made.begin = plan_->steps_.size();
      for (int64_t lane = 0; lane < tiling.lanes; ++lane)
        made.lanes.push_back({FirstPart(tiling, lane + 1) - FirstPart(tiling, lane), {}});
      while (at < tiling.end) add(tiling);
      made.end = plan_->steps_.size();
    }
    while (at < program_.thunks.size()) add({});
  }

  std::shared_ptr<ExecutionPlan> plan_;
  const CheckedProgram& program_;
  const SymbolValues& symbols_;
  const std::vector<bool>& present_;
  const std::vector<bool>& wanted_;
  std::shared_ptr<library::Session> session_;
  const library::Choosing& choosing_;
  const PlanOptions options_;
  std::shared_ptr<library::Session> alone_;  // for one thread; made when first needed
  PlacementProblem problem_;
  std::vector<bool> needed_;  // per thunk
  std::vector<bool> absent_;  // per buffer
  std::vector<Operands> operands_;
  std::vector<std::vector<PlanLaunch>> prepared_;  // before buffers have places; empty: no launch
  std::vector<BatchTiling> tilings_;
  std::vector<int64_t> lanes_;      // per thunk
  std::vector<SampleCut> samples_;  // per thunk, where steps are cut into samples
  bool samples_share_ = false;      // a sample of the program has enough work for all threads
};

absl::StatusOr<std::shared_ptr<const ExecutionPlan>> ExecutionPlan::Create(
    std::shared_ptr<const CheckedProgram> program, const SymbolValues& symbols,
    const std::vector<bool>& present, const std::vector<bool>& wanted,
    const std::shared_ptr<library::Session>& session, const library::Choosing& choosing,
    const PlanOptions& options) {
  return PlanBuilder(std::move(program), symbols, present, wanted, session, choosing, options)
      .Build();
}

}  // namespace kiln
