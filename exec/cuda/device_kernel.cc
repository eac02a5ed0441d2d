// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/device_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/cuda/cubin_check.h"
#include "exec/cuda/ptx_parameters.h"
#include "kernel/abi.h"

namespace kiln::cuda {
namespace {

constexpr size_t kMostArguments = 128;                   // correctness: of a function
constexpr size_t kMostScratch = 256;                     // correctness: parts of it in a recipe
constexpr int64_t kMostScratchBytes = int64_t{1} << 48;  // correctness: sums fit
constexpr size_t kScratchAlignment = 256;                // correctness: of each part

// What a recipe asks of a launch whose arguments are as kernel/abi.h says.
class LaunchArguments final : public LaunchFacts {
 public:
  LaunchArguments(void** argv, const DeviceKernel::Counts& counts, const DevicePointer* scratch,
                  size_t num_scratch)
      : inputs_(argv + 1),
        extents_(inputs_ + counts.inputs),
        params_(extents_ + counts.dims),
        outputs_(params_ + counts.params.size()),
        counts_(counts),
        scratch_(scratch),
        num_scratch_(num_scratch) {}

  absl::StatusOr<int64_t> Extent(int64_t dim) const override {
    if (dim < 0 || static_cast<size_t>(dim) >= counts_.dims) return Absent("dim", dim);
    return *static_cast<const int32_t*>(extents_[dim]);
  }
  absl::StatusOr<int64_t> Stride(LaunchOperand operand, int64_t axis) const override {
    const BufferArg* const buffer = BufferOf(operand);
    if (buffer == nullptr) return Absent("operand", operand.number);
    if (axis < 0 || axis >= buffer->dimensions) return Absent("axis", axis);
    return buffer->dim[axis].stride;
  }
  absl::StatusOr<int64_t> Address(LaunchOperand operand) const override {
    if (operand.kind == LaunchOperand::Kind::kScratch) {
      if (static_cast<size_t>(operand.number) >= num_scratch_)
        return Absent("scratch", operand.number);
      return static_cast<int64_t>(scratch_[operand.number]);
    }
    const BufferArg* const buffer = BufferOf(operand);
    if (buffer == nullptr) return Absent("operand", operand.number);
    return reinterpret_cast<int64_t>(buffer->host);
  }
  const void* Param(int32_t number) const { return params_[number]; }

 private:
  static absl::Status Absent(const char* what, int64_t number) {
    return absl::DataLossError(absl::StrCat("launch: there is no ", what, " ", number));
  }
  const BufferArg* BufferOf(LaunchOperand operand) const {
    const bool input = operand.kind == LaunchOperand::Kind::kInput;
    const auto number = static_cast<size_t>(operand.number);
    if (number >= (input ? counts_.inputs : counts_.outputs)) return nullptr;
    return static_cast<const BufferArg*>((input ? inputs_ : outputs_)[number]);
  }

