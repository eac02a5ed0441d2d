// SPDX-License-Identifier: Apache-2.0
#include "trace/result_memory.h"

#include <atomic>
#include <utility>

#include "base/status_macros.h"
#include "base/tensor.h"
#include "exec/runtime_state.h"

namespace kiln::tracing {

bool ResultMemory::IsFree(const Tensor& block) {
  if (block.owner().use_count() != 1) return false;
  // Giving up a share orders what others did with the memory, before they gave up theirs, before
  // what follows: use_count alone orders nothing.
  const std::shared_ptr<void> share = block.owner();
  return true;
}

absl::Status ResultMemory::Acquire(const std::shared_ptr<Runtime>& runtime) {
  if (!blocks_.empty() && IsFree(blocks_[current_])) return absl::OkStatus();
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (!IsFree(blocks_[i])) continue;
    current_ = i;
    return absl::OkStatus();
  }
  auto owner = std::make_shared<Memory>(runtime, std::make_shared<std::atomic<int64_t>>(0));
  const std::vector<int64_t> shape = type_.shape();
  KILN_RETURN_IF_ERROR(owner->Reserve(CheckedBytes(type_.type, shape)));
  void* const data = owner->data();
  Tensor made = Tensor::View(data, type_.type, shape, {}, std::move(owner));
  if (blocks_.size() < kMost) {
    blocks_.push_back(std::move(made));
    current_ = blocks_.size() - 1;
  } else {
    current_ = (current_ + 1) % kMost;
    blocks_[current_] = std::move(made);
  }
  return absl::OkStatus();
}

}  // namespace kiln::tracing
