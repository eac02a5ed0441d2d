// SPDX-License-Identifier: Apache-2.0
#include "schedule/price.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "kernel/math.h"
#include "schedule/analysis.h"
#include "schedule/cpu/index_split.h"
#include "schedule/scheduler.h"

namespace kiln {
namespace {

// A loop that reduces folds lanes at its end; one that maps only starts and ends.
constexpr double kMapLoop = 0.25;
// Of what the fold of a row takes, the part that is left where rows fold together.
constexpr double kAbreastFold = 0.3;
// The part of the shorter of walking and computing that does not hide behind the longer.
constexpr double kNotHidden = 0.25;
// The same for loops that take one vector at a time of elements found or turned: a vector waits for
// its elements, and no other is there to be computed meanwhile.
constexpr double kNotHiddenByOne = 0.6;

// Divisions and roots of f64, in those of f32: a vector has half as many, and each takes longer.
constexpr double kWideDivision = 3.2;

// A product of 64-bit integers, in additions: vector units have none, or a slow one.
constexpr double kWideProduct = 6;

// The greatest or least of two floats, in additions: NaN is told apart.
constexpr double kLetsNanThrough = 3.25;

// Elements of a type take so many times the room of an f32.
double Width(DType type) { return std::max<double>(1, static_cast<double>(SizeOf(type)) / 4); }

double DivisionWidth(DType type) { return Width(type) > 1 ? kWideDivision : 1; }

// How much of what a function is made of.
struct Parts {
  double adds = 0, divs = 0, sqrts = 0;
};

Parts PartsOf(const ScalarExpr& expr) {
  Parts parts;
  for (const ExprNode& node : expr.nodes()) {
    const double width = Width(node.type);
    const bool wide_product = node.op == ScalarOp::kMul && IsInt(node.type) && width > 1;
    if (node.op == ScalarOp::kDiv) {
      parts.divs += DivisionWidth(node.type);
    } else if (node.op == ScalarOp::kSqrt) {
      parts.sqrts += DivisionWidth(node.type);
    } else if (node.op != ScalarOp::kBitcast && Info(node.op).arity > 0) {
      parts.adds += wide_product ? kWideProduct : width;
    }
  }
  return parts;
}

// Functions by their expansions for f32.
std::array<Parts, kNumScalarOps> FunctionParts() {
  std::array<Parts, kNumScalarOps> table;
  for (int i = 0; i < kNumScalarOps; ++i) {
    const auto op = static_cast<ScalarOp>(i);
    if (!Info(op).function) continue;
    ScalarExpr expr;
    const Ex x = Param(expr, DType::kF32, 0);
    const Ex result =
        Info(op).arity == 2 ? Apply(op, x, Param(expr, DType::kF32, 1)) : Apply(op, x);
    expr.set_root(result.id);
    const absl::StatusOr<ScalarExpr> expanded = ExpandForUsual(expr);
    table[static_cast<size_t>(i)] = expanded.ok() ? PartsOf(*expanded) : Parts{30, 1, 0};
  }
  return table;
}

bool IsDear(ScalarOp op) {
  return op == ScalarOp::kDiv || op == ScalarOp::kMod || op == ScalarOp::kSqrt || Info(op).function;
}

// Divisions and roots have a unit of their own, which works beside the others.
struct Work {
  double ns = 0, divider_ns = 0;
  void Add(const Work& more, double times) {
    ns += times * more.ns;
    divider_ns += times * more.divider_ns;
  }
};

Work WorkOf(const ScalarExpr& expr, const ExprNode& node, const Machine& machine) {
  static const std::array<Parts, kNumScalarOps> kParts = FunctionParts();
  if (Info(node.op).arity == 0) return {};
  const DType type = node.type == DType::kBool ? expr.node(node.args[0]).type : node.type;
  const double width = Width(type);
  if (Info(node.op).function) {
    const Parts& parts = kParts[static_cast<size_t>(node.op)];
    return {width * parts.adds * machine.add_ns,
            DivisionWidth(type) * (parts.divs * machine.div_ns + parts.sqrts * machine.sqrt_ns)};
  }
  if (node.op == ScalarOp::kDiv || node.op == ScalarOp::kMod) {
    if (IsInt(type)) return {machine.integer_div_ns, 0};
    return {0, DivisionWidth(type) * machine.div_ns};
  }
  if (node.op == ScalarOp::kSqrt) return {0, DivisionWidth(type) * machine.sqrt_ns};
  if ((node.op == ScalarOp::kMax || node.op == ScalarOp::kMin) && !IsInt(type))
    return {width * kLetsNanThrough * machine.add_ns, 0};
  return {width * machine.add_ns, 0};
}

double Overlapped(double a, double b, double not_hidden = kNotHidden) {
  return std::max(a, b) + not_hidden * std::min(a, b);
}

// Of the schedule that is chosen for a kernel of these extents.
LoopSummary LoopsOf(const Kernel& kernel, std::span<const int64_t> extents,
                    const Machine& machine) {
  const Scheduler* const scheduler = FindScheduler(kernel, machine.target);
  if (scheduler == nullptr) return {};  // the last accepts all
  return scheduler->choose(kernel, {{extents.begin(), extents.end()}}, machine).Loops(kernel);
}

class Pricer {
  using Nests = LoopSummary::Nests;
  using Across = LoopSummary::Across;
  using Segments = LoopSummary::Segments;

