// SPDX-License-Identifier: Apache-2.0
#include "exec/support/admission.h"

namespace kiln {
namespace {

// Takes slots of `pool`; whether all.
bool Enter(Pool& pool, Admission::Share share) {
  const int all = pool.threads();
  AdmissionQueue& admission_queue = pool.admission_queue();
  if (share == Admission::Share::kOpportunistic && admission_queue.TryEnter(all)) {
    if (pool.Ready()) return true;
    admission_queue.Leave(all - 1);
    return false;
  }
  admission_queue.Enter(share == Admission::Share::kExclusive ? all : 1);
  return share == Admission::Share::kExclusive;
}

}  // namespace

Admission::Admission(Pool& pool, Share share)
    : queue_(pool.admission_queue()),
      exclusive_(Enter(pool, share)),
      slots_(exclusive_ ? pool.threads() : 1) {}

}  // namespace kiln
