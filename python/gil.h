// SPDX-License-Identifier: Apache-2.0
// How calls give the GIL up while Kiln works.
//
//   Check(WithoutGil([&] { return context->Run(control); }));
#ifndef KILN_PYTHON_GIL_H_
#define KILN_PYTHON_GIL_H_

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <cxxabi.h>

#include <memory>

#include "python/deferred.h"

namespace kiln::python {

// The GIL is given up as long as this lives. A daemon thread that wants it back while the
// interpreter ends is ended itself (pthread_exit), through frames that nothing may unwind: it stops
// where it is instead, until the process has ended.
class GilReleased {
 public:
  GilReleased() : thread_(PyEval_SaveThread()) {}
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;
  ~GilReleased() {
    try {
      PyEval_RestoreThread(thread_);
    } catch (const abi::__forced_unwind&) {
      for (;;) pause();
    }
  }

 private:
  PyThreadState* const thread_;
};

// What `run` answers, with the GIL given up meanwhile; then does what was deferred.
template <typename F>
auto WithoutGil(const F& run) {
  auto answer = [&run] {
    const GilReleased released;
    return run();
  }();
  RunDeferred();
  return answer;
}

// Ends an object without the GIL: it may wait for threads.
struct DeleteReleased {
  template <typename T>
  void operator()(T* object) const {
    const GilReleased released;
    delete object;
  }
};
template <typename T>
using Released = std::unique_ptr<T, DeleteReleased>;

}  // namespace kiln::python

#endif  // KILN_PYTHON_GIL_H_