 public:
  Pricer(const Kernel& kernel, std::span<const int64_t> extents, const Machine& machine,
         LoopSummary shape)
      : kernel_(kernel),
        extents_(extents),
        machine_(machine),
        exprs_(Expressions(kernel)),
        shape_(std::move(shape)) {
    one_nest_ = shape_.nests == Nests::kOne;
    lane_dim_ = kernel.innermost() - (shape_.across == Across::kUnrolled ? 1 : 0);
    apart_ = shape_.nests == Nests::kEach;
    for (int64_t k = 0; k < shape_.row_dims; ++k)
      row_dims_.push_back(kernel.innermost() - static_cast<int32_t>(k));
    kept_ = shape_.stored;
    kept_.resize(kernel.stages.size());
    shape_.expanded.resize(kernel.inputs.size());
    // What does not vary with the dims of the inner loops is computed outside of them.
    hoisted_ = row_dims_;
    if (shape_.nests != Nests::kTiles) return;
    for (const Stage& stage : kernel.stages) {
      if (stage.kind == Stage::Kind::kReduce) hoisted_ = stage.over;
    }
  }

  Price Run() {
    FindRuns();
    const double walk_ns = WalkNs();
    if (shape_.segments != Segments::kNone) {
      AddPieces();
    } else {
      for (size_t e = 0; e < exprs_.size(); ++e) AddExpr(e);
      price_.memory_ns = OddReadsNs();
    }
    price_.memory_ns += walk_ns;
    price_.short_rows_ns += folds_ * machine_.fold_ns;
    price_.ns = machine_.launch_ns + loops_ * machine_.loop_ns +
                Overlapped(price_.memory_ns, price_.compute_ns, not_hidden_);
    return price_;
  }

 private:
  bool Stored(size_t e) const {
    return e >= kernel_.stages.size() || kernel_.stages[e].kind == Stage::Kind::kReduce || kept_[e];
  }

  double Elements(const std::vector<int32_t>& dims) const {
    double elements = 1;
    for (const int32_t dim : dims)
      elements *= static_cast<double>(extents_[static_cast<size_t>(dim)]);
    return elements;
  }

  const std::vector<int32_t>& Dims(size_t e) const {
    const size_t stages = kernel_.stages.size();
    return e < stages ? kernel_.stages[e].dims : kernel_.outputs[e - stages].dims;
  }

  // Elements that the loop of a stored expression runs over.
  double Domain(size_t e) const {
    const double own = Elements(Dims(e));
    return e < kernel_.stages.size() ? own * Elements(kernel_.stages[e].over) : own;
  }

  int64_t VectorBytes() const { return machine_.vector_bytes; }

  double Row() const { return std::max(1.0, Elements(row_dims_)); }

  static bool Has(const std::vector<int32_t>& dims, int32_t dim) {
    return std::find(dims.begin(), dims.end(), dim) != dims.end();
  }

