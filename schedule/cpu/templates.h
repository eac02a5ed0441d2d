// SPDX-License-Identifier: Apache-2.0
// The templates of the CPU: one line for each.
#ifndef KILN_SCHEDULE_CPU_TEMPLATES_H_
#define KILN_SCHEDULE_CPU_TEMPLATES_H_

#include "schedule/cpu/deinterleave.h"
#include "schedule/cpu/fissioned.h"
#include "schedule/cpu/full_unroll.h"
#include "schedule/cpu/memory_order.h"
#include "schedule/cpu/outer_reduction.h"
#include "schedule/cpu/outer_vectorized.h"
#include "schedule/cpu/packed_blocks.h"
#include "schedule/cpu/pointwise.h"
#include "schedule/cpu/row_and_column.h"
#include "schedule/cpu/row_reduction.h"
#include "schedule/cpu/scatter.h"
#include "schedule/cpu/segmented.h"
#include "schedule/cpu/staged.h"
#include "schedule/cpu/transpose.h"

// Of candidates that cost the same, one of the first template is chosen.
//
// X(Name): the struct is Name, its record kName, its builder in halide_gen/cpu/ BuildName.
#define KILN_CPU_TEMPLATES(X) \
  X(Pointwise)                \
  X(Fissioned)                \
  X(FullUnroll)               \
  X(PackedBlocks)             \
  X(MemoryOrder)              \
  X(Segmented)                \
  X(Transpose)                \
  X(Deinterleave)             \
  X(RowReduction)             \
  X(OuterVectorized)          \
  X(RowAndColumn)             \
  X(Staged)                   \
  X(Scatter)                  \
  X(OuterReduction)

#endif  // KILN_SCHEDULE_CPU_TEMPLATES_H_
