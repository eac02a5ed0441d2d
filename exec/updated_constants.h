// SPDX-License-Identifier: Apache-2.0
// The constants of a Model that Update replaces, as they are now.
//
//   UpdatedConstants::Values values = updated.Now();   // a run keeps what it began with
//   updated.Set(0, other);                             // later runs see `other`
//
// A set of values never changes: Set makes another one, of which all but one tensor are shared. So
// whoever holds one compares two by address. Thread-safe.
#ifndef KILN_EXEC_UPDATED_CONSTANTS_H_
#define KILN_EXEC_UPDATED_CONSTANTS_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "base/tensor.h"

namespace kiln {

class UpdatedConstants {
 public:
  using Values = std::shared_ptr<const std::vector<Tensor>>;

  explicit UpdatedConstants(const std::vector<Tensor>& defaults);

  Values Now() const {
    const MutexLock lock(mutex_);
    return values_;
  }
  void Set(size_t k, Tensor value);
  // Of all of them.
  int64_t bytes() const;

 private:
  mutable Mutex mutex_;
  Values values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln

#endif  // KILN_EXEC_UPDATED_CONSTANTS_H_