  static bool VariesAlong(const ExprNode& read, const std::vector<int32_t>& dims) {
    for (const IndexExpr& index : read.index) {
      if (index.load >= 0) return true;
      for (const IndexExpr::Term& term : index.terms) {
        if (!term.extent && Has(dims, term.dim)) return true;
      }
    }
    return false;
  }
  bool VariesAlongRow(const ExprNode& read) const { return VariesAlong(read, row_dims_); }

  // How often each expression is computed: its domain if it is stored, else as its readers ask.
  void FindRuns() {
    runs_.assign(exprs_.size(), 0);
    for (size_t e = exprs_.size(); e-- > 0;) {
      if (Stored(e)) {
        runs_[e] = Domain(e);
        const bool reduces =
            e < kernel_.stages.size() && kernel_.stages[e].kind == Stage::Kind::kReduce;
        loops_ += runs_[e] / RowOf(e) * (reduces ? 1 : kMapLoop);
        if (reduces && AwaitedByRow(e)) folds_ += CombineAdds(e) * runs_[e] / RowOf(e);
      }
      std::set<std::pair<int32_t, bool>> own;  // stages read at the reader's own element
      for (const ExprNode& node : exprs_[e]->nodes()) {
        if (node.op != ScalarOp::kRead || node.source != ReadSource::kStage) continue;
        const auto stage = static_cast<size_t>(node.ref);
        const bool varies = VariesAlongRow(node);
        if (IsIdentityRead(node, kernel_.stages[stage].dims) &&
            !own.insert({node.ref, varies}).second)
          continue;
        const double asked = varies ? runs_[e] : runs_[e] / Row();
        runs_[stage] = one_nest_ ? std::max(runs_[stage], asked) : runs_[stage] + asked;
      }
    }
    if (AcrossRows()) {  // a vector has an element of each of several rows
      loops_ /= RowsAtOnce();
      folds_ = 0;
    }
    if (shape_.folds_together) folds_ *= kAbreastFold;
    if (one_nest_) loops_ = 0;
    for (size_t e = kernel_.stages.size(); one_nest_ && e < exprs_.size(); ++e)
      loops_ = std::max(loops_, kMapLoop * runs_[e] / RowOf(e) / RowsAtOnce());
  }

  bool LoopsOver(size_t e, int32_t dim) const {
    return Has(Dims(e), dim) || (e < kernel_.stages.size() && Has(kernel_.stages[e].over, dim));
  }

  // True if `e` reduces the innermost dim and a loop over that needs the result: loops over one row
  // cannot overlap then.
  bool AwaitedByRow(size_t e) const {
    if (apart_ || !Has(kernel_.stages[e].over, kernel_.innermost())) return false;
    std::set<int32_t> needs = {static_cast<int32_t>(e)};
    for (size_t reader = e + 1; reader < exprs_.size(); ++reader) {
      const std::vector<ExprNode>& nodes = exprs_[reader]->nodes();
      const bool reads = std::any_of(nodes.begin(), nodes.end(), [&](const ExprNode& node) {
        return node.op == ScalarOp::kRead && node.source == ReadSource::kStage &&
               needs.count(node.ref) != 0;
      });
      if (!reads) continue;
      if (LoopsOver(reader, kernel_.innermost())) return true;
      needs.insert(static_cast<int32_t>(reader));
    }
    return false;
  }

  // How many times the work of its elements the vectors of a stored expression's loop do: lanes
  // beyond the end of a row, and registers that a vector does not fill, work too.
  double LaneFactor(size_t e) const {
    constexpr double kTailLanes = 16;
    const double lanes = static_cast<double>(shape_.step);
    if (AcrossRows() || Elements(row_dims_) < 1) return 1;
    const auto bytes = static_cast<double>(VectorBytes());
    const double filled = std::max(1.0, bytes / 4 / lanes);
    if (!LoopsOver(e, kernel_.innermost())) return filled;
    const double row = RowOf(e);
    const bool by_lanes =
        e < kernel_.stages.size() && Has(kernel_.stages[e].over, kernel_.innermost());
    const double most = by_lanes ? static_cast<double>(kReduceLanes) : lanes;
    const double rest = std::fmod(row, most);
    const double step = by_lanes ? kTailLanes : lanes;
    return filled * (row - rest + std::ceil(rest / step) * step) / row;
  }

