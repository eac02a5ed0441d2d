// SPDX-License-Identifier: Apache-2.0
// Ending long work early, whose result nobody waits for any more.
//
//   std::atomic<bool> gone{false};         // set by the one who leaves
//   const StopsWhen scope(gone);           // on the thread that works
//   ...
//   KILN_RETURN_IF_ERROR(CheckStopped());  // in what takes long, now and then
#ifndef KILN_BASE_STOP_H_
#define KILN_BASE_STOP_H_

#include <atomic>

#include "absl/status/status.h"

namespace kiln {

// While it lives, the work of this thread stops once `gone` is true, which outlives it. One at a
// time.
class StopsWhen {
 public:
  explicit StopsWhen(const std::atomic<bool>& gone);
  ~StopsWhen();
  StopsWhen(const StopsWhen&) = delete;
  StopsWhen& operator=(const StopsWhen&) = delete;
};

// Whether this thread's work stops. Cheap.
bool Stopped();
// kCancelled if it does.
absl::Status CheckStopped();

}  // namespace kiln

#endif  // KILN_BASE_STOP_H_
