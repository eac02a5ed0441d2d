// SPDX-License-Identifier: Apache-2.0
// Limits the callers of a pool as the pool limits its threads: whoever works on it holds an
// Admission meanwhile.
//
//   const Admission exclusive(pool, Admission::Share::kExclusive);  // regions, alone
//   const Admission shared(pool, Admission::Share::kShared);  // no regions; `threads` at once
//   const Admission may(pool, Admission::Share::kOpportunistic);  // regions if may.exclusive(): if
//       // nobody else works on the pool, nor did lately, and the pool is Ready
//
// A region needs its exact number of members, so a caller with regions has the pool to itself for
// as long as it works, and the others wait; to hand the pool over at every region would cost more
// than the regions. A caller may pass one that has waited for a moment, so that short admissions do
// not cost a switch of threads each; nobody waits longer than admissions that began before, and a
// millisecond.
#ifndef KILN_EXEC_SUPPORT_ADMISSION_H_
#define KILN_EXEC_SUPPORT_ADMISSION_H_

#include "exec/support/admission_queue.h"
#include "exec/support/pool.h"

namespace kiln {

class Admission {
 public:
  enum class Share { kShared, kExclusive, kOpportunistic };

  Admission(Pool& pool, Share share);
  ~Admission() { queue_.Leave(slots_); }
  bool exclusive() const { return exclusive_; }
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

 private:
  AdmissionQueue& queue_;
  const bool exclusive_;
  const int slots_;
};

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_ADMISSION_H_