  // What a row has one of is computed for one row at a time, without vectors.
  double ScalarFactor(size_t e, const ExprNode& node) const {
    const bool scalar =
        shape_.one_row_at_a_time && Info(node.op).function && !LoopsOver(e, kernel_.innermost());
    return scalar ? static_cast<double>(VectorBytes()) / 4 : 1;
  }

  // The extent that the innermost loop of a stored expression runs over.
  double RowOf(size_t e) const {
    const auto runs = [&](int32_t dim) { return LoopsOver(e, dim); };
    // Columns run as one where they are stored, but are reduced one dim after the other.
    const bool by_dim = shape_.nests == Nests::kTiles && e < kernel_.stages.size();
    if (!by_dim && std::all_of(row_dims_.begin(), row_dims_.end(), runs)) return Row();
    return std::max(1.0, runs(kernel_.innermost()) ? Elements({kernel_.innermost()}) : Domain(e));
  }

  // The dims that each node varies with, as bits.
  static std::vector<uint64_t> VariesWith(const ScalarExpr& expr) {
    std::vector<uint64_t> varies;
    const auto bit = [](int32_t dim) { return dim < 64 ? uint64_t{1} << dim : 0; };
    for (const ExprNode& node : expr.nodes()) {
      uint64_t own = node.op == ScalarOp::kIndex ? bit(node.ref) : 0;
      for (const ExprId arg : node.args) {
        if (arg >= 0) own |= varies[static_cast<size_t>(arg)];
      }
      for (const IndexExpr& index : node.index) {
        if (index.load >= 0) own |= varies[static_cast<size_t>(index.load)];
        for (const IndexExpr::Term& term : index.terms) own |= term.extent ? 0 : bit(term.dim);
      }
      varies.push_back(own);
    }
    return varies;
  }

  // How often a node of expression `e` is computed that varies with those dims.
  double RunsOf(size_t e, uint64_t varies) const {
    double runs = runs_[e];
    for (const int32_t dim : hoisted_) {
      if (!LoopsOver(e, dim)) continue;
      if (dim >= 64 || (varies >> dim & 1) != 0) return runs_[e];
      runs /= std::max<double>(1, static_cast<double>(extents_[static_cast<size_t>(dim)]));
    }
    return runs;
  }

  void AddExpr(size_t e) {
    const ScalarExpr& expr = *exprs_[e];
    const std::vector<uint64_t> varies = VariesWith(expr);
    Work work;  // of the loop over its elements
    for (size_t i = 0; i < varies.size(); ++i) {
      const ExprNode& node = expr.nodes()[i];
      const double runs = RunsOf(e, varies[i]);
      work.Add(WorkOf(expr, node, machine_), runs * ScalarFactor(e, node));
      if (!IsDear(node.op)) continue;
      double distinct = 1;
      for (size_t dim = 0; dim < std::min<size_t>(64, kernel_.dims.size()); ++dim) {
        if ((varies[i] >> dim & 1) != 0) distinct *= static_cast<double>(extents_[dim]);
      }
      price_.dear_repeats = std::max(price_.dear_repeats, runs / std::max(1.0, distinct));
    }
    if (e < kernel_.stages.size()) work.ns += CombineNs(e);
    const double gather_ns = GatherNs(e, varies);
    const bool by_one = (Turned() || AcrossRows() || gather_ns > 0) && !InBlocks() &&
                        4 * shape_.step <= VectorBytes();
    if (by_one) not_hidden_ = kNotHiddenByOne;
    const double ns = Overlapped(work.ns, work.divider_ns, by_one ? kNotHiddenByOne : kNotHidden);
    price_.compute_ns += ns + gather_ns;
    price_.short_rows_ns += (LaneFactor(e) - 1) * ns;
    if (e >= kernel_.stages.size() || !kept_[e]) return;
    const Stage& stage = kernel_.stages[e];
    // Kept rows stay in the nearest cache, whole stages where they fit.
    const double bytes = 2 * Domain(e) * static_cast<double>(SizeOf(stage.type));
    price_.compute_ns += bytes / machine_.GbPerS(apart_ ? bytes : 0);
  }

