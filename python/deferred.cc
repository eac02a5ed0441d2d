// SPDX-License-Identifier: Apache-2.0
#include "python/deferred.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <utility>

namespace kiln::python {
namespace {

struct Task {
  Task* next;
  std::function<void()> run;
};

// A stack, the newest first. Whoever takes it takes all.
std::atomic<Task*>& Waiting() {
  static std::atomic<Task*> newest(nullptr);
  return newest;
}

void Run(const std::function<void()>& task) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);  // what is being raised is not the task's
  task();
  if (PyErr_Occurred() != nullptr) PyErr_WriteUnraisable(nullptr);
  PyErr_Restore(type, value, trace);
}

}  // namespace

bool HaveGil() { return Py_IsInitialized() != 0 && PyGILState_Check() != 0; }

void Later(std::function<void()> task) {
  auto* const made = new Task{nullptr, std::move(task)};
  made->next = Waiting().load(std::memory_order_relaxed);
  while (!Waiting().compare_exchange_weak(made->next, made, std::memory_order_release)) {
  }
  if (Py_IsInitialized() == 0) return;
  // Where its few places are taken, somebody has asked already.
  Py_AddPendingCall(
      [](void*) {
        RunDeferred();
        return 0;
      },
      nullptr);
}

void RunDeferred() {
  if (Waiting().load(std::memory_order_relaxed) == nullptr) return;
  Task* newest = Waiting().exchange(nullptr, std::memory_order_acquire);
  Task* oldest = nullptr;
  while (newest != nullptr) {
    Task* const next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    Run(oldest->run);
    delete std::exchange(oldest, oldest->next);
  }
}

}  // namespace kiln::python
