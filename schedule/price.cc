// SPDX-License-Identifier: Apache-2.0
#include "schedule/price.h"

#include <algorithm>

#include "schedule/work.h"

namespace kiln {

double TimeOf(double bytes, double set_bytes, double compute_ns, const Machine& machine) {
  return machine.launch_ns + Overlapped(bytes / machine.GbPerS(set_bytes), compute_ns);
}

double NsWithin(const Price& price, double set_bytes, const Machine& machine) {
  const double slower =
      price.bytes / machine.GbPerS(set_bytes) - price.bytes / machine.GbPerS(price.bytes);
  return price.ns - Overlapped(price.memory_ns, price.compute_ns) +
         Overlapped(price.memory_ns + std::max(0.0, slower), price.compute_ns);
}

}  // namespace kiln