  // Rows that run in pieces: each element computes what its piece needs, or all pieces where those
  // share vectors.
  void AddPieces() {
    const std::vector<IndexExpr> cuts = Cuts(kernel_);
    std::vector<int64_t> extents(extents_.begin(), extents_.end());
    int64_t& row = extents[static_cast<size_t>(kernel_.innermost())];
    const std::vector<int64_t> lengths = PieceLengths(kernel_, cuts, extents_);
    const bool shared = shape_.segments == Segments::kBlended;
    for (size_t k = 0; k <= cuts.size(); ++k) {
      if (!shared) row = std::max<int64_t>(1, lengths[k]);
      const Kernel piece = Between(kernel_, cuts, k);
      Pricer pricer(piece, extents, machine_, LoopsOf(piece, extents, machine_));
      const Price price = pricer.Run();
      price_.compute_ns += price.compute_ns;
      price_.short_rows_ns += price.short_rows_ns;
      price_.memory_ns += pricer.OddReadsNs();
      price_.dear_repeats = std::max(price_.dear_repeats, price.dear_repeats);
      loops_ += shared && k > 0 ? 0 : pricer.loops_;
    }
  }

  // What a reduction takes to combine its elements.
  double CombineNs(size_t e) const {
    const Stage& stage = kernel_.stages[e];
    if (stage.kind != Stage::Kind::kReduce) return 0;
    return runs_[e] * machine_.add_ns * CombineAdds(e);
  }

  // What combining two elements of a reduction takes, in additions.
  double CombineAdds(size_t e) const {
    const Stage& stage = kernel_.stages[e];
    const bool selects = stage.op == ReduceOp::kMax || stage.op == ReduceOp::kMin;
    return selects && !IsInt(stage.type) ? kLetsNanThrough : 1;
  }

  // Every operand once. Bandwidths are of as much read as written; to write a line takes reading it
  // too.
  double WalkNs() {
    for (size_t k = 0; k < kernel_.inputs.size(); ++k) {
      const KernelInput& input = kernel_.inputs[k];
      const double all = Elements(input.dims);
      price_.bytes += std::min(all, ElementsRead(k)) * static_cast<double>(SizeOf(input.type));
    }
    const double read = price_.bytes;
    for (const KernelOutput& output : kernel_.outputs)
      price_.bytes += Elements(output.dims) * static_cast<double>(SizeOf(output.type));
    const double moved = (read + 2 * (price_.bytes - read)) / 1.5;
    return (one_nest_ ? moved : price_.bytes) / machine_.GbPerS(price_.bytes);
  }

  // Elements of an input that are asked for, if each read asked for others.
  double ElementsRead(size_t input) const {
    double elements = 0;
    for (size_t e = 0; e < exprs_.size(); ++e) {
      for (const ExprNode& node : exprs_[e]->nodes()) {
        if (node.op == ScalarOp::kRead && node.source == ReadSource::kInput &&
            static_cast<size_t>(node.ref) == input)
          elements += runs_[e];
      }
    }
    return elements;
  }

  // Reads of elements one by one keep the units busy that compute, too.
  double GatherNs(size_t e, const std::vector<uint64_t>& varies) const {
    if (Turned()) return 0;
    double elements = 0;
    const bool clamped = Clamped(e);
    const std::vector<double> reached = Reached(*exprs_[e], varies);
    for (size_t i = 0; i < reached.size(); ++i) {
      const ExprNode& node = exprs_[e]->nodes()[i];
      if (node.op == ScalarOp::kRead && node.source == ReadSource::kInput &&
          VariesAlong(node, {lane_dim_}) && !AlongLanes(node, clamped))
        elements += reached[i] * (VariesAlongRow(node) ? runs_[e] : runs_[e] / Row());
    }
    return elements * machine_.gather_ns;
  }

