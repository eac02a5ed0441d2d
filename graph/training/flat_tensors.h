// SPDX-License-Identifier: Apache-2.0
// Many tensors of one type back to back in one: the parameters of a model, their gradients, their
// moments. What works element by element (an optimizer) is then one kernel and one launch for all,
// and the kernel is the same for every model.
//
//   FlatLayout layout = LayOut({{"w", {64, 3}}, {"b", {64}}});   // w at 0, b at 192, 256 elements
//   ValueId flat = b.Input("parameters", DType::kF32, {layout.elements});
//   std::vector<ValueId> parameters = Parts(b, layout, flat);    // views, no copies
//   ...
//   ValueId gradient = Flat(b, layout, gradients);               // each is written in its place
//
// A part is a slice and a reshape, Flat a concatenation: programs make views of the one, and let
// what computes a part write it into the other, where parts begin at a multiple of 64 bytes
// (compiler/element_moves.h). So tensors of a multiple of 64 bytes come first; what is left, which
// is small in usual networks, is copied.
#ifndef KILN_GRAPH_TRAINING_FLAT_TENSORS_H_
#define KILN_GRAPH_TRAINING_FLAT_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/graph.h"

namespace kiln::training {

struct FlatLayout {
  struct Part {
    std::string name;
    std::vector<int64_t> shape;
    int64_t offset = 0, elements = 0;
  };
  std::vector<Part> parts;
  int64_t elements = 0;
};

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
};
// Elements of `type`, without gaps; parts are in the order of `tensors`, their offsets may not be.
// kInvalidArgument: a negative extent, a name that stands twice, or more than 2^62 elements.
absl::StatusOr<FlatLayout> LayOut(const std::vector<NamedShape>& tensors, DType type = DType::kF32);

// The parts of `flat`, of shape [layout.elements], each with its shape. Errors are the builder's.
std::vector<ValueId> Parts(GraphBuilder& b, const FlatLayout& layout, ValueId flat);
// The other way: a value for each part, of its shape, becomes one of shape [layout.elements].
ValueId Flat(GraphBuilder& b, const FlatLayout& layout, const std::vector<ValueId>& parts);

}  // namespace kiln::training

#endif  // KILN_GRAPH_TRAINING_FLAT_TENSORS_H_
