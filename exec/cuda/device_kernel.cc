// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/device_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernel/abi.h"

namespace kiln::cuda {
namespace {

constexpr size_t kMostArguments = 128;     // correctness: of a function
constexpr size_t kMostScratch = 256;       // correctness: parts of it in a recipe
constexpr size_t kScratchAlignment = 256;  // correctness: of each part
constexpr size_t kFlushedCaches = 2;       // speed: written before a time is taken

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
      return absl::InternalError(absl::StrCat("launch: a size is ", size));
    sizes[k] = static_cast<unsigned>(size);
  }
  return sizes;
}

bool AnyZero(const std::array<unsigned, 3>& sizes) {
  return std::find(sizes.begin(), sizes.end(), 0U) != sizes.end();
}

absl::Status LaunchOne(const DeviceLaunch& launch, Function function,
                       const LaunchArguments& arguments, const DeviceKernel::Counts& counts,
                       LaunchQueue& queue) {
  for (const LaunchExpr& when : launch.when) {
    KILN_ASSIGN_OR_RETURN(const int64_t holds, when.Evaluate(arguments));
    if (holds == 0) return absl::OkStatus();
  }
  KILN_ASSIGN_OR_RETURN(const auto grid, Sizes(launch.grid, arguments));
  KILN_ASSIGN_OR_RETURN(const auto block, Sizes(launch.block, arguments));
  if (AnyZero(grid) || AnyZero(block)) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const int64_t shared, launch.shared_bytes.Evaluate(arguments));
  std::array<uint64_t, kMostArguments> values;
  std::array<void*, kMostArguments> pointers;
  for (size_t k = 0; k < launch.arguments.size(); ++k) {
    KILN_ASSIGN_OR_RETURN(values[k], ValueOf(launch.arguments[k], arguments, counts));
    pointers[k] = &values[k];
  }
  Gpu& gpu = *queue.gpu();
  return gpu.Call(launch.entry, [&] {
    return gpu.driver().cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1],
                                       block[2], static_cast<unsigned>(shared), queue.stream(),
                                       pointers.data(), nullptr);
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchQueue>> LaunchQueue::Make(std::shared_ptr<Gpu> gpu) {
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<DeviceStream> stream, DeviceStream::Make(gpu));
  return std::unique_ptr<LaunchQueue>(new LaunchQueue(std::move(gpu), std::move(stream)));
}

absl::StatusOr<DevicePointer> LaunchQueue::Scratch(size_t bytes) {
  if (scratch_.empty() || scratch_.back()->bytes() < bytes) {
    const size_t twice = scratch_.empty() ? 0 : 2 * scratch_.back()->bytes();
    KILN_ASSIGN_OR_RETURN(auto memory, DeviceMemory::Allocate(gpu_, std::max(bytes, twice)));
    scratch_.push_back(std::move(memory));
  }
  return scratch_.back()->address();
}

absl::StatusOr<void*> LaunchQueue::Arena(int64_t bytes) {
  const auto wanted = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  if (arena_ == nullptr || arena_->bytes() < wanted) {
    KILN_RETURN_IF_ERROR(Wait());  // launches may still use it
    arena_ = nullptr;
    KILN_ASSIGN_OR_RETURN(arena_, DeviceMemory::Allocate(gpu_, wanted));
  }
  return AsPointer(arena_->address());
}

// Memory of the host that is not pinned has been read when the driver returns.
absl::Status LaunchQueue::CopyIn(void* to, const void* from, size_t bytes) {
  return gpu_->CopyIn(AddressOf(to), from, bytes, stream());
}

absl::Status LaunchQueue::CopyOut(void* to, const void* from, size_t bytes) {
  KILN_RETURN_IF_ERROR(gpu_->CopyOut(to, AddressOf(from), bytes, stream()));
  return stream_->Wait();
}

absl::Status LaunchQueue::CopyOver(void* to, const void* from, size_t bytes) {
  return gpu_->CopyOver(AddressOf(to), AddressOf(from), bytes, stream());
}

absl::Status LaunchQueue::Wait() {
  KILN_RETURN_IF_ERROR(stream_->Wait());
  if (scratch_.size() > 1) scratch_.erase(scratch_.begin(), scratch_.end() - 1);
  return TakeError();
}

