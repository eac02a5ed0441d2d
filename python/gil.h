// SPDX-License-Identifier: Apache-2.0
// How calls give the GIL up while Kiln works.
//
//   Check(WithoutGil([&] { return context->Run(control); }));
#ifndef KILN_PYTHON_GIL_H_
#define KILN_PYTHON_GIL_H_

#include <nanobind/nanobind.h>

#include <memory>

#include "python/deferred.h"

namespace kiln::python {

// What `run` answers, with the GIL given up meanwhile; then does what was deferred.
template <typename F>
auto WithoutGil(const F& run) {
  const auto released = [&run] {
    const nanobind::gil_scoped_release release;
    return run();
  };
  auto answer = released();
  RunDeferred();
  return answer;
}

// Ends an object without the GIL: it may wait for threads.
struct DeleteReleased {
  template <typename T>
  void operator()(T* object) const {
    const nanobind::gil_scoped_release release;
    delete object;
  }
};
template <typename T>
using Released = std::unique_ptr<T, DeleteReleased>;

}  // namespace kiln::python

#endif  // KILN_PYTHON_GIL_H_
