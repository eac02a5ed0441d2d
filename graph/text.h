// SPDX-License-Identifier: Apache-2.0
// The text form of a Graph, and its parser: ParseGraph(Print(g)) prints the same again.
//
//   graph softmax_rows
//   input x : f32 [n, 64]
//   const scale : f32 [] = 0.125
//   const bias : f32 [3] = [0.5, nan, -inf]
//   const w : f32 [64, 300] = base64 "AACAPw..."  # little-endian elements, up to 64 KiB
//   const big : f32 [30522, 768] = #8d0f...       # SHA-256 of the elements: the parser refuses it
//   guard n % 8 == 0
//   premise n == m                                # Graph::premises
//   y : f32 [n, 64] = mul(x, scale)
//   a : f32 [n, 32], b : f32 [n, 32] = split(y) {axis = 1}
//   z = softmax(a) {axis = 1} "my softmax"        # types and shapes may be left out; node's name
//   output z
//   output `z:0` = b                              # an output under another name than its value's
//
// One statement a line; `#` starts a comment outside quotes, except after `=`. Names are as in
// base/name.h; `_` stands for an absent optional input. Attributes: 1, [1, 2], 0.5, "text", f32,
// [n, 64], or a tensor `i64 [1] = [3]`; what kind one is, the op's record says. Floats are written
// with as many digits as they need to be read back exactly.
#ifndef KILN_GRAPH_TEXT_H_
#define KILN_GRAPH_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"

namespace kiln {

std::string Print(const Graph& graph);
// The statement of one node, as Print writes it, without the line's end.
std::string Print(const Graph& graph, NodeId node);

// Parses, infers and verifies. kInvalidArgument names the line. Linear in the text. Thread-safe.
// Where the rule of a node has an error with the symbols that are written, under the guards adopted
// before it, other extents may still have a result: then the graph is one for some sizes that have,
// under guards that say these, and its maker (Graph::maker) parses the text for others. Only if no
// sizes that are tried have a result is the error that of the text.
absl::StatusOr<Graph> ParseGraph(absl::string_view text);

}  // namespace kiln

#endif  // KILN_GRAPH_TEXT_H_
