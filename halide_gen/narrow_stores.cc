// SPDX-License-Identifier: Apache-2.0
#include "kiln/halide_gen/narrow_stores.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kiln/halide_gen/picked_lanes.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Block;
using Halide::Internal::Broadcast;
using Halide::Internal::Call;
using Halide::Internal::Cast;
using Halide::Internal::IRMutator;
using Halide::Internal::Let;
using Halide::Internal::LetStmt;
using Halide::Internal::Load;
using Halide::Internal::Ramp;
using Halide::Internal::Reinterpret;
using Halide::Internal::Shuffle;
using Halide::Internal::Stmt;
using Halide::Internal::Store;
using Halide::Internal::Variable;

constexpr unsigned kPartLanes = 64;  // of a part: a few registers hide what each waits for

struct Range {
  int begin, lanes;
};

// Powers of two, which LLVM has no trouble with.
std::vector<Range> PartsIn(int lanes) {
  std::vector<Range> parts;
  for (int begin = 0; begin < lanes; begin += parts.back().lanes) {
    const unsigned left = std::min(kPartLanes, static_cast<unsigned>(lanes - begin));
    parts.push_back({begin, static_cast<int>(std::bit_floor(left))});
  }
  return parts;
}

bool IsNarrow(int lanes) { return PartsIn(lanes).size() == 1; }

using Parts = std::map<std::string, std::vector<Expr>>;

// One part of vectors.
class PartOf : public IRMutator {
 public:
  PartOf(size_t part, Range range, const Parts& named)
      : part_(part), begin_(range.begin), lanes_(range.lanes), named_(named) {}

  using IRMutator::mutate;
  Expr mutate(const Expr& vector) override {
    return vector.type().is_scalar() ? vector : IRMutator::mutate(vector);
  }

 private:
  using IRMutator::visit;

  Expr visit(const Variable* op) override {
    const auto own = own_.find(op->name);
    if (own != own_.end()) return own->second;
    const auto named = named_.find(op->name);
    if (named != named_.end()) return named->second[part_];
    return Shuffle::make_slice(op, begin_, 1, lanes_);
  }

  Expr visit(const Broadcast* op) override {
    if (op->value.type().is_scalar())
      return lanes_ == 1 ? op->value : Broadcast::make(op->value, lanes_);
    std::vector<int> lanes;
    for (int lane = 0; lane < lanes_; ++lane)
      lanes.push_back((begin_ + lane) % op->value.type().lanes());
    return Shuffle::make({op->value}, lanes);
  }

  Expr visit(const Ramp* op) override {
    if (op->base.type().is_vector()) return Shuffle::make_slice(op, begin_, 1, lanes_);
    const Expr first = op->base + begin_ * op->stride;
    return lanes_ == 1 ? first : Ramp::make(first, op->stride, lanes_);
  }

  // Of what is shuffled only what the part needs.
  Expr visit(const Shuffle* op) override {
    std::vector<PickedLane> all;
    for (size_t k = 0; k < op->vectors.size(); ++k)
      for (int e = 0; e < op->vectors[k].type().lanes(); ++e) all.push_back({k, e});
    std::vector<PickedLane> lanes;
    for (int lane = begin_; lane < begin_ + lanes_; ++lane)
      lanes.push_back(all[static_cast<size_t>(op->indices[static_cast<size_t>(lane)])]);
    return PickLanes(op->vectors, lanes);
  }

  Expr visit(const Load* op) override {
    return Load::make(op->type.with_lanes(lanes_), op->name, mutate(op->index), op->image,
                      op->param, mutate(op->predicate), {});
  }

  Expr visit(const Cast* op) override {
    return Cast::make(op->type.with_lanes(lanes_), mutate(op->value));
  }
  Expr visit(const Reinterpret* op) override {
    return Reinterpret::make(op->type.with_lanes(lanes_), mutate(op->value));
  }

  Expr visit(const Call* op) override {
    std::vector<Expr> args;
    for (const Expr& arg : op->args) args.push_back(mutate(arg));
    return Call::make(op->type.with_lanes(lanes_), op->name, args, op->call_type, op->func,
                      op->value_index, op->image, op->param);
  }

  Expr visit(const Let* op) override {
    if (op->value.type().is_scalar()) return Let::make(op->name, op->value, mutate(op->body));
    const std::string name = Halide::Internal::unique_name("part");
    const Expr value = mutate(op->value);
    own_[op->name] = Variable::make(value.type(), name);
    return Let::make(name, value, mutate(op->body));
  }

  const size_t part_;
  const int begin_, lanes_;
  const Parts& named_;
  std::map<std::string, Expr> own_;  // named within
};

}  // namespace

Stmt NarrowStores::visit(const LetStmt* op) {
  const int lanes = op->value.type().lanes();
  if (IsNarrow(lanes)) return IRMutator::visit(op);
  std::vector<std::pair<std::string, Expr>> values;
  std::vector<Expr> names;
  const std::vector<Range> ranges = PartsIn(lanes);
  for (size_t part = 0; part < ranges.size(); ++part) {
    const Expr value = PartOf(part, ranges[part], parts_).mutate(op->value);
    values.emplace_back(Halide::Internal::unique_name("part"), value);
    names.push_back(Variable::make(value.type(), values.back().first));
  }
  parts_[op->name] = std::move(names);
  Stmt body = LetStmt::make(op->name, op->value, mutate(op->body));
  for (auto value = values.rbegin(); value != values.rend(); ++value)
    body = LetStmt::make(value->first, value->second, body);
  return body;
}

Stmt NarrowStores::visit(const Store* op) {
  const int lanes = op->value.type().lanes();
  const auto* ramp = op->index.as<Ramp>();
  const bool narrow = IsNarrow(lanes) || ramp == nullptr || ramp->base.type().is_vector() ||
                      !Halide::Internal::is_const_one(op->predicate);
  if (narrow) return IRMutator::visit(op);
  std::vector<Stmt> stores;
  const std::vector<Range> ranges = PartsIn(lanes);
  for (size_t part = 0; part < ranges.size(); ++part) {
    PartOf of(part, ranges[part], parts_);
    const Expr value = of.mutate(op->value);
    stores.push_back(Store::make(op->name, value, of.mutate(op->index), op->param,
                                 Halide::Internal::const_true(value.type().lanes()), {}));
  }
  return Block::make(stores);
}

}  // namespace kiln
