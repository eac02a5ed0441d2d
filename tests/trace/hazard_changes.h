// SPDX-License-Identifier: Apache-2.0
// What may change a host function between two calls, one way each (trace_hazards_test). Each gives
// false where a function does not suit, and may have changed it then.
#ifndef KILN_TESTS_TRACE_HAZARD_CHANGES_H_
#define KILN_TESTS_TRACE_HAZARD_CHANGES_H_

#include <random>

#include "tests/trace/host_function.h"

namespace kiln::hazards {

using Random = std::mt19937_64;

inline size_t Below(Random& random, size_t n) { return random() % n; }

inline int NumValues(const Host& host) {
  return static_cast<int>(host.f.inputs.size() + host.f.steps.size());
}

// What there is to see is there from the first call on.
inline bool Nothing(Host&, Random&) { return true; }

// ---- Operations: numbers, exponents, operators, attributes, operands, order, how many.

bool ChangeNumber(Host& host, Random& random);
bool ChangeOperator(Host& host, Random& random);
bool ChangeAttributes(Host& host, Random& random);
bool SwapOperands(Host& host, Random& random);
bool ArrayBecomesNumber(Host& host, Random& random);
bool NumberBecomesArray(Host& host, Random& random);
bool SwapSteps(Host& host, Random& random);
bool MoreOperations(Host& host, Random& random);
bool FewerOperations(Host& host, Random& random);
// The last operation is a power of so many tenths.
template <int kTenths>
bool Power(Host& host, Random&) {
  if (host.f.steps.back().op != "pow") {
    host.f.steps.push_back({.op = "pow", .operands = {NumValues(host) - 1, -1}});
    host.f.results[0] = NumValues(host) - 1;
  }
  host.f.steps.back().number = kTenths / 10.0;
  return true;
}

// ---- Reads, results, and what is held.

bool MoreReads(Host& host, Random& random);
bool FewerReads(Host& host, Random& random);
bool OneRead(Host& host, Random& random);
bool AnotherRead(Host& host, Random& random);
bool OtherResults(Host& host, Random& random);
bool MoreResults(Host& host, Random& random);
bool HoldsMore(Host& host, Random& random);

// ---- What is captured, and where arguments lie. Uses*: whether the function takes them at all.

bool ReplaceCaptured(Host& host, Random& random);
bool UsesCaptured(Host& host, Random& random);
bool UsesBoth(Host& host, Random& random);
bool CapturedAreOne(Host& host, Random& random);
bool CapturedAreTwo(Host& host, Random& random);
bool CapturedIsWide(Host& host, Random& random);
bool CapturedHasOneMore(Host& host, Random& random);
bool OneArgumentTwice(Host& host, Random& random);
bool ArgumentIsCaptured(Host& host, Random& random);
bool ArgumentHasMemoryOfCaptured(Host& host, Random& random);
bool ArgumentsOverlap(Host& host, Random& random);
bool OtherStrides(Host& host, Random& random);
// Into the memory of an input.
template <int kInput>
bool Write(Host& host, Random&) {
  auto* const data = static_cast<float*>(host.inputs[kInput].data());
  for (int64_t i = 0; i < host.inputs[kInput].num_elements(); ++i) data[i] += 1;
  return true;
}

// ---- Types, extents and devices.

bool WideArgument(Host& host, Random& random);
bool ArgumentOnGpu(Host& host, Random& random);
bool CapturedOnGpu(Host& host, Random& random);
bool OtherExtents(Host& host, Random& random);
// Extents as they are at first, and as they are then.
Shapes OneLess(Random& random);
Shapes Others(Random& random);
Shapes FromOne(Random& random);
Shapes ToOne(Random& random);
Shapes FromZero(Random& random);
Shapes ToZero(Random& random);

// ---- What the function does beside.

bool DoesNothing(Host& host, Random& random);
bool RegionHasMore(Host& host, Random& random);
bool RegionHasAnotherOperator(Host& host, Random& random);
bool RegionBeginsEarlier(Host& host, Random& random);
bool RegionEndsLater(Host& host, Random& random);
bool Branches(Host& host, Random& random);
bool BranchesOnArgument(Host& host, Random& random);
bool MakesArrays(Host& host, Random& random);
bool AnotherThreadCalls(Host& host, Random& random);
// Before a step after the first, and before whose end there is another one.
template <Deed kDeed>
bool Does(Host& host, Random& random) {
  if (host.f.steps.size() < 3) return false;
  host.deed = kDeed;
  host.at = 1 + Below(random, host.f.steps.size() - 2);
  host.until = host.at + 1 + Below(random, host.f.steps.size() - host.at);
  return true;
}

template <Source kSource>
bool ComesFrom(Host& host, Random&) {
  host.source = kSource;
  return true;
}

}  // namespace kiln::hazards

#endif  // KILN_TESTS_TRACE_HAZARD_CHANGES_H_
