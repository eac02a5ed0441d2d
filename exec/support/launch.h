// SPDX-License-Identifier: Apache-2.0
// What a kernel is given to run with: the pool's parallel loop and scratch memory that is kept
// between launches.
//
//   Launcher launcher(&pool);                      // one per caller, as a Context has
//   void* argv[] = {nullptr, &in, &extent, &out};
//   int error = launcher.Launch(fn, self, argv);   // argv[0] is filled in
//
// Scratch comes from one slab per pool member: bump allocation, freed last in, first out (others
// wait for those above them). A slab that was too small gets further blocks and, once empty,
// becomes one block of the whole size: after the first launch of each kernel no launch allocates.
#ifndef KILN_EXEC_SUPPORT_LAUNCH_H_
#define KILN_EXEC_SUPPORT_LAUNCH_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "exec/support/pool.h"
#include "exec/support/subdomains.h"
#include "kernel/abi.h"

namespace kiln {

// Scratch of one thread at a time.
class Slab {
 public:
  Slab() = default;
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // 64-byte aligned memory, uninitialised; null when the system has no more.
  void* Allocate(size_t bytes);
  // `memory` is null or came from Allocate of this slab.
  void Release(void* memory);
  // Bytes taken from the system, in use or not.
  size_t reserved() const { return reserved_; }

 private:
  struct Block;
  struct Header;
  Block* AddBlock(size_t bytes);
  void FreeBlocks();

  Block* top_ = nullptr;  // the newest block; each knows the one before
  size_t reserved_ = 0;
};

// One caller at a time; any thread. The pool must outlive it.
class Launcher {
 public:
  explicit Launcher(Pool* pool);
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Runs fn(argv) with argv[0] set to a context of the launch; `self` and `non_temporal` are what
  // the context gets. Returns the kernel's result.
  int Launch(KernelFn fn, const void* self, void** argv, bool non_temporal = false);

  // The same, subdomain by subdomain.
  int Launch(KernelFn fn, const void* self, void** argv, const PartitionedLaunch& parts);

  // Calls fn(i) for all i in [0, n), n at most the pool's threads, each on a member of its own.
  // What they launch runs on their members alone, beside each other.
  void Share(int n, absl::FunctionRef<void(int i)> fn);

  // The flag that stops kernels early when true; null for none.
  void set_cancel(const volatile bool* cancel) { context_.cancel = cancel; }
  // At most this many pool members work for the launches that follow.
  void set_limit(int members) { limit_ = members; }

  // For loops that are no kernels.
  LaunchContext* context() { return &context_; }
  size_t scratch_bytes() const;

 private:
  static int ParallelFor(LaunchContext* context, TaskFn task, int min, int n, uint8_t* closure);
  static void* Allocate(LaunchContext* context, size_t bytes);
  static void Release(LaunchContext* context, void* memory);
  Slab& SlabOfThisThread();

  struct alignas(64) OwnLine {
    Slab slab;
  };

  Pool* const pool_;
  int limit_ = INT32_MAX;
  std::unique_ptr<OwnLine[]> slabs_;  // one per pool member
  LaunchContext context_;             // what launches start from
};

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_LAUNCH_H_
