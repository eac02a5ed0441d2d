// SPDX-License-Identifier: Apache-2.0
// What an ONNX file may be. Models are untrusted: a file that goes beyond one of these limits is
// refused with kResourceExhausted before the memory is taken that lies beyond it.
// tests/onnx/hostile_test.cc has a file that breaks each one.
#ifndef KILN_GRAPH_ONNX_LIMITS_H_
#define KILN_GRAPH_ONNX_LIMITS_H_

#include <cstdint>

namespace kiln::onnx {

// ---- The form of the file, checked as it is read.
// Bytes of the model; external data may be longer.
inline constexpr int64_t kMaxFileBytes = (int64_t{2} << 30) - 1;
// Bytes of what protobuf parses: the model without the raw_data of its tensors.
inline constexpr int64_t kMaxSkeletonBytes = int64_t{256} << 20;
// Fields of all messages that are walked, unknown ones included.
inline constexpr int64_t kMaxFields = int64_t{1} << 25;
// Nodes of all graphs, sub-graphs and functions.
inline constexpr int64_t kMaxNodes = 1'000'000;
// Bytes of a name of a value, node, operator, attribute or dim, of a string in an attribute's list,
// and of the location of external data.
inline constexpr int64_t kMaxNameBytes = 4096;
inline constexpr int64_t kMaxAttributes = 1024;  // of one node
// Numbers or strings of one attribute; inputs and outputs of one node together.
inline constexpr int64_t kMaxListLength = 1'000'000;
// Sub-graphs within sub-graphs; functions that call functions.
inline constexpr int kMaxGraphDepth = 32;
inline constexpr int kMaxRank = 16;  // dims of a tensor

// ---- What is made of it, checked before it is made.
// Bytes of all tensors, external data included; what OnnxImportOptions::max_total_bytes, and
// CompileOptions::max_weight_bytes, begin as.
inline constexpr int64_t kDefaultMaxTotalBytes = int64_t{4} << 30;
// Nodes that functions, branches, loop bodies and sequences are expanded to: few may make many.
inline constexpr int64_t kMaxExpandedNodes = 100'000;
// Times that branches and loop bodies are converted: a body once more where its loop changes an
// extent.
inline constexpr int64_t kMaxBodies = 2048;
inline constexpr int64_t kMaxParts = 10'000;  // of one sequence that is cut from a tensor
// Items of all sequences: a chain of inserts counts those of each length.
inline constexpr int64_t kMaxSequenceItems = 1'000'000;
// Elements of all tables that converters compute, such as those of transforms.
inline constexpr int64_t kMaxTableElements = int64_t{1} << 26;
// Work of computing constants at import: elements read and written (library operators: each with
// each), and 64 for a node. Not refused: what would take more is left to the run.
inline constexpr int64_t kMaxInterpretedWork = int64_t{1} << 24;

}  // namespace kiln::onnx

#endif  // KILN_GRAPH_ONNX_LIMITS_H_
