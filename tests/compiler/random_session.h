// SPDX-License-Identifier: Apache-2.0
// A random session: a program, the options of its model, the updates of its constants, and models
// that say what every run has to give.
//
// The judge is the same program alone: on the VM, without cache, states or runtime of its own; one
// such model for each number of updates. It is drawn which states there are, where temporaries and
// outputs lie, who allocates, what is recorded and checked, and how many threads there are.
//
//   absl::StatusOr<std::unique_ptr<RandomSession>> s =
//       MakeRandomSession(7, CompileMode::kBlock, cache_directory);
//   if (s.ok() && *s != nullptr) Compile((*s)->program.text..., (*s)->options);
//   (*s)->references[2]                // gives what is right after two of (*s)->updates
#ifndef KILN_TESTS_COMPILER_RANDOM_SESSION_H_
#define KILN_TESTS_COMPILER_RANDOM_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "exec/state_buffers.h"
#include "tests/compiler/draw.h"
#include "tests/compiler/session_programs.h"

namespace kiln {

struct RandomSession {
  explicit RandomSession(uint64_t seed) : draw(seed * 7919 + 1) {}

  Draw draw;  // what is drawn next; not for callers
  SessionProgram program;
  CompileOptions options;
  RuntimeOptions runtime;          // of a new runtime
  std::vector<StatePorts> states;  // those of `options`
  std::vector<std::pair<std::string, Tensor>> updates;
  std::vector<Model> references;  // [k]: after k updates
  bool has_budget = false;        // any run may lack memory

  // Updates that have begun and those that are done: a run sees one of the versions between. The
  // other two count what was compared.
  std::atomic<size_t> begun{0}, done{0};
  std::atomic<int64_t> judged{0}, stopped{0};
};

// Equal arguments give equal sessions. Its cache, if it has one, is in `directory`. With a `device`
// it is the runtime's, unless the program calls a library: there those are kernels, with bits of
// their own. Null: there is none for this seed. An error: a program is refused that should not be.
absl::StatusOr<std::unique_ptr<RandomSession>> MakeRandomSession(uint64_t seed, CompileMode mode,
                                                                 const std::string& directory,
                                                                 const std::string& device = "");

// As a new process would begin: a new runtime, which finds nothing but what the cache has.
absl::Status Restart(RandomSession& session);

// The options in one line and the program, for failure messages.
std::string ToString(const RandomSession& session);

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_RANDOM_SESSION_H_
