// SPDX-License-Identifier: Apache-2.0
#include "exec/validate/probe_reads.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "kernel/eval.h"
#include "kernel/operands.h"

namespace kiln {

struct ReadRange {
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = std::numeric_limits<int64_t>::min();
};

namespace {

size_t At(int32_t i) { return static_cast<size_t>(i); }

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// Where an index can lie, for coordinates in their extents.
ReadRange RangeOf(const IndexExpr& index, const std::vector<int64_t>& extents) {
  ReadRange range{index.offset, index.offset};
  for (const IndexExpr::Term& term : index.terms) {
    const int64_t extent = extents[At(term.dim)];
    const int64_t first = term.extent ? extent * term.coef : 0;
    const int64_t last = (term.extent ? extent : extent - 1) * term.coef;
    range.least += std::min(first, last);
    range.most += std::max(first, last);
  }
  range = {FloorDiv(range.least, index.div), FloorDiv(range.most, index.div)};
  if (index.mod == 0) return range;
  if (FloorDiv(range.least, index.mod) != FloorDiv(range.most, index.mod))
    return {0, index.mod - 1};
  const int64_t base = FloorDiv(range.least, index.mod) * index.mod;
  return {range.least - base, range.most - base};
}

int64_t IndexAt(const IndexExpr& index, const std::vector<int64_t>& coordinates,
                const std::vector<int64_t>& extents) {
  if (index.load >= 0) return 0;  // clamped to its axis, which must then have an element
  int64_t sum = index.offset;
  for (const IndexExpr::Term& term : index.terms)
    sum += term.coef * (term.extent ? extents : coordinates)[At(term.dim)];
  sum = FloorDiv(sum, index.div);
  return index.mod == 0 ? sum : sum - index.mod * FloorDiv(sum, index.mod);
}

// Calls fn(operand, is the guarded operand of a guard) for each operand and loaded index of a node.
template <typename Fn>
void ForEachOperand(const ExprNode& node, Fn&& fn) {
  for (int k = 0; k < 3; ++k) {
    if (node.args[k] >= 0) fn(node.args[k], node.op == ScalarOp::kGuard && k == 1);
  }
  for (const IndexExpr& index : node.index) {
    if (index.load >= 0) fn(index.load, false);
  }
}

void AddStrays(const Kernel& kernel, const ExprNode& read, const std::vector<ReadRange>& ranges,
               const std::vector<int64_t>& extents, std::vector<StrayRead>& strays) {
  const std::vector<int32_t>& dims = OperandDims(kernel, read);
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const auto [least, most] = ranges[axis];
    if (least > most || (least >= 0 && most < extents[At(dims[axis])])) continue;
    strays.push_back({&read.index[axis], dims[axis], least, most});
  }
}

}  // namespace

struct ReadFollower::Reach {
  std::vector<ReadRange> axes;  // empty ranges where the read is never performed
};

// One coordinate of the walk, and what is known there.
struct ReadFollower::Walk {
  const std::vector<int64_t>& extents;
  std::vector<int64_t> coordinates;
  std::vector<uint64_t> conditions;  // values
  std::vector<bool> performed;       // by node of the expression
};

ReadFollower::ReadFollower(const Kernel& kernel, const ScalarExpr& expr, std::vector<int32_t> space)
    : kernel_(kernel), expr_(expr), space_(std::move(space)) {
  FindGuarded();
  if (!guarded_.empty()) FindConditions();
}

void ReadFollower::FindGuarded() {
  const size_t count = expr_.nodes().size();
  std::vector<bool> open(count, false), used(count, false);
  if (expr_.root() < 0) return;
  open[At(expr_.root())] = used[At(expr_.root())] = true;
  for (ExprId id = expr_.root(); id >= 0; --id) {
    if (!used[At(id)]) continue;
    ForEachOperand(expr_.node(id), [&](ExprId operand, bool guarded) {
      used[At(operand)] = true;
      if (open[At(id)] && !guarded) open[At(operand)] = true;
    });
    if (expr_.node(id).op == ScalarOp::kRead) (open[At(id)] ? open_ : guarded_).push_back(id);
  }
  leads_.assign(count, false);
  for (const ExprId id : guarded_) leads_[At(id)] = true;
  for (ExprId id = 0; id <= expr_.root(); ++id) {
    ForEachOperand(expr_.node(id), [&](ExprId operand, bool) {
      if (leads_[At(operand)]) leads_[At(id)] = true;
    });
  }
}

