// SPDX-License-Identifier: Apache-2.0
// Which nodes become map stages, and the numbering of everything by first use; and the steps in
// their order.
#include "kernel/canonical.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernel/canonical_flat.h"

namespace kiln::canonical_internal {
namespace {

constexpr int kMaxHeight =
    200;  // of one expression before it is cut; half of what the parser takes
constexpr size_t kMaxTree = 1 << 16;  // nodes of one expression written out
constexpr size_t kSmallIndexTree = 32;

// A node becomes a stage if it is used more than once; if it does not vary along each dim of the
// place it is used in; if a map stage is read there at other coordinates; or to keep
// expressions from growing deep. Leaves and single cheap ops on leaves never do, nor do conditions
// made of coordinates, nor reads under a guard that may lie outside their operand.
class StageChooser {
 public:
  explicit StageChooser(const Flat& flat)
      : flat_(flat),
        size_(flat.graph.nodes().size()),
        height_(size_),
        tree_(size_),
        unsafe_(size_),
        index_only_(size_),
        forced_(size_),
        map_stage_(size_),
        uses_(size_),
        guarded_(size_),
        site_(size_),
        chosen_(size_) {}

  std::vector<bool> Run() {
    for (size_t i = 0; i < size_; ++i) BottomUp(i);
    for (const FlatStage& stage : flat_.stages) {
      if (!stage.reduce) map_stage_[At(stage.expr)] = true;
    }
    for (const FlatOutput& output : flat_.outputs) {
      const bool adds = Node(At(output.expr)).op == ScalarOp::kAddAt;
      DimSet dims = adds ? (DimSet{1} << flat_.num_iterated) - 1 : 0;
      for (const int32_t dim : output.dims) dims |= adds ? 0 : Bit(dim);
      Use(output.expr, dims, false);
    }
    // The expression of a reduction is a place of use. It stands before every read of it, so it is
    // entered at the start.
    for (const FlatStage& stage : flat_.stages) {
      if (stage.reduce) Use(stage.expr, stage.over | stage.dims, false);
    }
    for (size_t i = size_; i-- > 0;) TopDown(i);
    return chosen_;
  }

 private:
  static size_t At(ExprId id) { return static_cast<size_t>(id); }
  const ExprNode& Node(size_t i) const { return flat_.graph.nodes()[i]; }
  bool IsLeaf(size_t i) const {
    return Info(Node(i).op).arity == 0 &&
           std::none_of(Node(i).index.begin(), Node(i).index.end(),
                        [](const IndexExpr& x) { return x.load >= 0; });
  }

  bool MayLieOutside(const ExprNode& read) const {
    const auto ref = static_cast<size_t>(read.ref);
    const std::vector<int32_t> axes =
        read.source == ReadSource::kInput ? flat_.inputs[ref].dims : ToList(flat_.stages[ref].dims);
    for (size_t k = 0; k < axes.size(); ++k) {
      const IndexExpr& index = read.index[k];
      if (index.load < 0 && !(index.IsDim() && index.terms[0].dim == axes[k])) return true;
    }
    return false;
  }

  void BottomUp(size_t i) {
    const ExprNode& node = Node(i);
    unsafe_[i] = node.op == ScalarOp::kRead && MayLieOutside(node);
    index_only_[i] = node.op != ScalarOp::kRead && node.op != ScalarOp::kParam;
    tree_[i] = 1;
    const auto child = [&](ExprId id, bool protected_by_guard) {
      const size_t c = At(id);
      height_[i] = std::max(height_[i], height_[c] + 1);
      tree_[i] = std::min(kMaxTree, tree_[i] + tree_[c]);
      if (unsafe_[c] && !protected_by_guard) unsafe_[i] = true;
      if (!index_only_[c]) index_only_[i] = false;
    };
    for (int slot = 0; slot < Info(node.op).arity; ++slot)
      child(node.args[slot], node.op == ScalarOp::kGuard && slot == 1);
    for (const IndexExpr& index : node.index) {
      if (index.load >= 0) child(index.load, false);
    }
    if (height_[i] >= kMaxHeight) {
      forced_[i] = true;
      height_[i] = 0;
    }
  }