  // The part of elements for which `condition` holds: known where it compares a coordinate with an
  // extent, as those of concats do, else one half.
  double PartWhere(const ScalarExpr& expr, ExprId condition) const {
    const ExprNode& compare = expr.node(condition);
    if (compare.op != ScalarOp::kLt && compare.op != ScalarOp::kLe) return 0.5;
    const ExprNode* index = &expr.node(compare.args[0]);
    const ExprNode* extent = &expr.node(compare.args[1]);
    const bool above = extent->op == ScalarOp::kIndex;
    if (above) std::swap(index, extent);
    if (index->op != ScalarOp::kIndex || extent->op != ScalarOp::kExtent) return 0.5;
    const auto of = [&](const ExprNode* node) {
      return static_cast<double>(extents_[static_cast<size_t>(node->ref)]);
    };
    const double below = std::min(1.0, of(extent) / std::max(1.0, of(index)));
    return above ? 1 - below : below;
  }

  // The part of an expression's runs that comes to each node, where choices that all lanes make
  // alike are branches.
  std::vector<double> Reached(const ScalarExpr& expr, const std::vector<uint64_t>& varies) const {
    const std::vector<ExprNode>& nodes = expr.nodes();
    std::vector<double> reached(nodes.size(), 0);
    reached[static_cast<size_t>(expr.root())] = 1;
    const auto reach = [&](ExprId id, double part) {
      if (id < 0) return;
      double& known = reached[static_cast<size_t>(id)];
      known = std::max(known, part);
    };
    for (size_t i = nodes.size(); i-- > 0;) {
      const ExprNode& node = nodes[i];
      const bool branches = node.op == ScalarOp::kGuard && lane_dim_ < 64 &&
                            (varies[static_cast<size_t>(node.args[0])] >> lane_dim_ & 1) == 0;
      const double holds = branches ? PartWhere(expr, node.args[0]) : 1;
      reach(node.args[0], reached[i]);
      reach(node.args[1], reached[i] * holds);
      reach(node.args[2], reached[i] * (branches ? 1 - holds : 1));
      for (const IndexExpr& index : node.index) reach(index.load, reached[i]);
    }
    return reached;
  }

  // Each lane finds its own address where guards may clamp it.
  bool Clamped(size_t e) const {
    return shape_.segments == Segments::kNone && HasGuard(*exprs_[e]);
  }

  // What reads cost over the walk: those that are turned, and those of second loops.
  double OddReadsNs() const {
    double ns = 0;
    std::vector<double> asked(kernel_.inputs.size(), 0);
    for (size_t e = 0; e < exprs_.size(); ++e) {
      const bool clamped = Clamped(e);
      for (const ExprNode& node : exprs_[e]->nodes()) {
        if (node.op != ScalarOp::kRead || node.source != ReadSource::kInput) continue;
        const auto input = static_cast<size_t>(node.ref);
        if (!VariesAlongRow(node)) continue;
        asked[input] += runs_[e];
        if (Turned() && !AlongLanes(node, clamped)) ns += runs_[e] * machine_.turn_ns;
      }
    }
    if (AcrossRows() && !one_nest_) ns += StridesNs();
    for (size_t k = 0; k < asked.size(); ++k) {
      const KernelInput& input = kernel_.inputs[k];
      const double all = Elements(input.dims);
      if (asked[k] <= all) continue;
      const double again = (asked[k] - all) * static_cast<double>(SizeOf(input.type));
      const double near = all * static_cast<double>(SizeOf(input.type));
      const bool row = Has(input.dims, kernel_.innermost()) && !apart_;
      ns += again / machine_.GbPerS(row ? Row() * 4 : near);
    }
    return ns;
  }

  bool InBlocks() const { return shape_.across == Across::kBlocks; }

  bool AcrossRows() const { return shape_.across != Across::kNo; }

  // Rows that vectors across them take together.
  double RowsAtOnce() const { return AcrossRows() ? static_cast<double>(shape_.step) : 1; }

