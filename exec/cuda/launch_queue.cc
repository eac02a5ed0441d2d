// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/launch_queue.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/cuda/kernel_sequence.h"
#include "kernel/abi.h"

namespace kiln::cuda {
namespace {

constexpr size_t kFlushedCaches = 2;  // speed: written before a time is taken

class QueuedSequence final : public LaunchSequence {
 public:
  QueuedSequence(LaunchQueue& queue, std::unique_ptr<KernelSequence> sequence)
      : queue_(queue), sequence_(std::move(sequence)) {}

  absl::Status Run(bool moved, size_t& failed) override {
    failed = 0;
    DevicePointer scratch = 0;
    if (sequence_->scratch_bytes() > 0) {
      KILN_ASSIGN_OR_RETURN(scratch, queue_.Scratch(sequence_->scratch_bytes()));
    }
    return queue_.Within([&] { return sequence_->Run(moved, scratch, queue_.stream(), failed); });
  }

 private:
  LaunchQueue& queue_;
  const std::unique_ptr<KernelSequence> sequence_;
};

}  // namespace

LaunchQueue::LaunchQueue(std::shared_ptr<Gpu> gpu, std::shared_ptr<DeviceStream> stream)
    : gpu_(std::move(gpu)),
      stream_(std::move(stream)),
      active_(stream_->handle()),
      staging_(gpu_) {}

absl::StatusOr<std::unique_ptr<LaunchQueue>> LaunchQueue::Make(std::shared_ptr<Gpu> gpu) {
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<DeviceStream> stream, DeviceStream::Make(gpu));
  return std::unique_ptr<LaunchQueue>(new LaunchQueue(std::move(gpu), std::move(stream)));
}

// Its memory is in use until then.
LaunchQueue::~LaunchQueue() {
  if (behind_) Wait().IgnoreError();
}

absl::Status LaunchQueue::Within(absl::FunctionRef<absl::Status()> body) {
  if (current_) return body();
  KILN_RETURN_IF_ERROR(gpu_->Enter());
  const absl::Cleanup leave = [&] { gpu_->Leave(); };
  return body();
}

absl::Status LaunchQueue::Enqueue(absl::string_view what, absl::FunctionRef<Result()> call) {
  return Within([&] { return gpu_->Check(call(), what); });
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
    if (arena_ != nullptr) KILN_RETURN_IF_ERROR(Wait());  // launches may still use it
    arena_ = nullptr;
    KILN_ASSIGN_OR_RETURN(arena_, DeviceMemory::Allocate(gpu_, wanted));
  }
  return AsPointer(arena_->address());
}

int64_t LaunchQueue::bytes() const {
  size_t sum = 0;
  for (const std::shared_ptr<DeviceMemory>& memory : scratch_) sum += memory->bytes();
  for (const auto& memory : {arena_, flush_}) sum += memory != nullptr ? memory->bytes() : 0;
  return static_cast<int64_t>(sum);
}

absl::Status LaunchQueue::Launch(const DeviceKernel& kernel, void** argv) {
  PreparedKernel prepared(kernel, argv);
  KILN_ASSIGN_OR_RETURN(const size_t bytes, prepared.ScratchBytes());
  DevicePointer scratch = 0;
  if (bytes > 0) {
    KILN_ASSIGN_OR_RETURN(scratch, Scratch(bytes));
  }
  KILN_RETURN_IF_ERROR(prepared.Refresh(scratch).status());
  for (PreparedLaunch& launch : prepared.launches()) {
    KILN_RETURN_IF_ERROR(
        Enqueue(*launch.name, [&] { return launch.Launch(gpu_->driver(), active_); }));
  }
  return absl::OkStatus();
}

absl::Status LaunchQueue::GoInto(Stream stream) {
  if (stream != stream_->handle()) {
    KILN_ASSIGN_OR_RETURN(const bool ours, gpu_->Owns(stream));
    if (!ours) {
      return absl::InvalidArgumentError(
          absl::StrCat("stream: it is none of the primary context of device ", gpu_->ordinal(),
                       ", which the model runs on; give one of that device"));
    }
    if (done_ == nullptr) {
      KILN_ASSIGN_OR_RETURN(done_, DeviceEvent::Make(gpu_));
    }
  }
  if (behind_) {
    KILN_RETURN_IF_ERROR(Enqueue("cuStreamWaitEvent", [&] {
      return gpu_->driver().cuStreamWaitEvent(stream, done_->handle(), 0);
    }));
  }
  active_ = stream;
  return absl::OkStatus();
}

absl::Status LaunchQueue::Begin(void* stream, bool alone) {
  KILN_RETURN_IF_ERROR(gpu_->Enter());
  current_ = true;
  const absl::Status status =
      GoInto(stream != nullptr ? static_cast<Stream>(stream) : stream_->handle());
  if (!alone || !status.ok()) Leave();
  return status;
}

