// SPDX-License-Identifier: Apache-2.0
// Lends a pool to oneDNN for the duration of a call.
//
//   const OmpPool lent(&pool);                        // one per session
//   { const OmpScope scope(lent); ...execute...; }    // this thread's regions run on the pool
//
// Other threads are not touched: each Model's calls use the Model's own pool.
#ifndef KILN_EXEC_LIBRARY_OMP_SCOPE_H_
#define KILN_EXEC_LIBRARY_OMP_SCOPE_H_

#include "exec/support/openmp_shim.h"
#include "exec/support/pool.h"

namespace kiln::library {

// A pool as libkomp sees it; null: the caller works alone. The pool must outlive it.
class OmpPool {
 public:
  explicit OmpPool(kiln::Pool* pool) : openmp_pool_{pool, 1, Begin, End, kiln::Pool::InRegion} {
    if (pool != nullptr) openmp_pool_.threads = pool->threads();
  }
  // False if the system refuses threads that the pool needs.
  bool Ready() const {
    return openmp_pool_.threads == 1 || static_cast<kiln::Pool*>(openmp_pool_.pool)->StartThreads();
  }
  const OpenmpPool* openmp_pool() const { return &openmp_pool_; }

 private:
  static bool Begin(void* pool, int members, void (*task)(void*, int), void* data) {
    return static_cast<kiln::Pool*>(pool)->Begin(members, task, data);
  }
  static void End(void* pool) { static_cast<kiln::Pool*>(pool)->End(); }

  OpenmpPool openmp_pool_;
};

class OmpScope {
 public:
  explicit OmpScope(const OmpPool& pool) : before_(kiln_omp_bind(pool.openmp_pool())) {}
  ~OmpScope() { kiln_omp_bind(before_); }
  OmpScope(const OmpScope&) = delete;
  OmpScope& operator=(const OmpScope&) = delete;

 private:
  const OpenmpPool* before_;
};

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_OMP_SCOPE_H_