void ReadFollower::FindConditions() {
  // Nodes that depend on coordinates and extents alone, as nodes of conditions_.
  std::vector<ExprId> known(expr_.nodes().size(), -1);
  std::set<int32_t> walked;
  for (ExprId id = 0; id <= expr_.root(); ++id) {
    ExprNode node = expr_.node(id);
    if (node.op == ScalarOp::kRead || node.op == ScalarOp::kParam || Info(node.op).function)
      continue;
    bool all = true;
    for (ExprId& arg : node.args) {
      if (arg >= 0) all = (arg = known[At(arg)]) >= 0 && all;
    }
    if (!all) continue;
    known[At(id)] = conditions_.Add(std::move(node));
  }
  if (!conditions_.empty())
    conditions_.set_root(static_cast<ExprId>(conditions_.nodes().size()) - 1);
  holds_.resize(expr_.nodes().size());
  for (ExprId id = 0; id <= expr_.root(); ++id) {
    if (expr_.node(id).op != ScalarOp::kGuard || !leads_[At(id)]) continue;
    std::vector<ExprId> parts = {expr_.node(id).args[0]};
    while (!parts.empty()) {
      const ExprId part = parts.back();
      parts.pop_back();
      const ExprNode& node = expr_.node(part);
      if (known[At(part)] >= 0) {
        holds_[At(id)].push_back(known[At(part)]);
      } else if (node.op == ScalarOp::kAnd) {
        parts.insert(parts.end(), {node.args[0], node.args[1]});
      }
    }
  }
  for (const ExprNode& node : conditions_.nodes()) {
    if (node.op == ScalarOp::kIndex) walked.insert(node.ref);
  }
  for (const ExprId id : guarded_) {
    for (const IndexExpr& index : expr_.node(id).index) {
      for (const IndexExpr::Term& term : index.terms) {
        if (!term.extent) walked.insert(term.dim);
      }
    }
  }
  walked_.assign(walked.begin(), walked.end());
}

std::vector<StrayRead> ReadFollower::Strays(const std::vector<int64_t>& extents) const {
  std::vector<StrayRead> strays;
  for (const int32_t dim : space_) {
    if (extents[At(dim)] == 0) return strays;
  }
  for (const ExprId id : open_) {
    const ExprNode& read = expr_.node(id);
    std::vector<ReadRange> ranges;
    for (const IndexExpr& index : read.index)
      ranges.push_back(index.load >= 0 ? ReadRange{0, 0} : RangeOf(index, extents));
    AddStrays(kernel_, read, ranges, extents, strays);
  }
  if (!guarded_.empty()) FollowGuarded(extents, strays);
  return strays;
}

void ReadFollower::FollowGuarded(const std::vector<int64_t>& extents,
                                 std::vector<StrayRead>& strays) const {
  Walk walk{extents, std::vector<int64_t>(extents.size(), 0), {}, {}};
  std::vector<Reach> reached(guarded_.size());
  for (size_t k = 0; k < guarded_.size(); ++k)
    reached[k].axes.resize(expr_.node(guarded_[k]).index.size());
  const auto next = [&] {
    for (const int32_t dim : walked_) {
      if (++walk.coordinates[At(dim)] < extents[At(dim)]) return true;
      walk.coordinates[At(dim)] = 0;
    }
    return false;
  };
  do {
    Visit(walk, reached);
  } while (next());
  for (size_t k = 0; k < guarded_.size(); ++k)
    AddStrays(kernel_, expr_.node(guarded_[k]), reached[k].axes, extents, strays);
}

void ReadFollower::Visit(Walk& walk, std::vector<Reach>& reached) const {
  if (!conditions_.empty()) {
    EvalScalar(
        conditions_,
        [&](ExprId id, const uint64_t*) {
          const ExprNode& leaf = conditions_.node(id);
          const auto& from = leaf.op == ScalarOp::kIndex ? walk.coordinates : walk.extents;
          return static_cast<uint64_t>(from[At(leaf.ref)]);
        },
        walk.conditions);
  }
  walk.performed.assign(expr_.nodes().size(), false);
  walk.performed[At(expr_.root())] = true;
  for (ExprId id = expr_.root(); id >= 0; --id) {
    if (!walk.performed[At(id)] || !leads_[At(id)]) continue;
    const std::vector<ExprId>& parts = holds_[At(id)];
    const bool holds = std::all_of(parts.begin(), parts.end(),
                                   [&](ExprId part) { return walk.conditions[At(part)] != 0; });
    ForEachOperand(expr_.node(id), [&](ExprId operand, bool guarded) {
      if (!guarded || holds) walk.performed[At(operand)] = true;
    });
  }
  for (size_t k = 0; k < guarded_.size(); ++k) {
    if (!walk.performed[At(guarded_[k])]) continue;
    const ExprNode& read = expr_.node(guarded_[k]);
    for (size_t axis = 0; axis < read.index.size(); ++axis) {
      const int64_t index = IndexAt(read.index[axis], walk.coordinates, walk.extents);
      ReadRange& range = reached[k].axes[axis];
      range = {std::min(range.least, index), std::max(range.most, index)};
    }
  }
}

}  // namespace kiln
