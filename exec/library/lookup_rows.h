// SPDX-License-Identifier: Apache-2.0
// The inner loop of a table lookup, with the permutations of bytes that the processor has.
#ifndef KILN_EXEC_LIBRARY_LOOKUP_ROWS_H_
#define KILN_EXEC_LIBRARY_LOOKUP_ROWS_H_

#include <cstdint>
#include <span>

namespace kiln::library {

// y[i] = table[x[i]] for n bytes; the table has 256. y is x, or they do not overlap.
using LookupRow = void (*)(const uint8_t* x, const uint8_t* table, uint8_t* y, int64_t n);

// All of this processor's; they give the same. The first is the fastest, the last plain.
std::span<const LookupRow> LookupRows();

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_LOOKUP_ROWS_H_
