// SPDX-License-Identifier: Apache-2.0
// While a NoCancellation lives, its thread is not cancelled; a pthread_cancel takes effect at the
// next cancellation point after it. Calls of Kiln hold one (catch_exceptions.h), so that a
// cancellation leaves nothing half done. Destructors that wait or close hold one too: unwinding out
// of a destructor ends the process.
#ifndef KILN_BASE_NO_CANCELLATION_H_
#define KILN_BASE_NO_CANCELLATION_H_

#include <pthread.h>

namespace kiln {

class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = 0;
};

}  // namespace kiln

#endif  // KILN_BASE_NO_CANCELLATION_H_
