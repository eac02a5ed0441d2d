// SPDX-License-Identifier: Apache-2.0
// What needs the GIL and comes up where it is not held: on threads of Kiln, or inside a call that
// has given it up.
//
//   Later([line] { write(line); });  // soon, on a thread of Python
//   RunDeferred();                   // at the end of a call, with the GIL
//
// No thread of Kiln ever waits for the GIL: a log line or the release of an array can neither
// deadlock with a caller who holds it, nor hang while the interpreter ends. What is deferred runs
// in order, when the next call returns or when the main thread gets to it, and not at all once
// the interpreter has ended. Thread-safe, without a mutex, so that a host may fork.
#ifndef KILN_PYTHON_DEFERRED_H_
#define KILN_PYTHON_DEFERRED_H_

#include <functional>

namespace kiln::python {

// Whether this thread holds the GIL.
bool HaveGil();
// `task` must not throw, but may leave a Python error, which is written as "unraisable". It never
// runs at once, even with the GIL: it may call Kiln, which may be holding a lock now.
void Later(std::function<void()> task);
// Needs the GIL. Costs one load where nothing waits.
void RunDeferred();

}  // namespace kiln::python

#endif  // KILN_PYTHON_DEFERRED_H_
