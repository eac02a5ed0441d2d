// SPDX-License-Identifier: Apache-2.0
// What may change between two calls of a traced or frozen function, and what the change gives. The
// table in docs/trace.md is made of this.
#ifndef KILN_TESTS_TRACE_HAZARDS_H_
#define KILN_TESTS_TRACE_HAZARDS_H_

#include <set>
#include <string>
#include <vector>

#include "kiln/trace.h"
#include "tests/trace/hazard_changes.h"

namespace kiln {

using hazards::Random;

// How a function is called: traced; or frozen, and changed before its second call, which compares,
// or before its third, which does not run it.
enum class Way { kTraced, kSecond, kLater };

struct Outcome {
  std::set<TraceError> errors;  // none: the answer is right
  bool seen = true;             // false: the answer is that of what was recorded
};

// What a hazard needs beside.
enum HazardFlags : unsigned {
  kReads = 1,  // the function reads values from the first call on
  kLasts = 2,  // it is there from the first call on
  kDrops = 4,  // nobody holds the arrays that were captured before
};

struct Hazard {
  const char* row;  // of the table
  const char* name;
  // What the function is like from the first call on; null: as it comes. False: it does not suit.
  bool (*prepare)(Host& host, Random& random);
  bool (*change)(Host& host, Random& random);
  Outcome traced, second, later;
  unsigned flags = 0;
  // The extents that the function is right for (RandomFunctionOptions); null: its own alone.
  Shapes (*extents)(Random& random) = nullptr;

  const Outcome& Of(Way way) const {
    return way == Way::kTraced ? traced : way == Way::kSecond ? second : later;
  }
};

const std::vector<Hazard>& Hazards();

// The rows of the table, in order: "| change | traced | ... |\n".
std::string HazardTable();

}  // namespace kiln

#endif  // KILN_TESTS_TRACE_HAZARDS_H_
