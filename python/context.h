// SPDX-License-Identifier: Apache-2.0
// kiln.Context: one caller's buffers. A thread that finds another in it raises FailedPrecondition.
#ifndef KILN_PYTHON_CONTEXT_H_
#define KILN_PYTHON_CONTEXT_H_

#include <atomic>
#include <utility>

#include "kiln/model.h"
#include "python/gil.h"
#include "python/status.h"

namespace kiln::python {

struct PyContext {
  Model model;
  Released<Context> context;
  std::atomic<bool> busy{false};

  explicit PyContext(Model of) : model(std::move(of)), context(new Context(model.NewContext())) {}
};

// For the length of one call: raises FailedPrecondition where another thread has the context.
class Busy {
 public:
  explicit Busy(PyContext& context) : context_(context) {
    if (context.busy.exchange(true)) {
      Raise(absl::FailedPreconditionError(
          "context: another thread uses it; give each thread a context of its own"));
    }
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy() { context_.busy = false; }
  Context* operator->() const { return context_.context.get(); }

 private:
  PyContext& context_;
};

}  // namespace kiln::python

#endif  // KILN_PYTHON_CONTEXT_H_
