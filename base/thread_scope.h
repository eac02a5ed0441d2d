// SPDX-License-Identifier: Apache-2.0
// ThreadScope: the calling thread is within something, which it would wait for if it asked for it
// again, as a function of the host does that is called there.
//
//   if (ThreadScope::Within(this)) return absl::FailedPreconditionError(...);
//   const ThreadScope making(this);
//   on_plan(...);  // may come back to here
#ifndef KILN_BASE_THREAD_SCOPE_H_
#define KILN_BASE_THREAD_SCOPE_H_

namespace kiln {

// Scopes of one thread end in the reverse order.
class ThreadScope {
 public:
  explicit ThreadScope(const void* of);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

  // Whether the calling thread has a scope of it.
  static bool Within(const void* of);

 private:
  static thread_local const ThreadScope* innermost;
  const void* const of_;
  const ThreadScope* const outer_;
};

}  // namespace kiln

#endif  // KILN_BASE_THREAD_SCOPE_H_
