// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/loop_fission.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "schedule/analysis.h"

namespace kiln {
namespace {

// The fewest operations of a link: an exp or a log has more.
constexpr int64_t kLink = 18;  // speed

bool IsWork(const ExprNode& node) {
  return node.op != ScalarOp::kConst && node.op != ScalarOp::kParam && node.op != ScalarOp::kRead &&
         node.op != ScalarOp::kIndex && node.op != ScalarOp::kExtent;
}

// For each node of `expr`, the last that needs it; itself for the root.
std::vector<ExprId> LastUses(const ScalarExpr& expr) {
  std::vector<ExprId> last(expr.nodes().size());
  std::iota(last.begin(), last.end(), 0);
  for (ExprId id = 0; id < static_cast<ExprId>(last.size()); ++id) {
    for (const ExprId arg : expr.node(id).args) {
      if (arg >= 0) last[static_cast<size_t>(arg)] = id;
    }
    for (const IndexExpr& index : expr.node(id).index) {
      if (index.load >= 0) last[static_cast<size_t>(index.load)] = id;
    }
  }
  return last;
}

// The nodes after which `expr` is cut.
std::vector<ExprId> EndsOfLinks(const ScalarExpr& expr) {
  const std::vector<ExprId> last = LastUses(expr);
  int64_t work = 0;  // from here on
  for (const ExprNode& node : expr.nodes()) work += IsWork(node) ? Operations(node) : 0;
  std::vector<ExprId> ends;
  ExprId needed_until = 0;  // the last use of anything before
  int64_t link = 0;         // operations since the last cut
  for (ExprId id = 0; id < expr.root(); ++id) {
    if (!IsWork(expr.node(id))) continue;
    const int64_t size = Operations(expr.node(id));
    link += size;
    work -= size;
    if (needed_until <= id && std::min(link, work) >= kLink) {
      ends.push_back(id);
      link = 0;
    }
    needed_until = std::max(needed_until, last[static_cast<size_t>(id)]);
  }
  return ends;
}

// The only output with its stages in place of their reads.
ScalarExpr WithoutStages(const Kernel& kernel) {
  ScalarExpr whole;
  std::vector<ExprId> made;  // of each stage
  const auto add = [&](const ScalarExpr& expr) {
    return CopyExpr(expr, expr.root(), whole, [&](ExprId id, const std::vector<ExprId>&) {
      const ExprNode& node = expr.node(id);
      const bool stage = node.op == ScalarOp::kRead && node.source == ReadSource::kStage;
      return stage ? made[static_cast<size_t>(node.ref)] : -1;
    });
  };
  for (const Stage& stage : kernel.stages) made.push_back(add(stage.expr));
  whole.set_root(add(kernel.outputs[0].expr));
  whole.Prune();
  return whole;
}

bool MayBeCut(const Kernel& kernel) {
  if (kernel.outputs.size() != 1 || !StagesReadInPlace(kernel)) return false;
  const std::vector<const ScalarExpr*> exprs = Expressions(kernel);
  const bool guarded = std::any_of(exprs.begin(), exprs.end(),
                                   [](const ScalarExpr* expr) { return HasGuard(*expr); });
  return !guarded &&
         std::all_of(kernel.stages.begin(), kernel.stages.end(), [&](const Stage& stage) {
           return stage.kind == Stage::Kind::kMap && SpansAll(kernel, stage.dims);
         });
}

}  // namespace

std::optional<Kernel> InLinks(const Kernel& kernel) {
  if (!MayBeCut(kernel) || CompileWork(kernel) < 2 * kLink) return std::nullopt;
  const ScalarExpr whole = WithoutStages(kernel);
  const std::vector<ExprId> ends = EndsOfLinks(whole);
  if (ends.empty()) return std::nullopt;
  std::vector<int32_t> dims(static_cast<size_t>(kernel.num_iterated()));
  std::iota(dims.begin(), dims.end(), 0);
  std::vector<IndexExpr> own;
  for (const int32_t dim : dims) own.push_back(IndexExpr::Dim(dim));

  Kernel linked = kernel;
  linked.stages.clear();
  ExprId before = -1;  // the end of the last link
  const auto link_to = [&](ExprId end) {
    const auto stage = static_cast<int32_t>(linked.stages.size()) - 1;
    ScalarExpr link;
    link.set_root(CopyExpr(whole, end, link, [&](ExprId id, const std::vector<ExprId>&) -> ExprId {
      if (id != before) return -1;
      return Read(link, whole.node(id).type, ReadSource::kStage, stage, own).id;
    }));
    link.Prune();
    return link;
  };
  for (const ExprId end : ends) {
    ScalarExpr link = link_to(end);
    linked.stages.push_back({.type = link.type(), .dims = dims, .over = {}, .expr = link});
    before = end;
  }
  linked.outputs[0].expr = link_to(whole.root());
  return linked;
}

}  // namespace kiln