  void** const inputs_;
  void** const extents_;
  void** const params_;
  void** const outputs_;
  const DeviceKernel::Counts& counts_;
  const DevicePointer* const scratch_;
  const size_t num_scratch_;
};

absl::StatusOr<uint64_t> ValueOf(const LaunchArgument& argument, const LaunchArguments& arguments,
                                 const DeviceKernel::Counts& counts) {
  if (argument.kind == LaunchArgument::Kind::kBuffer) {
    KILN_ASSIGN_OR_RETURN(const int64_t address, arguments.Address(argument.operand));
    return static_cast<uint64_t>(address);
  }
  if (argument.kind == LaunchArgument::Kind::kParam) {
    uint64_t value = 0;
    std::memcpy(&value, arguments.Param(argument.param),
                SizeOf(counts.params[static_cast<size_t>(argument.param)]));
    return value;
  }
  KILN_ASSIGN_OR_RETURN(const int64_t value, argument.value.Evaluate(arguments));
  return static_cast<uint64_t>(value);
}

absl::StatusOr<std::array<unsigned, 3>> Sizes(const std::array<LaunchExpr, 3>& exprs,
                                              const LaunchFacts& facts) {
  std::array<unsigned, 3> sizes{};
  for (size_t k = 0; k < 3; ++k) {
    KILN_ASSIGN_OR_RETURN(const int64_t size, exprs[k].Evaluate(facts));
    if (size < 0 || size > INT32_MAX)
      return absl::DataLossError(absl::StrCat("launch: a size is ", size));
    sizes[k] = static_cast<unsigned>(size);
  }
  return sizes;
}

bool AnyZero(const std::array<unsigned, 3>& sizes) {
  return std::find(sizes.begin(), sizes.end(), 0U) != sizes.end();
}

// Whether its condition holds and there is something to do; then `made` is the launch.
absl::StatusOr<bool> EvaluateLaunch(const DeviceLaunch& launch, const LaunchArguments& arguments,
                                    const DeviceKernel::Counts& counts, PreparedLaunch& made) {
  for (const LaunchExpr& when : launch.when) {
    KILN_ASSIGN_OR_RETURN(const int64_t holds, when.Evaluate(arguments));
    if (holds == 0) return false;
  }
  KILN_ASSIGN_OR_RETURN(made.grid, Sizes(launch.grid, arguments));
  KILN_ASSIGN_OR_RETURN(made.block, Sizes(launch.block, arguments));
  if (AnyZero(made.grid) || AnyZero(made.block)) return false;
  KILN_ASSIGN_OR_RETURN(const int64_t shared, launch.shared_bytes.Evaluate(arguments));
  if (shared < 0 || shared > INT32_MAX)
    return absl::DataLossError(absl::StrCat("launch: ", shared, " bytes of shared memory"));
  made.name = &launch.entry;
  made.shared_bytes = static_cast<unsigned>(shared);
  made.values.resize(launch.arguments.size());
  for (size_t k = 0; k < launch.arguments.size(); ++k) {
    KILN_ASSIGN_OR_RETURN(made.values[k], ValueOf(launch.arguments[k], arguments, counts));
    made.params.push_back(&made.values[k]);
  }
  return true;
}

// The driver reads as many arguments, of as many bytes, as a function declares.
absl::Status CheckTaken(absl::string_view text, const DeviceLaunch& launch) {
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> taken, PtxParameters(text, launch.entry));
  if (taken.size() != launch.arguments.size()) {
    return absl::DataLossError(absl::StrCat("launch: function \"", launch.entry, "\" takes ",
                                            taken.size(), " arguments, the recipe has ",
                                            launch.arguments.size()));
  }
  for (size_t k = 0; k < taken.size(); ++k) {
    if (taken[k] > static_cast<int64_t>(sizeof(PreparedLaunch::values[0])))
      return absl::DataLossError(absl::StrCat("launch: function \"", launch.entry, "\" takes ",
                                              taken[k], " bytes as argument ", k));
  }
  return absl::OkStatus();
}

}  // namespace

DeviceKernel::Counts DeviceKernel::Counts::Of(const Kernel& kernel) {
  return {kernel.inputs.size(), kernel.dims.size(), kernel.outputs.size(), kernel.params};
}

absl::StatusOr<std::unique_ptr<DeviceKernel>> DeviceKernel::Load(std::shared_ptr<Gpu> gpu,
                                                                 absl::string_view text,
                                                                 absl::string_view recipe,
                                                                 Counts counts,
                                                                 absl::string_view machine_code) {
  std::unique_ptr<DeviceKernel> kernel(new DeviceKernel);
  KILN_ASSIGN_OR_RETURN(kernel->recipe_, LaunchRecipe::Parse(recipe));
  kernel->counts_ = std::move(counts);
  KILN_RETURN_IF_ERROR(kernel->CheckArguments(text));
  if (!machine_code.empty()) KILN_RETURN_IF_ERROR(CheckCubin(machine_code));
  KILN_ASSIGN_OR_RETURN(
      kernel->module_,
      DeviceModule::Load(std::move(gpu), std::string(machine_code.empty() ? text : machine_code)));
  for (const DeviceLaunch& launch : kernel->recipe_.launches) {
    // What varies may be as much as there is.
    const int64_t shared =
        launch.shared_bytes.Constant().value_or(kernel->module_->gpu()->facts().most_shared_bytes);
    absl::StatusOr<Function> function = kernel->module_->Find(launch.entry, shared);
    if (absl::IsNotFound(function.status()))
      return absl::DataLossError(function.status().message());
    KILN_RETURN_IF_ERROR(function.status());
    kernel->functions_.push_back(*function);
  }
  return kernel;
}

