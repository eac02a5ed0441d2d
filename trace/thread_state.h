// SPDX-License-Identifier: Apache-2.0
// ThreadState: what the tracer keeps for each thread: its lazy log, and the recorder that its
// operations go to now, which is the CallCore of the traced function that the thread is in, if any,
// but for untraced regions.
#ifndef KILN_TRACE_THREAD_STATE_H_
#define KILN_TRACE_THREAD_STATE_H_

#include <memory>

#include "absl/status/status.h"
#include "trace/engine.h"
#include "trace/lazy_recorder.h"
#include "trace/recorder.h"

namespace kiln::tracing {

class CallCore;  // call_core.h
struct Tapes;    // gradient.h

// Of the calling thread. Null: the thread is ending.
struct ThreadState {
  // A function of the API is running: what the host does meanwhile, in a function that Kiln calls
  // (a deleter, an allocator, CompileOptions::dump), must not touch the log.
  bool entered = false;
  Engine engine;
  LazyRecorder lazy{engine};
  Recorder* recorder = &lazy;    // where operations go
  CallCore* call = nullptr;      // the traced function that the thread is in
  std::shared_ptr<Tapes> tapes;  // null: nothing was differentiated
  // In a region of it that is left out.
  bool excluded() const {
    const Recorder* outermost = recorder;
    while (outermost->parent() != nullptr) outermost = outermost->parent();
    return call != nullptr && outermost == &lazy;
  }
  // In a traced function, or in one that is differentiated, and not in such a region.
  bool records() const { return recorder != &lazy; }
  static ThreadState* Get();
};

// Held by each function of the API that changes what a thread has recorded.
class Entry {
 public:
  // Not entered where the thread is ending, or where Kiln has called the host, which calls Kiln.
  explicit Entry(ThreadState* thread)
      : thread_(thread != nullptr && !thread->entered ? thread : nullptr) {
    if (thread_ != nullptr) thread_->entered = true;
  }
  ~Entry() {
    if (thread_ != nullptr) thread_->entered = false;
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  bool ok() const { return thread_ != nullptr; }
  // Why it was not entered. kFailedPrecondition.
  static absl::Status Refusal(const ThreadState* thread);

 private:
  ThreadState* const thread_;
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_THREAD_STATE_H_
