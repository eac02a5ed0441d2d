// SPDX-License-Identifier: Apache-2.0
// Analyses of a Kernel that schedule templates and code generation share.
//
// A stage is *stored* (Halide: compute_root or store_at) if its values are in memory between the
// loop that computes them and those that use them; a map that is not is computed anew where it is
// read. Which maps to store is a template's decision, the field `stored` of its schedule.
#ifndef KILN_SCHEDULE_ANALYSIS_H_
#define KILN_SCHEDULE_ANALYSIS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/decision.h"
#include "kernel/kernel.h"
#include "kernel/operands.h"
#include "schedule/machine.h"
#include "schedule/size_class.h"

namespace kiln {

// True if every axis of the read `node` is indexed by just the dim of that axis.
bool IsIdentityRead(const ExprNode& node, const std::vector<int32_t>& dims);

// True if `dims` are all iterated dims of the kernel in order, or all of them but the innermost.
bool SpansAll(const Kernel& kernel, const std::vector<int32_t>& dims);
bool SpansOuter(const Kernel& kernel, const std::vector<int32_t>& dims);

// How many elements the dims from `first` to `last` have at most, or INT32_MAX if that is less.
int64_t ElementsOf(const SizeClass& sizes, int32_t first, int32_t last);

// True if the outputs are dense, and each spans all dims, or (if `rows` holds) all but the
// innermost.
bool OutputsInOrder(const Kernel& kernel, bool rows);

// No if a stage is read at another element than the reader's own.
Decision StagesReadInPlace(const Kernel& kernel);

// Maps over outer dims only from this cost on are worth computing once a row.
inline constexpr int64_t kLeastOfRow = 4;  // speed

// True if parts of `expr` only count where some condition holds.
bool HasGuard(const ScalarExpr& expr);

// Rough cost of one element, in units of an addition.
int64_t Cost(const ScalarExpr& expr);

// Operations of one element, with functions expanded.
int64_t Operations(const ExprNode& node);
int64_t Operations(const ScalarExpr& expr);

// What compiling a kernel takes, about 0.5 ms each with one vector at a time: operations with
// functions expanded (a quarter of those of maps over no dims, which have no vectors), and as many
// as weigh the same for each dim that is reduced.
int64_t CompileWork(const Kernel& kernel);

// Elements of a task: `machine.parallel_grain`, or a smaller power of two where each takes more
// than a few operations, those of maps over no dims aside.
int64_t GrainFor(const Kernel& kernel, const Machine& machine);

// The widest class of a template with a loop for each level of a reduction: `known`, but where
// several dims but the innermost are reduced, each only as long as four levels reach. More would
// take seconds to compile, and the VM runs what is beyond.
SizeClass WidestReduced(const Kernel& kernel, const SizeClass& known);

// Decides which maps to store: those read other than by identity (if `reindexed`), and those that
// are expensive enough and needed by several loops. `shared_cost` and `single_cost` are the costs
// from which a map needed by several loops or by one is stored.
inline constexpr int64_t kWorthMaterialisingShared = 4, kWorthMaterialising = 12;  // speed
struct MaterialiseRule {
  bool reindexed = false;
  int64_t shared_cost = kWorthMaterialisingShared;
  int64_t single_cost = INT64_MAX;
};
std::vector<bool> MapsToMaterialise(const Kernel& kernel, const MaterialiseRule& rule);

// Vector elements per loop step: `vectors` registers of the widest type that occurs, at least
// kLeastLanes.
int64_t LanesFor(const Kernel& kernel, const Machine& machine, int64_t vectors);

// The most vectors side by side that are worth offering.
inline constexpr int64_t kMostVectors = 4;  // compile time

// The fewest lanes: narrower vectors are not worth their code.
inline constexpr int64_t kLeastLanes = 8;  // speed

// Elements of a loop step for rows of at most `row`: no more registers than the row fills.
int64_t LanesForRow(int64_t lanes, int64_t row);

// True if the rows of a vector find what they read along whole rows of inputs, or at their own or a
// common place: inputs are dense, and have the innermost dim last or just all others.
bool ReadsWholeRows(const Kernel& kernel);

// True if `input` is dense over all dims, and always read at the reader's own element.
bool IsReadInPlace(const Kernel& kernel, size_t input);

// True if inputs are dense, with their dims in the order of loops, and all is read at the reader's
// own element.
bool ReadsInOrder(const Kernel& kernel);

// The divisor, if the dense `input` is always read at x / divisor along its last axis, x being the
// innermost dim, and at the reader's own element otherwise; else 0. And the numbers of such
// inputs whose broadcast along x can be expanded.
int64_t DivisorOf(const Kernel& kernel, size_t input);
std::vector<int64_t> GroupedBroadcasts(const Kernel& kernel, const SizeClass& sizes);

// If vectors can run along the dims from `first` to `last` as one, the inputs that are expanded
// for it: those over some of these dims only, and maybe of those before. Any other is
// contiguous along all of them, or the same. None where that would take tables that are long or
// seldom read, or coordinates of these dims.
std::optional<std::vector<int64_t>> BroadcastsToExpand(const Kernel& kernel, const SizeClass& sizes,
                                                       int32_t first, int32_t last);

// (input, output) pairs of a kernel whose outputs all span all dims and are written by one loop
// nest, in which every read of the input is at exactly the element written, or at elements of the
// same row before it is written. No later output needs the input.
std::vector<std::pair<int32_t, int32_t>> ElementwisePairs(const Kernel& kernel);

// The dim along which `input` is contiguous, if that is another than the innermost, which it spans
// too, and it is always read at the reader's own element; else -1.
int32_t TransposedAlong(const Kernel& kernel, size_t input);

// To fold a row of so many elements takes about as long as to read it.
inline constexpr int64_t kShortRow = 200;  // speed

// Levels of the reduction tree for at most `extent` elements in blocks of `block`.
int64_t LevelsFor(int64_t extent, int64_t block);

// Accumulators of the lane rule that at most `row` elements reach; others would stay idle.
int64_t AccumulatorsFor(int64_t row);

}  // namespace kiln

#endif  // KILN_SCHEDULE_ANALYSIS_H_
