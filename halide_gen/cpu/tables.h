// SPDX-License-Identifier: Apache-2.0
// Inputs over some of the dims that are collapsed, written out for all of them.
//
// Where dims b, c, d are collapsed, neighbours along an input over c alone repeat and come back
// after |c| * |d| steps. A table has them for one such period and for as many steps more as a
// vector has lanes, so that each vector is one load, wherever it begins. Example, |c| = 2, |d| = 3,
// 4 lanes:
//   in: p q   ->   table: p p p q q q p p p q
// Likewise what is read at i / k: where c and d are one dim x, the input over c is read at
// x / |d|.
//
// Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_TABLES_H_
#define KILN_HALIDE_GEN_CPU_TABLES_H_

#include <Halide.h>

#include <cstdint>
#include <vector>

#include "halide_gen/common/expr_emitter.h"
#include "kernel/kernel.h"

namespace kiln {

// Makes tables of the inputs `expanded`, for vectors of `lanes` steps along
// the collapsed loop: the dims up to `last`. `emitter` reads them from now on. Where the innermost
// dim comes after `last`, a step is a row of it in inputs that have it. No table repeats within
// the dims from `whole_from` on.
void UseTables(const Kernel& kernel, const std::vector<int64_t>& expanded, const Operands& operands,
               int32_t last, int lanes, ExprEmitter& emitter, int32_t whole_from = INT32_MAX);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_TABLES_H_
