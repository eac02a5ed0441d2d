// SPDX-License-Identifier: Apache-2.0
// libkomp.so.1: the ten OpenMP entry points that Kiln's private copy of oneDNN imports, run on
// whatever pool the calling thread is bound to, and a getenv that finds nothing.
//
// oneDNN comes built for OpenMP. With libgomp it would have threads of its own beside the pool's, a
// team per caller, and a child after fork() would hang. scripts/privatise_onednn.py renames the
// version under which it asks for the entry points, so that they bind to this library and to
// nothing else, and a program's own OpenMP never meets it.
//
// A region has exactly as many members as was asked for, at most the pool's threads. A region
// inside another, or on a thread that is bound to no pool, has one.
#ifndef KILN_EXEC_SUPPORT_OPENMP_SHIM_H_
#define KILN_EXEC_SUPPORT_OPENMP_SHIM_H_

extern "C" {

// How regions reach a pool. All functions are called on the thread that is bound.
struct OpenmpPool {
  void* pool;  // given to begin and end
  int threads;
  // Has task(data, member) run on members 1 .. members-1 and returns on member 0; false: no region.
  bool (*begin)(void* pool, int members, void (*task)(void* data, int member), void* data);
  // Waits for the members that `begin` started.
  void (*end)(void* pool);
  // Whether the calling thread works for a region of any pool.
  bool (*in_region)();
};

// Binds the calling thread to `pool` (null: to none), which must stay until the next call. Returns
// the pool before.
const OpenmpPool* kiln_omp_bind(const OpenmpPool* pool);

// From now on *invalid becomes true when another member of a region that the calling thread begins
// raises the floating-point flag "invalid". Null: nobody watches.
void kiln_omp_watch_invalid(bool* invalid);
}

#endif  // KILN_EXEC_SUPPORT_OPENMP_SHIM_H_
