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

thread_local const Admission* Admission::innermost = nullptr;

const Admission* Admission::Around() const {
  const Admission* around = outer_;
  while (around != nullptr && &around->queue_ != &queue_) around = around->outer_;
  return around;
}

Admission::Admission(Pool& pool, Share share)
    : queue_(pool.admission_queue()),
      outer_(innermost),
      exclusive_(Around() != nullptr ? Around()->exclusive_ : Enter(pool, share)),
      slots_(Around() != nullptr ? 0
             : exclusive_        ? pool.threads()
                                 : 1) {
  innermost = this;
}

Admission::~Admission() {
  innermost = outer_;
  if (slots_ > 0) queue_.Leave(slots_);
}

}  // namespace kiln
