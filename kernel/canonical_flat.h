// SPDX-License-Identifier: Apache-2.0
// The form in which Canonicalize works: one graph for the whole kernel, in which map stages have no
// place. Private to kernel/.
//
// Reads of a map stage at its own coordinates are replaced by its expression, so how a kernel was
// cut into stages is forgotten. What stays a stage: reductions, and maps read at other coordinates.
// A read node's `ref` is then an index into `stages`. Operands, and the expressions of stages, come
// before their users in node order.
#ifndef KILN_KERNEL_CANONICAL_FLAT_H_
#define KILN_KERNEL_CANONICAL_FLAT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/kernel.h"

namespace kiln::canonical_internal {

using DimSet = uint64_t;  // bit d: dim d

inline DimSet Bit(int32_t dim) { return DimSet{1} << dim; }
std::vector<int32_t> ToList(DimSet dims);

struct FlatStage {
  bool reduce = false;
  ReduceOp op = ReduceOp::kAdd;
  DimSet over = 0;
  DimSet dims = 0;  // what the expression depends on, less `over`
  ExprId expr = -1;
  friend bool operator==(const FlatStage&, const FlatStage&) = default;
};

struct FlatOutput {
  int32_t raw = 0;
  DType type = DType::kF32;
  Layout layout = Layout::kDense;
  std::vector<int32_t> dims;
  ExprId expr = -1;
};

// A parameter of the raw kernel, or a literal that becomes one.
struct FlatParam {
  int32_t raw = -1;   // the raw parameter, or -1:
  uint64_t bits = 0;  // a literal, as kConst holds it
};

struct Flat {
  std::vector<std::vector<int32_t>> dims;  // the raw dims of each; iterated ones first
  int num_iterated = 0;
  std::vector<KernelInput> inputs;  // numbered as in the raw kernel
  std::vector<DType> params;        // raw ones, then literals
  std::vector<FlatParam> param_values;
  ScalarExpr graph;
  std::vector<DimSet> free;  // by node: the coordinates it depends on
  std::vector<FlatStage> stages;
  std::vector<FlatOutput> outputs;

  ExprId Add(ExprNode node);  // keeps `free`
  int32_t AddStage(const FlatStage& stage);
};

// Step 1 and the forgetting of stages.
Flat Flatten(const Kernel& raw);

// Nodes that an output needs.
std::vector<bool> Live(const Flat& flat);

// Step 2: dims merged, unused ones dropped, those that are only extents made sizes.
Flat MergeDims(const Flat& flat);

// And the two innermost, if what is read along the first alone can be read at i / k (grouped).
Flat DivideDims(const Flat& flat, std::span<const int64_t> raw_extents);

// Step 4, first half: a hash of every node that depends on no numbering; equal for isomorphic
// computations.
struct Colors {
  std::vector<uint64_t> node;
  std::vector<uint64_t> output;
};
Colors Color(const Flat& flat);

// Operands of commutative ops and outputs in the order of their hashes; dead nodes dropped.
Flat Order(const Flat& flat);

}  // namespace kiln::canonical_internal

#endif  // KILN_KERNEL_CANONICAL_FLAT_H_
