// SPDX-License-Identifier: Apache-2.0
// What an ONNX file may be. Models are untrusted: each limit is checked before memory is taken for
// what it limits, and tests/onnx/hostile_test.cc has a file that breaks each one.
#ifndef KILN_GRAPH_ONNX_LIMITS_H_
#define KILN_GRAPH_ONNX_LIMITS_H_

#include <cstdint>

namespace kiln::onnx {

inline constexpr int64_t kMaxFileBytes =
    (int64_t{2} << 30) - 1;  // of the model; external data may be longer
inline constexpr int64_t kMaxSkeletonBytes = int64_t{256}
                                             << 20;  // of the model without its tensors' raw bytes
inline constexpr int64_t kMaxFields =
    int64_t{1} << 25;  // wire fields of models, graphs, nodes, attributes, tensors
inline constexpr int64_t kMaxNodes = 1'000'000;  // sub-graphs included
inline constexpr int64_t kMaxExpandedNodes =
    100'000;  // that functions, branches and loop bodies are expanded to: few may make many
inline constexpr int64_t kMaxParts = 10'000;  // of one sequence that is cut from a tensor
inline constexpr int64_t kMaxSequenceItems =
    1'000'000;  // of all sequences: a chain of inserts holds each length once
inline constexpr int64_t kMaxBodies =
    2048;  // branches and loop bodies; each is looked at again where a loop changes extents
inline constexpr int64_t kMaxTableElements =
    int64_t{1} << 26;  // of all tables that converters compute, such as those of transforms
inline constexpr int64_t kMaxInterpretedWork =
    int64_t{1} << 24;  // elements computed at import; each node counts for 64 more
inline constexpr int64_t kMaxNameBytes =
    4096;  // of values, nodes, operators, attributes, locations
inline constexpr int64_t kMaxAttributes = 1024;  // of one node
inline constexpr int64_t kMaxListLength =
    1'000'000;                             // of one attribute, and inputs and outputs of one node
inline constexpr int kMaxGraphDepth = 32;  // sub-graphs within sub-graphs
inline constexpr int kMaxRank = 16;
inline constexpr int64_t kDefaultMaxTotalBytes = int64_t{4}
                                                 << 30;  // of all tensors, external data included

}  // namespace kiln::onnx

#endif  // KILN_GRAPH_ONNX_LIMITS_H_
