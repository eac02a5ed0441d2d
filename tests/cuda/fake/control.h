// SPDX-License-Identifier: Apache-2.0
// How a test steers a fake of NVIDIA's libraries, and what it reads from it. In C: the fakes are
// shared libraries, opened as the real ones are.
#ifndef KILN_TESTS_CUDA_FAKE_CONTROL_H_
#define KILN_TESTS_CUDA_FAKE_CONTROL_H_

#include <cstddef>
#include <cstdint>

#define KILN_FAKE_API extern "C" __attribute__((visibility("default")))

// As it was loaded: no failure, no calls counted, the version that is real.
KILN_FAKE_API void kiln_fake_reset();
// Call k from now, counted from 1, answers `status`, and does nothing.
KILN_FAKE_API void kiln_fake_fail_at(uint64_t k, int status);
KILN_FAKE_API void kiln_fake_set_version(size_t version);
// Whether the heuristics know no algorithm.
KILN_FAKE_API void kiln_fake_refuse(int refuse);
// Calls of functions that answer a status; of the heuristics; operators computed; objects alive.
KILN_FAKE_API uint64_t kiln_fake_calls();
KILN_FAKE_API uint64_t kiln_fake_queries();
KILN_FAKE_API uint64_t kiln_fake_computed();
KILN_FAKE_API uint64_t kiln_fake_objects();

#endif  // KILN_TESTS_CUDA_FAKE_CONTROL_H_