absl::Status LaunchQueue::StartClock() {
  const auto bytes = static_cast<size_t>(gpu_->facts().l2_bytes) * kFlushedCaches;
  if (clock_ == nullptr) {
    KILN_ASSIGN_OR_RETURN(flush_, DeviceMemory::Allocate(gpu_, bytes));
    KILN_ASSIGN_OR_RETURN(clock_, DeviceClock::Make(gpu_));
  }
  if (bytes > 0) {
    KILN_RETURN_IF_ERROR(gpu_->Call("a memset", [&] {
      return gpu_->driver().cuMemsetD8Async(flush_->address(), 0, bytes, stream());
    }));
  }
  return clock_->Start(stream());
}

absl::StatusOr<double> LaunchQueue::StopClock() { return clock_->Stop(stream()); }

absl::Status LaunchQueue::TakeError() { return std::exchange(error_, absl::OkStatus()); }

DeviceKernel::Counts DeviceKernel::Counts::Of(const Kernel& kernel) {
  return {kernel.inputs.size(), kernel.dims.size(), kernel.outputs.size(), kernel.params};
}

absl::StatusOr<std::unique_ptr<DeviceKernel>> DeviceKernel::Load(std::shared_ptr<Gpu> gpu,
                                                                 const std::string& image,
                                                                 absl::string_view recipe,
                                                                 Counts counts) {
  std::unique_ptr<DeviceKernel> kernel(new DeviceKernel);
  KILN_ASSIGN_OR_RETURN(kernel->recipe_, LaunchRecipe::Parse(recipe));
  kernel->counts_ = std::move(counts);
  KILN_RETURN_IF_ERROR(kernel->CheckArguments());
  KILN_ASSIGN_OR_RETURN(kernel->module_, DeviceModule::Load(std::move(gpu), image));
  for (const DeviceLaunch& launch : kernel->recipe_.launches) {
    absl::StatusOr<Function> function = kernel->module_->Find(launch.entry, 0);
    if (absl::IsNotFound(function.status()))
      return absl::DataLossError(function.status().message());
    KILN_RETURN_IF_ERROR(function.status());
    kernel->functions_.push_back(*function);
  }
  return kernel;
}

absl::Status DeviceKernel::CheckArguments() const {
  const auto wrong = [](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("launch: ", what));
  };
  if (recipe_.scratch_bytes.size() > kMostScratch) return wrong("too many parts of scratch");
  for (const DeviceLaunch& launch : recipe_.launches) {
    if (launch.arguments.size() > kMostArguments) return wrong("too many arguments");
    for (const LaunchArgument& argument : launch.arguments) {
      const bool param = argument.kind == LaunchArgument::Kind::kParam;
      if (param && static_cast<size_t>(argument.param) >= counts_.params.size())
        return wrong(absl::StrCat("there is no param ", argument.param));
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceKernel::Launch(void** argv, LaunchQueue& queue) const {
  std::array<DevicePointer, kMostScratch> scratch;
  const size_t parts = recipe_.scratch_bytes.size();
  const LaunchArguments without(argv, counts_, nullptr, 0);
  size_t total = 0;
  for (size_t k = 0; k < parts; ++k) {
    KILN_ASSIGN_OR_RETURN(const int64_t bytes, recipe_.scratch_bytes[k].Evaluate(without));
    scratch[k] = total;
    total += (static_cast<size_t>(std::max<int64_t>(bytes, 1)) + kScratchAlignment - 1) /
             kScratchAlignment * kScratchAlignment;
  }
  if (parts > 0) {
    KILN_ASSIGN_OR_RETURN(const DevicePointer base, queue.Scratch(total));
    for (size_t k = 0; k < parts; ++k) scratch[k] += base;
  }
  const LaunchArguments arguments(argv, counts_, scratch.data(), parts);
  for (size_t k = 0; k < recipe_.launches.size(); ++k)
    KILN_RETURN_IF_ERROR(LaunchOne(recipe_.launches[k], functions_[k], arguments, counts_, queue));
  return absl::OkStatus();
}

int RunDeviceKernel(void** argv) {
  const LaunchContext& context = **static_cast<LaunchContext**>(argv[0]);
  auto& queue = static_cast<LaunchQueue&>(*static_cast<DeviceQueue*>(context.stream));
  absl::Status status = static_cast<const DeviceKernel*>(context.kernel)->Launch(argv, queue);
  if (status.ok()) return 0;
  queue.SetError(std::move(status));
  return -1;
}

}  // namespace kiln::cuda