  bool IsCheap(size_t i) const {
    const ExprNode& node = Node(i);
    if (IsLeaf(i)) return true;
    if (index_only_[i] && !IsFloat(node.type) && tree_[i] <= kSmallIndexTree) return true;
    if (Info(node.op).function || node.op == ScalarOp::kDiv || node.op == ScalarOp::kMod ||
        node.op == ScalarOp::kSqrt)
      return false;
    if (node.op == ScalarOp::kRead) return false;
    for (int slot = 0; slot < Info(node.op).arity; ++slot) {
      if (!IsLeaf(At(node.args[slot]))) return false;
    }
    return true;
  }

  void Use(ExprId id, DimSet site, bool guarded) {
    const size_t i = At(id);
    ++uses_[i];
    site_[i] |= site;
    if (guarded) guarded_[i] = true;
  }

  void TopDown(size_t i) {
    const DimSet free = flat_.free[i];
    const bool varies = (site_[i] & ~free) == 0;
    const bool wanted =
        !IsCheap(i) && Node(i).op != ScalarOp::kAddAt && (uses_[i] > 1 || !varies || forced_[i]);
    chosen_[i] = map_stage_[i] || (wanted && !(unsafe_[i] && guarded_[i]));
    const DimSet site = chosen_[i] ? free : site_[i];
    const bool guarded = guarded_[i] && !chosen_[i];
    const ExprNode& node = Node(i);
    for (int slot = 0; slot < Info(node.op).arity; ++slot) {
      Use(node.args[slot], site, guarded || (node.op == ScalarOp::kGuard && slot == 1));
    }
    for (const IndexExpr& index : node.index) {
      if (index.load >= 0) Use(index.load, site, guarded);
    }
  }

  const Flat& flat_;
  size_t size_;
  std::vector<int> height_;
  std::vector<size_t> tree_;  // nodes when written out, saturating
  std::vector<bool> unsafe_;  // has a read that may lie outside, under no guard of its own
  std::vector<bool> index_only_, forced_, map_stage_;
  std::vector<int> uses_;
  std::vector<bool> guarded_;
  std::vector<DimSet> site_;  // dims iterated where the node is computed
  std::vector<bool> chosen_;
};

class Emitter {
 public:
  explicit Emitter(const Flat& flat)
      : flat_(flat),
        chosen_(StageChooser(flat).Run()),
        map_stage_(chosen_.size(), -1),
        reduce_stage_(flat.stages.size(), -1),
        input_(flat.inputs.size(), -1),
        param_(flat.params.size(), -1),
        dim_(flat.dims.size(), -1) {}

  absl::StatusOr<CanonicalKernel> Run() {
    NumberStages();
    for (int32_t d = 0; d < flat_.num_iterated; ++d) NewDim(d);
    for (const Pending& pending : pending_) {
      Stage stage;
      stage.dims = ToList(pending.dims);
      stage.kind = pending.reduce ? Stage::Kind::kReduce : Stage::Kind::kMap;
      stage.op = pending.op;
      stage.over = ToList(pending.over);
      KILN_ASSIGN_OR_RETURN(stage.expr, Expression(pending.expr, !pending.reduce));
      stage.type = stage.expr.type();
      out_.kernel.stages.push_back(std::move(stage));
    }
    for (const FlatOutput& output : flat_.outputs) {
      KernelOutput made;
      made.type = output.type;
      made.layout = output.layout;
      made.dims = output.dims;
      KILN_ASSIGN_OR_RETURN(made.expr, Expression(output.expr, false));
      out_.kernel.outputs.push_back(std::move(made));
      out_.outputs.push_back(output.raw);
    }
    NumberOperands();
    return std::move(out_);
  }

