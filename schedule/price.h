// SPDX-License-Identifier: Apache-2.0
// Price: how long a kernel takes on a machine, by the cost model of its device (device.h).
//
// What a kernel walks and what it computes are kept apart, since groups of kernels share the first:
// what one leaves in a cache may be gone when the next one reads it.
#ifndef KILN_SCHEDULE_PRICE_H_
#define KILN_SCHEDULE_PRICE_H_

#include "schedule/machine.h"

namespace kiln {

struct Price {
  double ns = 0;         // of a call, idle time aside; the two that follow are part of it
  double memory_ns = 0;  // memory traffic of the operands, each once
  double compute_ns = 0;
  // Stalls, on top: lanes beyond the end of a row, loops that wait for a reduction,
  // chains of operations that wait for each other. No part of what merges are judged by: another
  // schedule, or what takes a row up again in another kernel, would wait as well.
  double idle_ns = 0;
  double bytes = 0;  // of the operands, each once
  // The most often that an element of a map with functions, divisions or roots is computed.
  double expensive_repeats = 1;
};

// The time of a kernel that walks `bytes`, as fast as a set of `set_bytes`, and computes for
// `compute_ns`.
double TimeOf(double bytes, double set_bytes, double compute_ns, const Machine& machine);

// The price in ns of a kernel that is one of several which together walk `set_bytes`, more than it
// does alone: what one leaves in the cache does not wait there for the next.
double NsWithin(const Price& price, double set_bytes, const Machine& machine);

}  // namespace kiln

#endif  // KILN_SCHEDULE_PRICE_H_