absl::Status DeviceKernel::CheckArguments(absl::string_view text) const {
  const auto wrong = [](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("launch: ", what));
  };
  KILN_RETURN_IF_ERROR(CheckPtx(text));
  if (recipe_.scratch_bytes.size() > kMostScratch) return wrong("too many parts of scratch");
  for (const DeviceLaunch& launch : recipe_.launches) {
    if (launch.arguments.size() > kMostArguments) return wrong("too many arguments");
    for (const LaunchArgument& argument : launch.arguments) {
      const bool param = argument.kind == LaunchArgument::Kind::kParam;
      if (param && static_cast<size_t>(argument.param) >= counts_.params.size())
        return wrong(absl::StrCat("there is no param ", argument.param));
    }
    KILN_RETURN_IF_ERROR(CheckTaken(text, launch));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> PreparedKernel::ScratchBytes() const {
  KILN_ASSIGN_OR_RETURN(const std::vector<DevicePointer> ends, Scratch(0));
  return ends.back();
}

// Where the parts of scratch begin, and where the last ends.
absl::StatusOr<std::vector<DevicePointer>> PreparedKernel::Scratch(DevicePointer base) const {
  const LaunchArguments without(argv_, kernel_->counts_, nullptr, 0);
  std::vector<DevicePointer> begins = {base};
  for (const LaunchExpr& part : kernel_->recipe_.scratch_bytes) {
    KILN_ASSIGN_OR_RETURN(const int64_t bytes, part.Evaluate(without));
    if (bytes > kMostScratchBytes)
      return absl::DataLossError(absl::StrCat("launch: ", bytes, " bytes of scratch"));
    begins.push_back(begins.back() +
                     (static_cast<size_t>(std::max<int64_t>(bytes, 1)) + kScratchAlignment - 1) /
                         kScratchAlignment * kScratchAlignment);
  }
  return begins;
}

const void* PreparedKernel::AddressOf(LaunchOperand operand) const {
  const DeviceKernel::Counts& counts = kernel_->counts_;
  const size_t first = operand.kind == LaunchOperand::Kind::kInput
                           ? 1
                           : 1 + counts.inputs + counts.dims + counts.params.size();
  return static_cast<const BufferArg*>(argv_[first + static_cast<size_t>(operand.number)])->host;
}

bool PreparedKernel::SeeAddresses() {
  const size_t inputs = kernel_->counts_.inputs;
  seen_.resize(inputs + kernel_->counts_.outputs);
  bool aligned = true;
  for (size_t i = 0; i < seen_.size(); ++i) {
    const LaunchOperand operand =
        i < inputs ? LaunchOperand{LaunchOperand::Kind::kInput, static_cast<int32_t>(i)}
                   : LaunchOperand{LaunchOperand::Kind::kOutput, static_cast<int32_t>(i - inputs)};
    const void* const now = AddressOf(operand);
    if (now == seen_[i]) continue;
    aligned = aligned && AlignmentOf(reinterpret_cast<int64_t>(now)) ==
                             AlignmentOf(reinterpret_cast<int64_t>(seen_[i]));
    seen_[i] = now;
  }
  return !aligned && kernel_->recipe_.asks_addresses();
}

absl::Status PreparedKernel::Evaluate(DevicePointer scratch) {
  const LaunchRecipe& recipe = kernel_->recipe_;
  KILN_ASSIGN_OR_RETURN(const std::vector<DevicePointer> parts, Scratch(scratch));
  const LaunchArguments arguments(argv_, kernel_->counts_, parts.data(), parts.size() - 1);
  launches_.clear();
  places_.clear();
  for (size_t k = 0; k < recipe.launches.size(); ++k) {
    PreparedLaunch made;
    KILN_ASSIGN_OR_RETURN(const bool runs,
                          EvaluateLaunch(recipe.launches[k], arguments, kernel_->counts_, made));
    if (!runs) continue;
    made.function = kernel_->functions_[k];
    const std::vector<LaunchArgument>& values = recipe.launches[k].arguments;
    for (size_t v = 0; v < values.size(); ++v) {
      if (values[v].kind == LaunchArgument::Kind::kBuffer)
        places_.push_back({launches_.size(), v, values[v].operand});
    }
    launches_.push_back(std::move(made));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> PreparedKernel::Refresh(DevicePointer scratch) {
  const bool asks = SeeAddresses();
  if (!evaluated_ || asks) {
    std::vector<Function> before;
    for (const PreparedLaunch& launch : launches_) before.push_back(launch.function);
    const bool first = !std::exchange(evaluated_, false);
    KILN_RETURN_IF_ERROR(Evaluate(scratch));
    evaluated_ = true;
    scratch_ = scratch;
    return first || !std::equal(before.begin(), before.end(), launches_.begin(), launches_.end(),
                                [](Function function, const PreparedLaunch& launch) {
                                  return function == launch.function;
                                });
  }
  for (const Place& place : places_) {
    PreparedLaunch& launch = launches_[place.launch];
    uint64_t& value = launch.values[place.value];
    const uint64_t now = place.operand.kind == LaunchOperand::Kind::kScratch
                             ? value - scratch_ + scratch
                             : reinterpret_cast<uint64_t>(AddressOf(place.operand));
    launch.changed = launch.changed || value != now;
    value = now;
  }
  scratch_ = scratch;
  return false;
}

}  // namespace kiln::cuda