void LaunchQueue::Leave() {
  if (current_) gpu_->Leave();
  current_ = false;
}

absl::Status LaunchQueue::End() {
  absl::Status status;
  if (active_ == stream_->handle() || staging_.pending()) {
    status = Wait();
  } else {
    status = Enqueue("cuEventRecord",
                     [&] { return gpu_->driver().cuEventRecord(done_->handle(), active_); });
    behind_ = status.ok();
    if (status.ok()) status = TakeError();
  }
  if (!status.ok()) staging_.Drop();  // whose memory may go now
  Leave();
  active_ = stream_->handle();
  return status;
}

void LaunchQueue::Abandon() {
  WaitForStream().IgnoreError();
  staging_.Drop();
  error_ = absl::OkStatus();
  Leave();
  active_ = stream_->handle();
}

absl::Status LaunchQueue::CopyIn(void* to, const void* from, size_t bytes) {
  if (staging_.PendingIn(from, bytes)) KILN_RETURN_IF_ERROR(Wait());
  return Within([&] { return staging_.CopyIn(AddressOf(to), from, bytes, active_); });
}

absl::Status LaunchQueue::CopyOut(void* to, const void* from, size_t bytes) {
  return Within([&] { return staging_.CopyOut(to, AddressOf(from), bytes, active_); });
}

absl::Status LaunchQueue::CopyOver(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return Enqueue("a copy on the device", [&] {
    return gpu_->driver().cuMemcpyDtoDAsync_v2(AddressOf(to), AddressOf(from), bytes, active_);
  });
}

absl::Status LaunchQueue::WaitForCopies() { return staging_.pending() ? Wait() : absl::OkStatus(); }

absl::Status LaunchQueue::WaitForStream() {
  return Within([&] {
    const Driver& driver = gpu_->driver();
    if (behind_)
      KILN_RETURN_IF_ERROR(
          gpu_->Check(driver.cuEventSynchronize(done_->handle()), "the work of a stream"));
    return gpu_->Check(driver.cuStreamSynchronize(active_), "the work of a stream");
  });
}

absl::Status LaunchQueue::Wait() {
  KILN_RETURN_IF_ERROR(WaitForStream());
  behind_ = false;
  staging_.Deliver();
  if (scratch_.size() > 1) scratch_.erase(scratch_.begin(), scratch_.end() - 1);
  return TakeError();
}

absl::Status LaunchQueue::TakeError() { return std::exchange(error_, absl::OkStatus()); }

absl::StatusOr<std::unique_ptr<LaunchSequence>> LaunchQueue::Prepare(
    std::span<const DeviceCall> calls) {
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<KernelSequence> made, KernelSequence::Make(gpu_, calls));
  return std::make_unique<QueuedSequence>(*this, std::move(made));
}

absl::Status LaunchQueue::FlushCache() {
  const auto bytes = static_cast<size_t>(gpu_->facts().l2_bytes) * kFlushedCaches;
  if (bytes == 0) return absl::OkStatus();
  if (flush_ == nullptr) {
    KILN_ASSIGN_OR_RETURN(flush_, DeviceMemory::Allocate(gpu_, bytes));
  }
  return Enqueue("cuMemsetD8Async", [&] {
    return gpu_->driver().cuMemsetD8Async(flush_->address(), 0, bytes, active_);
  });
}

absl::Status LaunchQueue::Mark(size_t mark) {
  while (marks_.size() <= mark) {
    KILN_ASSIGN_OR_RETURN(marks_.emplace_back(), DeviceEvent::Make(gpu_, /*timed=*/true));
  }
  return Enqueue("cuEventRecord",
                 [&] { return gpu_->driver().cuEventRecord(marks_[mark]->handle(), active_); });
}

absl::StatusOr<double> LaunchQueue::MillisecondsBetween(size_t from, size_t to) {
  float ms = 0;
  KILN_RETURN_IF_ERROR(Enqueue("cuEventElapsedTime", [&] {
    return gpu_->driver().cuEventElapsedTime(&ms, marks_[from]->handle(), marks_[to]->handle());
  }));
  return static_cast<double>(ms);
}

int RunDeviceKernel(void** argv) {
  const LaunchContext& context = **static_cast<LaunchContext**>(argv[0]);
  auto& queue = static_cast<LaunchQueue&>(*static_cast<DeviceQueue*>(context.stream));
  absl::Status status = queue.Launch(*static_cast<const DeviceKernel*>(context.kernel), argv);
  if (status.ok()) return 0;
  queue.SetError(std::move(status));
  return -1;
}

}  // namespace kiln::cuda
