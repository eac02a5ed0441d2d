// SPDX-License-Identifier: Apache-2.0
#include "exec/vm/plan.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace kiln::vm {
namespace {

// Up to this many operations are repeated rather than stored. A wide plan, which has no values of a
// row, stores all that is read by more dims.
constexpr int kCheap = 4;  // speed

// `from` with stage numbers translated.
ScalarExpr Renumber(const ScalarExpr& from, const std::vector<int32_t>& stage_map) {
  ScalarExpr to;
  to.set_root(
      CopyExpr(from, from.root(), to, [&](ExprId id, const std::vector<ExprId>& map) -> ExprId {
        ExprNode node = from.node(id);
        if (node.op != ScalarOp::kRead || node.source != ReadSource::kStage) return -1;
        node.ref = stage_map[static_cast<size_t>(node.ref)];
        for (IndexExpr& index : node.index) {
          if (index.load >= 0) index.load = map[static_cast<size_t>(index.load)];
        }
        return to.Add(std::move(node));
      }));
  to.Prune();
  return to;
}

ScalarExpr ReadAll(DType type, int32_t stage, const std::vector<int32_t>& dims) {
  std::vector<IndexExpr> index;
  for (const int32_t d : dims) index.push_back(IndexExpr::Dim(d));
  ScalarExpr expr;
  expr.set_root(kiln::Read(expr, type, ReadSource::kStage, stage, std::move(index)).id);
  return expr;
}

// Reductions over several dims become a chain, innermost dim first, as the rule says.
Kernel SplitReductions(const Kernel& kernel) {
  Kernel out = kernel;
  out.stages.clear();
  std::vector<int32_t> stage_map;
  for (const Stage& stage : kernel.stages) {
    Stage next = stage;
    next.expr = Renumber(stage.expr, stage_map);
    for (size_t left = stage.over.size(); left > 1; --left) {
      Stage part = next;
      part.dims =
          DimsOf(SetOf(stage.dims) |
                 SetOf({stage.over.begin(), stage.over.begin() + static_cast<int64_t>(left) - 1}));
      part.over = {stage.over[left - 1]};
      next.expr = ReadAll(part.type, static_cast<int32_t>(out.stages.size()), part.dims);
      next.over.pop_back();
      out.stages.push_back(std::move(part));
    }
    stage_map.push_back(static_cast<int32_t>(out.stages.size()));
    out.stages.push_back(std::move(next));
  }
  for (KernelOutput& output : out.outputs) output.expr = Renumber(output.expr, stage_map);
  return out;
}

class Planner {
 public:
  Planner(const Kernel& kernel, bool wide) : wide_(wide) { plan_.kernel = SplitReductions(kernel); }

  Plan Make() {
    const Kernel& k = plan_.kernel;
    const size_t stages = k.stages.size();
    plan_.temp.assign(stages, -1);
    pass_.assign(stages, -1);
    shifted_.assign(stages, false);
    readers_.assign(stages, {});
    for (size_t s = 0; s < stages; ++s)
      NoteReads(k.stages[s].expr, SetOf(k.stages[s].dims) | SetOf(k.stages[s].over));
    for (const KernelOutput& output : k.outputs) NoteReads(output.expr, SetOf(LoopDims(k, output)));
    FindPrefix();
    ChooseStored();
    for (size_t s = 0; s < stages; ++s) {
      needs_.push_back(NeedsOf(k.stages[s].expr));
      if (plan_.temp[s] >= 0) PlaceStage(static_cast<int32_t>(s));
    }
    PlaceOutputs();
    Order();
    return std::move(plan_);
  }

 private:
  const Stage& StageOf(int32_t s) const { return plan_.kernel.stages[static_cast<size_t>(s)]; }

