// SPDX-License-Identifier: Apache-2.0
#include "exec/updated_constants.h"

#include "exec/binding.h"

namespace kiln {

// What would be copied in every run is copied once.
UpdatedConstants::UpdatedConstants(const std::vector<Tensor>& defaults) {
  std::vector<Tensor> values;
  for (const Tensor& value : defaults) values.push_back(UsableAsIs(value) ? value : value.Clone());
  values_ = std::make_shared<const std::vector<Tensor>>(std::move(values));
}

void UpdatedConstants::Set(size_t k, Tensor value) {
  auto next = std::make_shared<std::vector<Tensor>>();
  Values last;  // destroyed without the lock
  const MutexLock lock(mutex_);
  *next = *values_;
  (*next)[k] = std::move(value);
  last = std::exchange(values_, std::move(next));
}

int64_t UpdatedConstants::bytes() const {
  int64_t bytes = 0;
  for (const Tensor& value : *Now()) bytes += value.size_bytes();
  return bytes;
}

}  // namespace kiln