 private:
  using Pending = FlatStage;
  static size_t At(ExprId id) { return static_cast<size_t>(id); }
  const ExprNode& Node(ExprId id) const { return flat_.graph.node(id); }

  // Operands in the order the text has them: arguments, then loaded indices, then the stage that is
  // read.
  std::vector<ExprId> Children(ExprId id) const {
    const ExprNode& node = Node(id);
    std::vector<ExprId> children(node.args, node.args + Info(node.op).arity);
    for (const IndexExpr& index : node.index) {
      if (index.load >= 0) children.push_back(index.load);
    }
    if (node.op == ScalarOp::kRead && node.source == ReadSource::kStage) {
      children.push_back(flat_.stages[static_cast<size_t>(node.ref)].expr);
    }
    return children;
  }

  // Depth first from the outputs, with a stack of our own: a stage gets its number when all it
  // needs has one.
  void NumberStages() {
    std::vector<bool> entered(chosen_.size(), false);
    std::vector<std::pair<ExprId, size_t>> stack;
    for (const FlatOutput& output : flat_.outputs) {
      if (!entered[At(output.expr)]) stack.push_back({output.expr, 0});
      entered[At(output.expr)] = true;
      while (!stack.empty()) {
        auto& [id, next] = stack.back();
        const std::vector<ExprId> children = Children(id);
        if (next == children.size()) {
          const ExprId done = id;
          stack.pop_back();
          Number(done);
          continue;
        }
        const ExprId child = children[next++];
        if (entered[At(child)]) continue;
        entered[At(child)] = true;
        stack.push_back({child, 0});
      }
    }
  }

  void Number(ExprId id) {
    const ExprNode& node = Node(id);
    if (node.op == ScalarOp::kRead && node.source == ReadSource::kStage) {
      const auto ref = static_cast<size_t>(node.ref);
      if (flat_.stages[ref].reduce && reduce_stage_[ref] < 0) {
        reduce_stage_[ref] = static_cast<int32_t>(pending_.size());
        pending_.push_back(flat_.stages[ref]);
      }
    }
    if (chosen_[At(id)]) {
      map_stage_[At(id)] = static_cast<int32_t>(pending_.size());
      pending_.push_back({false, ReduceOp::kAdd, 0, flat_.free[At(id)], id});
    }
  }

  ExprNode StageRead(int32_t stage, DType type, DimSet dims) const {
    ExprNode node;
    node.op = ScalarOp::kRead;
    node.type = type;
    node.source = ReadSource::kStage;
    node.ref = stage;
    for (const int32_t dim : ToList(dims)) node.index.push_back(IndexExpr::Dim(dim));
    return node;
  }

  // The expression below `root` down to the stages it reads; of a map stage, itself excepted.
  absl::StatusOr<ScalarExpr> Expression(ExprId root, bool is_stage) {
    std::vector<ExprId> reached;
    std::vector<ExprId> stack = {root};
    std::vector<bool> seen(At(root) + 1, false);
    const auto cut = [&](ExprId id) { return chosen_[At(id)] && !(is_stage && id == root); };
    while (!stack.empty()) {
      const ExprId id = stack.back();
      stack.pop_back();
      if (seen[At(id)]) continue;
      seen[At(id)] = true;
      reached.push_back(id);
      if (cut(id)) continue;
      const ExprNode& node = Node(id);
      stack.insert(stack.end(), node.args, node.args + Info(node.op).arity);
      for (const IndexExpr& index : node.index) {
        if (index.load >= 0) stack.push_back(index.load);
      }
    }
    std::sort(reached.begin(), reached.end());
    ScalarExpr expr;
    std::vector<ExprId> map(At(root) + 1, -1);
    for (const ExprId id : reached) {
      ExprNode node = Node(id);
      if (cut(id)) {
        map[At(id)] = expr.Add(StageRead(map_stage_[At(id)], node.type, flat_.free[At(id)]));
        continue;
      }
      for (ExprId& arg : node.args) {
        if (arg >= 0) arg = map[At(arg)];
      }
      for (IndexExpr& index : node.index) {
        if (index.load >= 0) index.load = map[At(index.load)];
      }
      if (node.op == ScalarOp::kRead && node.source == ReadSource::kStage) {
        const FlatStage& stage = flat_.stages[static_cast<size_t>(node.ref)];
        node.ref = stage.reduce ? reduce_stage_[static_cast<size_t>(node.ref)]
                                : map_stage_[At(stage.expr)];
      }
      map[At(id)] = expr.Add(std::move(node));
    }
    expr.set_root(map[At(root)]);
    KILN_RETURN_IF_ERROR(CheckWritable(expr));
    return expr;
  }