  void NoteReads(const ScalarExpr& expr, DimSet reader) {
    for (const ExprNode& node : expr.nodes()) {
      if (node.op != ScalarOp::kRead || node.source != ReadSource::kStage) continue;
      readers_[static_cast<size_t>(node.ref)].push_back(reader);
      const std::vector<int32_t>& dims = StageOf(node.ref).dims;
      if (IsIdentity(node, dims)) continue;
      shifted_[static_cast<size_t>(node.ref)] = true;
      for (size_t axis = 0; axis < dims.size(); ++axis) {
        const IndexExpr& index = node.index[axis];
        if (!index.IsDim() || index.terms[0].dim != dims[axis]) mixed_ |= DimSet{1} << dims[axis];
      }
    }
  }

  // The leading dims that every output and reduction has, and along which stages are read at the
  // own coordinate only.
  void FindPrefix() {
    const Kernel& k = plan_.kernel;
    DimSet common = Scatters(k) ? 0 : ~mixed_;  // cells would add to each other's elements
    for (const KernelOutput& output : k.outputs) common &= SetOf(LoopDims(k, output));
    for (size_t s = 0; s < k.stages.size(); ++s) {
      if (k.stages[s].kind == Stage::Kind::kReduce || shifted_[s])
        common &= SetOf(k.stages[s].dims);
    }
    plan_.prefix = std::min(std::countr_one(common), k.num_iterated());
    everything_in_one_ = plan_.prefix == k.num_iterated();
    if (everything_in_one_) plan_.prefix = 0;  // one pass over all dims, cut where it likes
    if (wide_ && plan_.prefix > 0) plan_.group = --plan_.prefix;
    inner_ = ~((DimSet{1} << plan_.prefix) - 1);
  }

  void ChooseStored() {
    const Kernel& k = plan_.kernel;
    std::vector<int> cost(k.stages.size(), 0);
    for (size_t s = 0; s < k.stages.size(); ++s) {
      const Stage& stage = k.stages[s];
      for (const ExprNode& node : stage.expr.nodes()) {
        cost[s] += Info(node.op).arity > 0 ? 1 : 0;
        if (node.op == ScalarOp::kRead && node.source == ReadSource::kStage &&
            plan_.temp[static_cast<size_t>(node.ref)] < 0) {
          cost[s] = std::min(cost[s] + cost[static_cast<size_t>(node.ref)], 2 * kCheap);
        }
      }
      bool store = stage.kind == Stage::Kind::kReduce || shifted_[s];
      if (!store && !everything_in_one_ && cost[s] > (wide_ ? 0 : kCheap)) {
        store = cost[s] > kCheap && readers_[s].size() > 1;
        for (const DimSet reader : readers_[s])
          store = store || ((reader & inner_) & ~SetOf(stage.dims)) != 0;
      }
      if (store && !readers_[s].empty()) plan_.temp[s] = plan_.num_temps++;
    }
  }

  // A stored stage that a value needs, also through stages that are not stored; and whether only at
  // the own coordinates.
  struct Need {
    int32_t stage;
    bool identity;
  };

  std::vector<Need> NeedsOf(const ScalarExpr& expr) const {
    std::vector<Need> needs;
    const auto add = [&needs](Need need) {
      for (Need& old : needs) {
        if (old.stage != need.stage) continue;
        old.identity = old.identity && need.identity;
        return;
      }
      needs.push_back(need);
    };
    for (const ExprNode& node : expr.nodes()) {
      if (node.op != ScalarOp::kRead || node.source != ReadSource::kStage) continue;
      if (plan_.temp[static_cast<size_t>(node.ref)] >= 0) {
        add({node.ref, IsIdentity(node, StageOf(node.ref).dims)});
      } else {
        for (const Need need : needs_[static_cast<size_t>(node.ref)]) add(need);
      }
    }
    return needs;
  }

