// SPDX-License-Identifier: Apache-2.0
// Slices of arrays that have their elements already: no operation, and so no program for each place
// that a loop looks at.
#ifndef KILN_TRACE_SLICE_OF_H_
#define KILN_TRACE_SLICE_OF_H_

#include <initializer_list>
#include <optional>

#include "kiln/tensor.h"
#include "kiln/trace.h"

namespace kiln::tracing {

// The elements at `places`, axes in order, as the operator "slice" has them: a view where they lie
// dense, with a share in the whole, a copy where they are few. Nothing: the operator is better, or
// says what is wrong with a place.
std::optional<Tensor> SliceOf(const Tensor& whole, std::initializer_list<Index> places);

}  // namespace kiln::tracing

#endif  // KILN_TRACE_SLICE_OF_H_
