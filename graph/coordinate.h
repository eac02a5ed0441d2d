// SPDX-License-Identifier: Apache-2.0
// Index maps that read nothing: a piece whose `input` is kCoordinate has as its elements the
// coordinates that its only axis describes. The record `iota` is written with it.
#ifndef KILN_GRAPH_COORDINATE_H_
#define KILN_GRAPH_COORDINATE_H_

namespace kiln {

inline constexpr int kCoordinate = -1;

}  // namespace kiln

#endif  // KILN_GRAPH_COORDINATE_H_