  // The pass for a value over `dims`: an existing one on the lowest level on which all it needs is
  // known, or a new one.
  PassPlan& PassFor(const std::vector<Need>& needs, DimSet dims, int32_t over, int32_t level) {
    for (const Need need : needs) {
      const PassPlan& pass =
          plan_.passes[static_cast<size_t>(pass_[static_cast<size_t>(need.stage)])];
      const bool shares = need.identity && StageOf(need.stage).kind == Stage::Kind::kMap &&
                          pass.dims == dims && (pass.over < 0 || over < 0 || pass.over == over);
      level = std::max(level, pass.level + (shares ? 0 : 1));
    }
    for (;; ++level) {
      for (size_t p = 0; p < plan_.passes.size(); ++p) {
        PassPlan& pass = plan_.passes[p];
        if (pass.level != level || pass.dims != dims ||
            (pass.over >= 0 && over >= 0 && pass.over != over))
          continue;
        if (!KnownIn(needs, level, static_cast<int32_t>(p))) continue;
        if (over >= 0) pass.over = over;
        return pass;
      }
      if (KnownIn(needs, level, -1)) {
        plan_.passes.push_back({level, dims, over, {}, {}});
        return plan_.passes.back();
      }
    }
  }

  // Whether all of `needs` is computed on a lower level or, if it may be shared, in pass `p`
  // itself.
  bool KnownIn(const std::vector<Need>& needs, int32_t level, int32_t p) const {
    return std::all_of(needs.begin(), needs.end(), [&](Need need) {
      const int32_t from = pass_[static_cast<size_t>(need.stage)];
      const bool here = from == p && need.identity && StageOf(need.stage).kind == Stage::Kind::kMap;
      return here || plan_.passes[static_cast<size_t>(from)].level < level;
    });
  }

  void PlaceStage(int32_t s) {
    const Stage& stage = StageOf(s);
    const DimSet dims = (SetOf(stage.dims) | SetOf(stage.over)) & inner_;
    PassPlan& pass =
        PassFor(needs_[static_cast<size_t>(s)], dims, stage.over.empty() ? -1 : stage.over[0], 0);
    pass.stages.push_back(s);
    pass_[static_cast<size_t>(s)] = static_cast<int32_t>(&pass - plan_.passes.data());
  }

  void PlaceOutputs() {
    int32_t last = 0;
    for (const PassPlan& pass : plan_.passes) last = std::max(last, pass.level);
    for (size_t o = 0; o < plan_.kernel.outputs.size(); ++o) {
      const KernelOutput& output = plan_.kernel.outputs[o];
      PassFor(NeedsOf(output.expr), SetOf(LoopDims(plan_.kernel, output)) & inner_, -1, last)
          .outputs.push_back(static_cast<int32_t>(o));
    }
  }

  void Order() {
    std::stable_sort(plan_.passes.begin(), plan_.passes.end(),
                     [](const PassPlan& a, const PassPlan& b) {
                       if (a.level != b.level) return a.level < b.level;
                       if (a.outputs.empty() != b.outputs.empty()) return a.outputs.empty();
                       return std::popcount(a.dims) > std::popcount(b.dims);
                     });
  }

  const bool wide_;
  Plan plan_;
  DimSet inner_ = 0;  // dims beyond the prefix
  DimSet mixed_ = 0;  // dims along which some stage is read elsewhere
  bool everything_in_one_ = false;
  std::vector<bool> shifted_;                 // per stage: some read is not at the own coordinates
  std::vector<std::vector<DimSet>> readers_;  // per stage
  std::vector<std::vector<Need>> needs_;      // per stage
  std::vector<int32_t> pass_;                 // per stored stage, its pass
};

}  // namespace

DimSet SetOf(const std::vector<int32_t>& dims) {
  DimSet set = 0;
  for (const int32_t d : dims) set |= DimSet{1} << d;
  return set;
}

std::vector<int32_t> DimsOf(DimSet set) {
  std::vector<int32_t> dims;
  for (int32_t d = 0; set >> d != 0; ++d) {
    if ((set >> d & 1) != 0) dims.push_back(d);
  }
  return dims;
}

bool IsIdentity(const ExprNode& read, const std::vector<int32_t>& stage_dims) {
  for (size_t axis = 0; axis < stage_dims.size(); ++axis) {
    if (!read.index[axis].IsDim() || read.index[axis].terms[0].dim != stage_dims[axis])
      return false;
  }
  return true;
}

Plan MakePlan(const Kernel& kernel, bool wide) { return Planner(kernel, wide).Make(); }

}  // namespace kiln::vm