  // What vectors across rows take to sort the elements that they load and store, before and after
  // reductions.
  double StridesNs() const {
    double loaded = 0, stored = 0;
    for (size_t k = 0; k < kernel_.inputs.size(); ++k)
      loaded += IsReadInPlace(kernel_, k) ? Elements(kernel_.inputs[k].dims) : 0;
    for (const KernelOutput& output : kernel_.outputs)
      stored += SpansAll(kernel_, output.dims) ? Elements(output.dims) : 0;
    // Rows of which one value is left are not kept, but picked from registers; tiles that stay
    // there take half as long as those of a transposition.
    const double all = stored > 0 ? loaded + stored : 0.1 * loaded;
    return all * machine_.turn_ns * (shape_.across == Across::kTransposed ? 0.5 : 1);
  }

  bool Turned() const { return shape_.transposes; }

  // True if neighbours in a vector are neighbours in memory, or a few elements of the innermost dim
  // apart. `clamped`: shifted reads are not.
  bool AlongLanes(const ExprNode& read, bool clamped) const {
    const bool in_table =
        read.source == ReadSource::kInput && shape_.expanded[static_cast<size_t>(read.ref)];
    if (in_table) return true;
    size_t axes = read.index.size();
    const bool few = lane_dim_ != kernel_.innermost() && axes > 0;
    if (few && read.index[axes - 1].IsDim() &&
        read.index[axes - 1].terms[0].dim == kernel_.innermost())
      --axes;
    for (size_t axis = 0; axis < axes; ++axis) {
      const IndexExpr& index = read.index[axis];
      if (index.load >= 0) return false;
      for (const IndexExpr::Term& term : index.terms) {
        if (term.extent || term.dim != lane_dim_) continue;
        if (clamped && !index.IsDim()) return false;
        if (axis + 1 != axes || term.coef != 1 || index.mod != 0) return false;
        if (index.div != 1 && !OneForAVector(read, index.div)) return false;
      }
    }
    return true;
  }

  // True if a vector along a row, which begins at a multiple of its length, reads one element.
  bool OneForAVector(const ExprNode& read, int64_t divisor) const {
    return read.source == ReadSource::kInput &&
           DivisorOf(kernel_, static_cast<size_t>(read.ref)) != 0 && divisor % shape_.step == 0;
  }

  const Kernel& kernel_;
  const std::span<const int64_t> extents_;
  const Machine& machine_;
  const std::vector<const ScalarExpr*> exprs_;
  LoopSummary shape_;
  int32_t lane_dim_ = 0;   // that vectors run along in loop nests of elements
  bool one_nest_ = false;  // all outputs in one loop nest
  bool apart_ = false;     // every stage in a loop nest of its own
  std::vector<bool> kept_;
  std::vector<int32_t> row_dims_;  // that the innermost loop runs over
  std::vector<int32_t> hoisted_;   // dims of the innermost loops
  std::vector<double> runs_;
  double loops_ = 0, folds_ = 0;
  double not_hidden_ = kNotHidden;
  Price price_;
};

}  // namespace

Price PriceOf(const Kernel& kernel, std::span<const int64_t> extents, const Machine& machine,
              const Schedule& schedule) {
  return Pricer(kernel, extents, machine, schedule.Loops(kernel)).Run();
}

Price PriceOf(const Kernel& kernel, std::span<const int64_t> extents, const Machine& machine) {
  if (kernel.num_iterated() == 0) {
    Price price;
    price.ns = machine.launch_ns;
    return price;
  }
  return Pricer(kernel, extents, machine, LoopsOf(kernel, extents, machine)).Run();
}

double TimeOf(double bytes, double set_bytes, double compute_ns, const Machine& machine) {
  return machine.launch_ns + Overlapped(bytes / machine.GbPerS(set_bytes), compute_ns);
}

double NsWithin(const Price& price, double set_bytes, const Machine& machine) {
  const double slower =
      price.bytes / machine.GbPerS(set_bytes) - price.bytes / machine.GbPerS(price.bytes);
  return price.ns - Overlapped(price.memory_ns, price.compute_ns) +
         Overlapped(price.memory_ns + std::max(0.0, slower), price.compute_ns);
}

double ElementNs(const ScalarExpr& expr, const Machine& machine) {
  Work work;
  for (const ExprNode& node : expr.nodes()) work.Add(WorkOf(expr, node, machine), 1);
  return Overlapped(work.ns, work.divider_ns);
}

}  // namespace kiln
