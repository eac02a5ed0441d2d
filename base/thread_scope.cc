// SPDX-License-Identifier: Apache-2.0
#include "base/thread_scope.h"

namespace kiln {

thread_local const ThreadScope* ThreadScope::innermost = nullptr;

ThreadScope::ThreadScope(const void* of) : of_(of), outer_(innermost) { innermost = this; }

ThreadScope::~ThreadScope() { innermost = outer_; }

bool ThreadScope::Within(const void* of) {
  const ThreadScope* scope = innermost;
  while (scope != nullptr && scope->of_ != of) scope = scope->outer_;
  return scope != nullptr;
}

}  // namespace kiln