  // Reads under guards cannot become stages, so that this may fail for guarded expressions that
  // share a lot.
  static absl::Status CheckWritable(const ScalarExpr& expr) {
    std::vector<size_t> tree(expr.nodes().size(), 1);
    std::vector<int> height(expr.nodes().size(), 0);
    for (size_t i = 0; i < tree.size(); ++i) {
      const auto child = [&](ExprId id) {
        tree[i] = std::min(kMaxTree, tree[i] + tree[At(id)]);
        height[i] = std::max(height[i], height[At(id)] + 1);
      };
      for (const ExprId arg : expr.nodes()[i].args) {
        if (arg >= 0) child(arg);
      }
      for (const IndexExpr& index : expr.nodes()[i].index) {
        if (index.load >= 0) child(index.load);
      }
    }
    const size_t root = At(expr.root());
    if (tree[root] < kMaxTree && height[root] < 2 * kMaxHeight) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("kernel: an expression under a guard has ",
                                                     tree[root], " nodes and depth ", height[root],
                                                     " when written out; guard the reads instead"));
  }

  void NewDim(int32_t dim) {
    const auto k = static_cast<int32_t>(out_.dims.size());
    dim_[static_cast<size_t>(dim)] = k;
    out_.dims.push_back(flat_.dims[static_cast<size_t>(dim)]);
    const bool iterated = dim < flat_.num_iterated;
    const std::string letter =
        k < 26 ? std::string(1, static_cast<char>('a' + k)) : absl::StrCat("d", k);
    out_.kernel.dims.push_back(
        {iterated ? letter : absl::StrCat("n", k - flat_.num_iterated), iterated});
  }
  void UseDim(int32_t dim) {
    if (dim_[static_cast<size_t>(dim)] < 0) NewDim(dim);
  }

  // Inputs and parameters in reading order; then sizes, which the lines of inputs name first.
  void NumberOperands() {
    ForEachExpr([&](ScalarExpr& expr) { VisitOperands(expr, expr.root()); });
    for (const int32_t raw : out_.inputs) {
      KernelInput input = flat_.inputs[static_cast<size_t>(raw)];
      for (int32_t& dim : input.dims) {
        UseDim(dim);
        dim = dim_[static_cast<size_t>(dim)];
      }
      out_.kernel.inputs.push_back(std::move(input));
    }
    for (const KernelOutput& output : out_.kernel.outputs) {
      for (const int32_t dim : output.dims) UseDim(dim);
    }
    ForEachExpr([&](ScalarExpr& expr) { VisitSizes(expr, expr.root()); });
    for (KernelOutput& output : out_.kernel.outputs) {
      for (int32_t& dim : output.dims) dim = dim_[static_cast<size_t>(dim)];
    }
    ForEachExpr([&](ScalarExpr& expr) { expr = Renumbered(expr); });
  }

  template <typename Fn>
  void ForEachExpr(Fn&& fn) {
    for (Stage& stage : out_.kernel.stages) fn(stage.expr);
    for (KernelOutput& output : out_.kernel.outputs) fn(output.expr);
  }

