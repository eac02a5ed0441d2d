// SPDX-License-Identifier: Apache-2.0
// Pattern: where the elements of a block lie, relative to its start.
//
// One is worked out per launch, operand and pass (tile.h), and is what gathers and scatters of the
// instruction sets walk. Rows of 3 elements, 8 apart, of a block of 6: spans {0, 3, 0, 1} and
// {3, 6, 8, 1}.
#ifndef KILN_EXEC_VM_PATTERN_H_
#define KILN_EXEC_VM_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <limits>

namespace kiln::vm {

// Elements [begin, end) of a block lie at offset + step * (i - begin); or outside: they are 0.
struct Span {
  int32_t begin = 0, end = 0, offset = 0, step = 0;
  bool outside = false;
};

// A vector's worth of elements that all lie at start ... start + count - 1, which are at most two
// vectors; its picks say where in it, negative ones being outside. A count of 0: they lie farther
// apart; kNothing: all are outside.
struct Window {
  int32_t start = 0, count = 0;
};
inline constexpr int32_t kNothing = -1;

inline constexpr size_t kMaxSpans = 256;  // correctness
inline constexpr int32_t kOutside = std::numeric_limits<int32_t>::min();

// Positions of a block's elements relative to its start: start + step * i; or those of a matrix
// that is read by columns: step * (i mod columns) + i / columns; or in spans where these are long;
// or one by one, with vectors picked out of windows where neighbours lie near.
struct Pattern {
  int64_t start = 0, step = 0;
  int64_t columns = 0;
  const Span* spans = nullptr;
  size_t num_spans = 0;
  const int32_t* offsets = nullptr;  // kOutside: the element is 0
  const Window* windows = nullptr;   // for each vector of offsets
  const int8_t* picks = nullptr;     // for each element of a window
  bool dense() const { return step == 1 && columns == 0 && spans == nullptr && offsets == nullptr; }
};

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_PATTERN_H_
