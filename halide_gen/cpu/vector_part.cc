// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/vector_part.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "halide_gen/cpu/lane_shuffle.h"

namespace kiln {

using Halide::Expr;
using Halide::Internal::Broadcast;
using Halide::Internal::Call;
using Halide::Internal::Cast;
using Halide::Internal::Let;
using Halide::Internal::Load;
using Halide::Internal::Ramp;
using Halide::Internal::Reinterpret;
using Halide::Internal::Shuffle;
using Halide::Internal::Variable;

VectorPart::VectorPart(Expr begin, int lanes) : begin_(std::move(begin)), lanes_(lanes) {}

Expr VectorPart::mutate(const Expr& vector) {
  return vector.type().is_scalar() ? vector : IRMutator::mutate(vector);
}

Expr VectorPart::Slice(const Expr& vector) {
  std::vector<int> lanes;
  for (int lane = 0; lane < vector.type().lanes(); ++lane) lanes.push_back(lane);
  return mutate(Shuffle::make({vector}, lanes));
}

Expr VectorPart::visit(const Variable* op) {
  const auto named = named_.find(op->name);
  return named == named_.end() ? Slice(op) : named->second;
}

Expr VectorPart::visit(const Broadcast* op) {
  if (op->value.type().is_scalar())
    return lanes_ == 1 ? op->value : Broadcast::make(op->value, lanes_);
  std::vector<int> lanes;
  for (int lane = 0; lane < op->type.lanes(); ++lane)
    lanes.push_back(lane % op->value.type().lanes());
  return mutate(Shuffle::make({op->value}, lanes));
}

Expr VectorPart::visit(const Ramp* op) {
  if (op->base.type().is_vector()) return Slice(op);
  const Expr first = op->base + begin_ * op->stride;
  return lanes_ == 1 ? first : Ramp::make(first, op->stride, lanes_);
}

Expr VectorPart::visit(const Shuffle* op) {
  const auto begin = Halide::Internal::as_const_int(begin_);
  if (!begin) {
    ok_ = false;
    return Halide::Internal::make_zero(op->type.with_lanes(lanes_));
  }
  std::vector<PickedLane> all;
  for (size_t k = 0; k < op->vectors.size(); ++k)
    for (int e = 0; e < op->vectors[k].type().lanes(); ++e) all.push_back({k, e});
  std::vector<PickedLane> lanes;
  for (int64_t lane = *begin; lane < *begin + lanes_; ++lane)
    lanes.push_back(all[static_cast<size_t>(op->indices[static_cast<size_t>(lane)])]);
  return PickLanes(op->vectors, lanes);
}

Expr VectorPart::visit(const Load* op) {
  return Load::make(op->type.with_lanes(lanes_), op->name, mutate(op->index), op->image, op->param,
                    mutate(op->predicate), {});
}

Expr VectorPart::visit(const Cast* op) {
  return Cast::make(op->type.with_lanes(lanes_), mutate(op->value));
}
Expr VectorPart::visit(const Reinterpret* op) {
  return Reinterpret::make(op->type.with_lanes(lanes_), mutate(op->value));
}

Expr VectorPart::visit(const Call* op) {
  std::vector<Expr> args;
  for (const Expr& arg : op->args) args.push_back(mutate(arg));
  return Call::make(op->type.with_lanes(lanes_), op->name, args, op->call_type, op->func,
                    op->value_index, op->image, op->param);
}

Expr VectorPart::visit(const Let* op) {
  if (op->value.type().is_scalar()) return Let::make(op->name, op->value, mutate(op->body));
  const std::string name = Halide::Internal::unique_name("part");
  const Expr value = mutate(op->value);
  Name(op->name, Variable::make(value.type(), name));
  return Let::make(name, value, mutate(op->body));
}

}  // namespace kiln
