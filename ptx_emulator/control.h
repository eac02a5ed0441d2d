// SPDX-License-Identifier: Apache-2.0
// How a program steers the emulated driver, libkiln_ptx_driver.so, and what it reads from it. In C.
//
//   kiln_ptx_config config;
//   kiln_ptx_default_config(&config);
//   config.sm[0] = 90;
//   kiln_ptx_configure(&config);              // before cuInit; forgets everything else
//   ... cuInit, cuLaunchKernel, ...
//   kiln_ptx_fail_at(3, 2, 1);                // the third call from now: out of memory, once
//   ... kiln_ptx_findings(text, sizeof text) ...
//
// All functions may be called by any thread. Texts are cut to fit and end with a 0; the answer is
// the length of the whole text.
#ifndef KILN_PTX_EMULATOR_CONTROL_H_
#define KILN_PTX_EMULATOR_CONTROL_H_

#include <stddef.h>
#include <stdint.h>

#define KILN_PTX_API __attribute__((visibility("default")))
#define KILN_PTX_MAX_DEVICES 8

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_ptx_config {
  int devices;                            // 0 to 8; 0: cuInit answers NO_DEVICE
  int sm[KILN_PTX_MAX_DEVICES];           // 80: compute capability 8.0
  uint64_t memory[KILN_PTX_MAX_DEVICES];  // bytes
  int multiprocessors[KILN_PTX_MAX_DEVICES];
  int driver_version;          // 13000: CUDA 13.0, which reads PTX up to 9.0
  int strict;                  // 1: a launch with a finding fails with LAUNCH_FAILED
  int checks;                  // 0: for speed, no races and no unwritten memory
  uint64_t warp_instructions;  // a launch of more than these answers LAUNCH_TIMEOUT
} kiln_ptx_config;

// Of global memory: a request is one instruction of a warp; sectors have 32 bytes. Unique sectors
// count once per launch: what a cache that never loses anything would read or write. Of shared
// memory: wavefronts are passes over the 32 banks; ideal ones would be without bank conflicts.
typedef struct kiln_ptx_counters {
  uint64_t launches, warp_instructions, thread_instructions;
  uint64_t load_requests, load_sectors, load_bytes, unique_load_sectors;
  uint64_t store_requests, store_sectors, store_bytes, unique_store_sectors;
  uint64_t full_warp_loads[5];  // by bytes a thread: 1, 2, 4, 8, 16
  uint64_t shared_requests, shared_wavefronts, ideal_wavefronts;
  uint64_t shuffles, barriers, divergent_branches, local_accesses, atomics;
} kiln_ptx_counters;

typedef struct kiln_ptx_objects {
  uint64_t contexts, allocations, allocated_bytes, pinned, modules, streams, events, graphs,
      graph_execs;
} kiln_ptx_objects;

// One device sm_80 of 1 GiB with 108 multiprocessors, driver 13.0, checks on, not strict. A driver
// that nobody has configured has two such devices, and is strict.
KILN_PTX_API void kiln_ptx_default_config(kiln_ptx_config* config);
// Destroys all objects and counts, and starts a driver that cuInit has not been called for.
KILN_PTX_API void kiln_ptx_configure(const kiln_ptx_config* config);

// The k-th call from now (1: the next one) answers `result` and does nothing; so do all calls after
// it up to `count` calls, and all there are where count is 0. k = 0 takes it back.
KILN_PTX_API void kiln_ptx_fail_at(uint64_t k, int result, uint64_t count);
// Calls since kiln_ptx_configure: of the function of that name ("cuMemAlloc_v2"), or of all (null).
KILN_PTX_API uint64_t kiln_ptx_calls(const char* function);
KILN_PTX_API void kiln_ptx_live(kiln_ptx_objects* objects);

// Findings since the last clearing, one a line: `trap: kernel k, line 12: trap; (3 times)`.
KILN_PTX_API size_t kiln_ptx_findings(char* text, size_t size);
// The findings' number, each counted as often as it happened.
KILN_PTX_API uint64_t kiln_ptx_finding_count(void);
// Counters of the kernels of that name, or of all launches (null). 0: no such launch.
KILN_PTX_API int kiln_ptx_count(const char* kernel, kiln_ptx_counters* counters);
// The names of the kernels that ran, one a line.
KILN_PTX_API size_t kiln_ptx_kernels(char* text, size_t size);
// Forgets findings and counters.
KILN_PTX_API void kiln_ptx_clear(void);

#ifdef __cplusplus
}
#endif

#endif  // KILN_PTX_EMULATOR_CONTROL_H_
