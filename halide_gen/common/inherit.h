// SPDX-License-Identifier: Apache-2.0
// fork() copies the page tables of memory that the process wrote; pages of a mapped file are found
// again by the child, by a fault for every few of them. A child that compiles one kernel meets
// hundreds of those in the code and the tables of libHalide.
#ifndef KILN_HALIDE_GEN_COMMON_INHERIT_H_
#define KILN_HALIDE_GEN_COMMON_INHERIT_H_

#include "absl/strings/string_view.h"

namespace kiln {

// From now on children inherit the pages of the shared object with `name` in its path that this
// process has touched: writes a byte of each of its segments, as it is. Where that is forbidden
// nothing changes.
void InheritPages(absl::string_view name);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_INHERIT_H_