  // Calls fn for each node once, in reading order. Expressions are shallow (CheckWritable).
  template <typename Fn>
  static void InReadingOrder(const ScalarExpr& expr, ExprId id, std::vector<bool>& seen, Fn& fn) {
    if (seen[At(id)]) return;
    seen[At(id)] = true;
    const ExprNode& node = expr.node(id);
    fn(node);
    for (const IndexExpr& index : node.index) {
      if (index.load >= 0) InReadingOrder(expr, index.load, seen, fn);
    }
    for (const ExprId arg : node.args) {
      if (arg >= 0) InReadingOrder(expr, arg, seen, fn);
    }
  }

  void VisitOperands(const ScalarExpr& expr, ExprId root) {
    std::vector<bool> seen(expr.nodes().size(), false);
    auto fn = [&](const ExprNode& node) {
      const auto ref = static_cast<size_t>(node.ref);
      if (node.op == ScalarOp::kRead && node.source == ReadSource::kInput && input_[ref] < 0) {
        input_[ref] = static_cast<int32_t>(out_.inputs.size());
        out_.inputs.push_back(node.ref);
      }
      if (node.op == ScalarOp::kParam && param_[ref] < 0) {
        param_[ref] = static_cast<int32_t>(out_.params.size());
        const FlatParam& param = flat_.param_values[ref];
        out_.params.push_back({param.raw, param.bits});
        out_.kernel.params.push_back(flat_.params[ref]);
      }
    };
    InReadingOrder(expr, root, seen, fn);
  }

  void VisitSizes(const ScalarExpr& expr, ExprId root) {
    std::vector<bool> seen(expr.nodes().size(), false);
    auto fn = [&](const ExprNode& node) {
      if (node.op == ScalarOp::kExtent) UseDim(node.ref);
      for (const IndexExpr& index : node.index) {
        for (const IndexExpr::Term& term : index.terms) UseDim(term.dim);
      }
    };
    InReadingOrder(expr, root, seen, fn);
  }

  ScalarExpr Renumbered(const ScalarExpr& expr) const {
    ScalarExpr to;
    for (ExprNode node : expr.nodes()) {
      const auto ref = static_cast<size_t>(node.ref);
      if (node.op == ScalarOp::kRead && node.source == ReadSource::kInput) node.ref = input_[ref];
      if (node.op == ScalarOp::kParam) node.ref = param_[ref];
      if (node.op == ScalarOp::kExtent || node.op == ScalarOp::kIndex) node.ref = dim_[ref];
      for (IndexExpr& index : node.index) {
        for (IndexExpr::Term& term : index.terms) term.dim = dim_[static_cast<size_t>(term.dim)];
        std::sort(index.terms.begin(), index.terms.end(),
                  [](const IndexExpr::Term& a, const IndexExpr::Term& b) {
                    return std::pair(a.extent, a.dim) < std::pair(b.extent, b.dim);
                  });
      }
      to.Add(std::move(node));
    }
    to.set_root(expr.root());
    return to;
  }

  const Flat& flat_;
  std::vector<bool> chosen_;
  std::vector<int32_t> map_stage_;     // by node: its number as a map stage
  std::vector<int32_t> reduce_stage_;  // by flat stage: its number
  std::vector<Pending> pending_;
  std::vector<int32_t> input_, param_, dim_;
  CanonicalKernel out_;
};

}  // namespace
}  // namespace kiln::canonical_internal

namespace kiln {

absl::StatusOr<CanonicalKernel> Canonicalize(const Kernel& raw, std::span<const int64_t> extents) {
  using namespace canonical_internal;
  KILN_RETURN_IF_ERROR(Verify(raw));
  // Ordering makes x + y and y + x one node; how often that node is used tells more about the order
  // of the others.
  const Flat ordered = Order(Order(DivideDims(MergeDims(Flatten(raw)), extents)));
  // Steps 3 and 4, second half: chooses stages, numbers everything by first use.
  KILN_ASSIGN_OR_RETURN(CanonicalKernel canonical, Emitter(ordered).Run());
  canonical.kernel.math = raw.math;
  KILN_RETURN_IF_ERROR(Verify(canonical.kernel));
  return canonical;
}

}  // namespace kiln
