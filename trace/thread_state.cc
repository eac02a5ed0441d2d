// SPDX-License-Identifier: Apache-2.0
#include "trace/thread_state.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trace/failure.h"

namespace kiln::tracing {
namespace {

thread_local ThreadState* thread_state = nullptr;
thread_local bool thread_ended = false;

struct OwnedState {
  ThreadState state;
  ~OwnedState() {
    thread_state = nullptr;
    thread_ended = true;
  }
};

}  // namespace

absl::Status Entry::Refusal(const ThreadState* thread) {
  return absl::FailedPreconditionError(
      thread == nullptr
          ? "array: its thread is ending"
          : "array: Kiln has called this function (a deleter, an allocator, CompileOptions::dump) "
            "while it computes arrays of this thread; compute others before, after, or in another "
            "thread");
}

ThreadState* ThreadState::Get() {
  if (thread_state != nullptr || thread_ended) return thread_state;
  static thread_local OwnedState owned;
  return thread_state = &owned.state;
}

absl::Status Evaluate(Node* node, Location where) {
  ThreadState* const thread = ThreadState::Get();
  if (thread != nullptr) {
    // Before the value is looked at: a read is part of a trace.
    for (Recorder* r = thread->recorder; r != nullptr; r = r->parent())
      if (r->Owns(node)) return r->Read(node, where);
    if (!node->ready() && !node->never_ready() && thread->lazy.Owns(node))
      return thread->lazy.Read(node, where);
  }
  if (node->never_ready()) return node->error;
  if (node->ready()) return absl::OkStatus();
  return MismatchStatus(
      TraceError::kThread,
      absl::StrCat("array", where.line > 0 ? absl::StrCat(" (", ToString(where), ")") : "",
                   ": it has no value yet, and its operations belong to another "
                   "thread, or to a trace that is left out here; call eval() "
                   "where it was computed, before it is used elsewhere"));
}

}  // namespace kiln::tracing
