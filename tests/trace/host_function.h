// SPDX-License-Identifier: Apache-2.0
// A random function as a host program has it: with arrays that it captures, what its arguments are
// made of, and one thing that it does beside computing. trace_hazards_test changes one between two
// calls.
#ifndef KILN_TESTS_TRACE_HOST_FUNCTION_H_
#define KILN_TESTS_TRACE_HOST_FUNCTION_H_

#include <array>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "tests/trace/random_function.h"

namespace kiln {

// What the function does before step `at`. "There" is the result of the step before.
enum class Deed {
  kNone,
  kThrow,
  kForget,            // drops the records of its trace
  kKeep,              // a share in what is there outlives the call
  kLetGoElsewhere,    // another thread destroys the last share in what is there
  kUseElsewhere,      // another thread computes with what is there
  kUseReadElsewhere,  // and it has its value
  kNest,              // calls a traced function on what is there
  kNestExcluded,      // in a region left out
  kCallItself,        // while it is running
  kExclude,           // steps [at, until) are in a region left out
  kExcludeMore,       // with operations of its own
  kBranch,            // takes `Host::otherwise` from here on where what is there is negative
  kBranchOnArgument,  // where argument 0 is, which has its value
};

// How an argument comes about.
enum class Source {
  kReady,
  kPending,            // it is computed, and has no value yet
  kPendingElsewhere,   // in another thread
  kComputedElsewhere,  // where it got its value
};

struct Host {
  RandomFunction f;
  std::vector<Tensor> inputs;     // two arguments, two captured arrays
  std::array<Array, 2> captured;  // of inputs 2 and 3
  Deed deed = Deed::kNone;
  size_t at = 0, until = 0;
  RandomFunction otherwise;        // of a branch: differs from step `at` on
  Source source = Source::kReady;  // of argument 0
  bool makes = false;              // captured[1] is made in each call, and held by nobody else
  bool one_argument_twice = false;
  bool argument_is_captured = false;  // captured[0] is argument 0
  bool wide_argument = false;         // argument 0 is f64
  bool argument_on_gpu = false;       // argument 0 says that it is there
  bool other_thread = false;          // calls the trace
};

// The function while its trace exists.
struct Program {
  Host host;
  std::function<void()> forget;
  std::function<void(const Array&, const Array&)> call;  // the trace itself
  std::function<Array(const Array&)> inner;              // another one, which gives its argument
  std::vector<Array> kept;
  absl::Status told;  // what a deed has seen in another thread, or in a call within the call
};

// The body of the function that is traced. Throws an int where the host does.
std::vector<Array> Run(Program& program, const Array& a, const Array& b);

// The arguments of a call, made in the calling thread.
std::pair<Array, Array> ArgumentsOf(const Host& host);

// What a call gives, each operation alone. An error: an operation does.
absl::StatusOr<std::vector<Tensor>> Want(const Host& host, EagerRunner& eager);

}  // namespace kiln

#endif  // KILN_TESTS_TRACE_HOST_FUNCTION_H_
