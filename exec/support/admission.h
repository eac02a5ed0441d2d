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
//
// Where a function of the host that is called by a run runs a model itself, that has the admission
// of the run around it: to wait for another would be to wait for itself.
#ifndef KILN_EXEC_SUPPORT_ADMISSION_H_
#define KILN_EXEC_SUPPORT_ADMISSION_H_

#include "exec/support/admission_queue.h"
#include "exec/support/pool.h"

namespace kiln {

class Admission {
 public:
  enum class Share { kShared, kExclusive, kOpportunistic };

  Admission(Pool& pool, Share share);
  ~Admission();
  bool exclusive() const { return exclusive_; }
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

 private:
  // That of the same queue that this thread has already; null: none.
  const Admission* Around() const;

  static thread_local const Admission* innermost;
  AdmissionQueue& queue_;
  const Admission* const outer_;  // the one before, of this thread
  const bool exclusive_;
  const int slots_;  // 0: it has those around it
};

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_ADMISSION_H_
