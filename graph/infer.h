// SPDX-License-Identifier: Apache-2.0
// Type and shape rules that records share, and the helpers that the others are written with.
#ifndef KILN_GRAPH_INFER_H_
#define KILN_GRAPH_INFER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/op.h"

namespace kiln {

// ---- Rules. Shapes broadcast as in NumPy; all inputs have one type, which the output has too,
// unless said otherwise.
absl::Status InferElementwise(InferContext& c);
absl::Status InferFloat(InferContext& c);   // float types
absl::Status InferNumber(InferContext& c);  // float and integer types
absl::Status InferInteger(InferContext& c);
absl::Status InferBits(InferContext& c);     // integers and bool
absl::Status InferCompare(InferContext& c);  // gives bool
absl::Status InferOrder(InferContext& c);    // the same, not for bool
absl::Status InferFloatToBool(InferContext& c);
absl::Status InferSameAsFirst(InferContext& c);  // float; type and shape of input 0, no broadcast

// ---- Helpers.
// The shape of two operands together. Equal extents and an extent of 1 fit; otherwise the two are
// assumed equal by a guard. Where neither is known to be 1, so is that guard what makes the answer
// right: for extents 1 and n it does not hold.
absl::StatusOr<Shape> Broadcast(InferContext& c, const Shape& a, const Shape& b);
absl::StatusOr<Shape> BroadcastInputs(InferContext& c);

// Whether `guard` holds where all symbols are large numbers: what is assumed if extents decide.
bool HoldsForLarge(const Guard& guard);
// Whether it holds where all symbols are `size`.
bool HoldsWhereAllAre(int64_t size, const Guard& guard);
// True: the first is assumed, or known to hold; false: the second. Of what extents decide, what
// holds for large ones is assumed.
bool AssumeEither(InferContext& c, const Guard& first, const Guard& second);
// `to`, if `own` broadcasts to it without widening it; an extent that `own` says as a number is
// that number. `what` has the shape `own`.
absl::StatusOr<Shape> BroadcastTo(InferContext& c, const Shape& to, const Shape& own,
                                  absl::string_view what);

// An axis in which elements are looked up has some, or is known to have none: what is looked up
// there is 0, and its IndexMap reads nothing.
void AssumeKnownIfEmpty(InferContext& c, const Dim& extent);

absl::Status RequireType(const InferContext& c, int input, bool (*allowed)(DType),
                         absl::string_view names);
absl::Status RequireSameTypes(const InferContext& c);  // of all inputs that are there
absl::Status RequireRank(const InferContext& c, int input, size_t rank);
absl::Status RequireRankAtLeast(const InferContext& c, int input, size_t rank);

// `axis` counted from the end if negative; kInvalidArgument outside [-rank, rank).
absl::StatusOr<int> NormalAxis(int64_t axis, size_t rank);
// The attribute `axes`, normalised, ascending, without repeats; all axes if it is empty and
// `empty_is_all`.
absl::StatusOr<std::vector<int>> NormalAxes(std::vector<int64_t> axes, size_t rank,
                                            bool empty_is_all);

// Numbers from a kDims attribute; kUnimplemented where one is symbolic.
absl::StatusOr<std::vector<int64_t>> Numbers(const Shape& dims, absl::string_view what);

bool IsNumber(DType type);
bool IsBits(DType type);

}  // namespace kiln

#endif  // KILN_GRAPH_INFER_H_
