// SPDX-License-Identifier: Apache-2.0
#include "base/stack.h"

#include <pthread.h>

#include <bit>
#include <cstdint>
#include <exception>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/thread.h"

namespace kiln {
namespace {

// The lowest address of the thread's stack; 0: not known. Asked once: of the main thread it is in a
// file of the system.
uintptr_t LowestAddress() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  size_t size = 0;
  if (pthread_attr_getstack(&attributes, &lowest, &size) != 0) lowest = nullptr;
  pthread_attr_destroy(&attributes);
  return std::bit_cast<uintptr_t>(lowest);
}

}  // namespace

size_t StackLeft() {
  static thread_local const uintptr_t lowest = LowestAddress();
  const auto here = std::bit_cast<uintptr_t>(__builtin_frame_address(0));
  // A fiber has a stack of its own, of which nothing is known.
  return lowest == 0 || here < lowest ? SIZE_MAX : here - lowest;
}

absl::Status WithStack(size_t bytes, const std::function<void()>& function) {
  const size_t left = StackLeft();
  if (left >= bytes) {
    function();
    return absl::OkStatus();
  }
  std::exception_ptr thrown;
  absl::StatusOr<Thread> thread = Thread::Start([&] {
    try {
      function();
    } catch (...) {
      thrown = std::current_exception();
    }
  });
  if (!thread.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the calling thread's stack has ", left >> 10, " KiB left, ", bytes >> 10,
                     " are needed, and there is no other thread (", thread.status().message(),
                     "); compile on a thread with a larger stack"));
  }
  thread->Join();
  if (thrown) std::rethrow_exception(thrown);
  return absl::OkStatus();
}

}  // namespace kiln
