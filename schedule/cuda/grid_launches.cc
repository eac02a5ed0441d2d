// SPDX-License-Identifier: Apache-2.0
#include "schedule/cuda/grid_launches.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "schedule/analysis.h"
#include "schedule/cuda/device_stages.h"
#include "schedule/cuda/grid_shape.h"
#include "schedule/loop_counts.h"
#include "schedule/work.h"

namespace kiln {
namespace {

constexpr size_t kBits = 64;          // correctness: dims that VariesWith tells apart
constexpr double kSector = 32;        // correctness: bytes that memory gives at once
constexpr double kNearBytes = 65536;  // speed: what stays in the first-level cache
// Instructions beside arithmetic: of a thread, of a load or a store, of a row that is folded.
constexpr double kOfThread = 14;  // speed
constexpr double kOfAccess = 4;   // speed
constexpr double kOfFold = 25;    // speed
// Steps of a loop whose loads are on their way together: the assembler unrolls short loops by four.
constexpr double kAhead = 4;        // speed
constexpr double kShortStep = 32;   // speed: instructions
constexpr double kOfShared = 0.03;  // speed: a load from shared memory, of one from memory

double Ceil(double a, double b) { return std::ceil(a / b); }

// Rows that are no whole vectors are launched in a form with one element a thread, which keeps
// nothing.
LoopSummary FormAt(LoopSummary loops, int64_t row) {
  if (row % loops.grid.vector == 0) return loops;
  loops.grid.vector = loops.grid.steps = 1;
  if (loops.nests != LoopSummary::Nests::kRows) return loops;
  loops.grid.columns = kWarp * loops.grid.parts;
  loops.grid.inputs.clear();
  loops.stored.clear();
  return loops;
}

class LaunchCounter {
 public:
  LaunchCounter(const LoopCounts& counts, const Machine& machine)
      : counts_(counts),
        shape_(counts),
        kernel_(counts.kernel()),
        grid_(counts.loops().grid),
        machine_(machine) {}

  std::vector<GridLaunch> Run() {
    const bool apart = counts_.Apart();
    for (size_t e = 0; e < counts_.size() && shape_.Levelled(); ++e) {
      if (counts_.IsReduction(e)) {
        Levels(e);
      } else if (apart && counts_.Stored(e)) {
        Flat({e});
      }
    }
    if (apart) return std::move(launches_);
    std::map<std::vector<int32_t>, std::vector<size_t>> groups;
    for (size_t e = kernel_.stages.size(); e < counts_.size(); ++e)
      groups[counts_.OneNest() ? std::vector<int32_t>() : counts_.Dims(e)].push_back(e);
    for (auto& [dims, makes] : groups)
      shape_.Levelled() ? Flat(std::move(makes)) : Together(std::move(makes));
    return std::move(launches_);
  }

 private:
  // What launches read and write; stages are numbered behind the inputs.
  struct Traffic {
    double walked = 0, sectors = 0;
  };

  // What threads take `along` the lane and `down` another dim, elements each.
  struct Share {
    int32_t lane = -1, down_dim = -1;
    double along = 1, down = 1;
  };

  GridLaunch& Begin(std::vector<size_t> makes, Share share) {
    share_ = share;
    share_.along = std::max(1.0, share.along);
    share_.down = std::max(1.0, share.down);
    columns_ = std::min<double>(kWarp, static_cast<double>(grid_.columns));
    traffic_.clear();
    asked_ = ahead_ = instructions_ = transposed_ = 0;
    passes_ = false;
    idle_ = half_warps_ = 1;
    GridLaunch& launch = launches_.emplace_back();
    launch.makes = std::move(makes);
    launch.block = shape_.Threads();
    launch.independent = shape_.Vector();
    return launch;
  }

  // Outputs, with all that they need.
  void Together(std::vector<size_t> makes) {
    const int32_t inner = kernel_.innermost();
    const double row = counts_.extent(inner), columns = static_cast<double>(grid_.columns);
    Share share{.lane = inner, .along = shape_.Vector()};
    double reduced = 1;
    if (shape_.Tiled()) {
      share.down_dim = shape_.ReducedDim();
      reduced = counts_.extent(share.down_dim);
      share.down = reduced / shape_.Parts() * shape_.IdleFor(reduced);
    } else if (counts_.loops().transposes) {
      share.down_dim = static_cast<int32_t>(counts_.loops().along);
      share.down = static_cast<double>(grid_.steps);
    } else if (Walks()) {
      share.down_dim = inner - 1;
      const double rows_of_thread = shape_.Outer() / static_cast<double>(grid_.rows);
      share.down = std::min(static_cast<double>(grid_.steps), rows_of_thread);
    } else if (!counts_.OneNest()) {
      reduced = row;
      share.along = row / columns * shape_.IdleFor(row);
    }
    GridLaunch& launch = Begin(std::move(makes), share);
    passes_ = !counts_.OneNest();
    idle_ = shape_.IdleFor(reduced);
    half_warps_ = shape_.HalfWarpsFor(reduced);
    launch.shared_bytes = static_cast<double>(grid_.shared_bytes);
    launch.threads = shape_.Blocks() * launch.block;
    const std::vector<double> runs = RunsFor(launch.makes);
    double kept = static_cast<double>(std::count(grid_.inputs.begin(), grid_.inputs.end(), true));
    for (size_t e = 0; e < runs.size(); ++e) {
      Count(e, runs[e], launch);
      kept += counts_.Kept(e) ? 1 : 0;
      if (counts_.IsReduction(e) && runs[e] > 0)
        Fold(!shape_.Tiled(), reduced, counts_.Elements(counts_.Dims(e)), launch);
    }
    launch.independent *= half_warps_ / idle_;
    launch.registers += shape_.Vector() * (2 + kept * static_cast<double>(grid_.steps));
    if (Walks()) launch.registers += shape_.Vector() * kAhead;
    if (counts_.loops().transposes) {  // through shared memory
      launch.work_ns += 2 * transposed_ * kOfAccess * machine_.add_ns;
      launch.rounds += launch.threads * kOfShared;
    }
    Finish(launch);
  }

  // What threads have of `length` elements becomes one: by shuffles, then in shared memory.
  void Fold(bool shuffled, double length, double results, GridLaunch& launch) const {
    if (shuffled) launch.work_ns += launch.threads / idle_ * kOfFold * machine_.add_ns;
    if (grid_.parts == 1) return;
    const double runs = Ceil(length, static_cast<double>(grid_.run));
    launch.work_ns += results * runs * kOfAccess * machine_.add_ns;
    launch.rounds += launch.threads * runs * kOfShared;
  }

  // A thread for each vector of elements.
  void Flat(std::vector<size_t> makes) {
    const std::vector<int32_t>& dims = counts_.Dims(makes[0]);
    GridLaunch& launch = Begin(std::move(makes),
                               {.lane = dims.empty() ? -1 : dims.back(), .along = shape_.Vector()});
    launch.threads = Ceil(counts_.Elements(dims) / shape_.Vector(), launch.block) * launch.block;
    const std::vector<double> runs = RunsFor(launch.makes);
    for (size_t e = 0; e < runs.size(); ++e) Count(e, runs[e], launch);
    Finish(launch);
  }

  // The launches of a reduction along each dim, innermost first.
  void Levels(size_t e) {
    std::vector<int32_t> over = counts_.stage(e).over, left = counts_.stage(e).dims;
    left.insert(left.end(), over.begin(), over.end());
    bool first = true;
    for (; !over.empty(); over.pop_back()) {
      const int32_t dim = over.back();
      left.erase(std::find(left.begin(), left.end(), dim));
      const bool inner = dim == kernel_.innermost();
      const auto piece = static_cast<double>(inner ? kReduceBlock : kOuterStep);
      double length = counts_.extent(dim);
      const int64_t levels = inner ? grid_.levels : grid_.outer_levels;
      for (int64_t level = 0; level < levels; ++level) {
        const double pieces = std::max(1.0, Ceil(length, piece));
        Level(e, {.dim = dim, .left = left, .length = length, .pieces = pieces}, first);
        first = false;
        length = pieces;
      }
    }
  }

  // What a launch of a reduction goes over.
  struct Pieces {
    int32_t dim;
    const std::vector<int32_t>& left;
    double length, pieces;  // of dim
  };

  void Level(size_t e, const Pieces& of, bool first) {
    const bool inner = of.dim == kernel_.innermost();
    const Stage& stage = counts_.stage(e);
    const double results = counts_.Elements(of.left) * of.pieces;
    const double piece = of.length / of.pieces;
    Share share{.lane = of.dim, .along = piece / static_cast<double>(grid_.columns)};
    if (!inner) {
      share.lane = of.left.empty() ? -1 : *std::max_element(of.left.begin(), of.left.end());
      share.along = shape_.Vector();
      share.down_dim = of.dim;
      share.down = piece / shape_.Parts() * shape_.IdleFor(piece);
    }
    GridLaunch& launch = Begin({e}, share);
    idle_ = inner ? 1 : shape_.IdleFor(piece);
    half_warps_ = inner ? 1 : shape_.HalfWarpsFor(piece);
    launch.independent *= half_warps_ / idle_;
    const double blocks = inner            ? Ceil(results, static_cast<double>(grid_.rows))
                          : shape_.Tiled() ? shape_.TileBlocks(of.pieces)
                                           : Ceil(results, launch.block);
    launch.threads = blocks * launch.block;
    if (!inner) launch.shared_bytes = static_cast<double>(grid_.shared_bytes);
    const auto size = static_cast<double>(SizeOf(stage.type));
    if (first) {
      const std::vector<double> runs = RunsFor({e});
      for (size_t i = 0; i < runs.size(); ++i) Count(i, runs[i], launch);
    } else {
      const double elements = counts_.Elements(of.left) * of.length;
      launch.walked += elements * size;
      launch.rounds += elements / (inner ? 1 : shape_.Vector()) / kAhead * idle_;
      launch.work_ns += elements * (kOfAccess * machine_.add_ns + CombineNs(stage, machine_));
    }
    Fold(inner, piece, results, launch);
    launch.walked += results * size;
    Finish(launch);
  }

  // Whether threads walk down rows, a load after the other.
  bool Walks() const { return counts_.OneNest() && !counts_.loops().transposes && grid_.steps > 1; }

  bool FromMemory(size_t stage) const {
    return shape_.Levelled() &&
           (counts_.Apart() ? counts_.Stored(stage) : counts_.IsReduction(stage));
  }

  // What is the same for all elements of a thread along a dim is done once.
  double Repeats(bool along, bool down) const {
    return (along ? 1 : share_.along) * (down ? 1 : share_.down);
  }
  bool Loops(size_t e, int32_t dim) const { return dim >= 0 && counts_.LoopsOver(e, dim); }

  // How often each expression is computed for these: those that are stored, once an element.
  std::vector<double> RunsFor(const std::vector<size_t>& makes) const {
    std::vector<double> runs(counts_.size());
    for (const size_t e : makes) runs[e] = counts_.Domain(e);
    for (size_t e = runs.size(); e-- > 0;) {
      std::set<int32_t> own;  // stages read at the reader's own element
      for (const ExprNode& node : counts_.expr(e).nodes()) {
        if (runs[e] == 0 || node.op != ScalarOp::kRead || node.source != ReadSource::kStage)
          continue;
        const auto of = static_cast<size_t>(node.ref);
        if (FromMemory(of)) continue;
        if (IsIdentityRead(node, counts_.Dims(of)) && !own.insert(node.ref).second) continue;
        const double asked =
            runs[e] / Repeats(VariesAlong(node, {share_.lane}),
                              !Loops(e, share_.down_dim) || VariesAlong(node, {share_.down_dim}));
        if (counts_.Stored(of)) {
          runs[of] = counts_.Domain(of);
        } else {
          runs[of] = counts_.OneNest() ? std::max(runs[of], asked) : runs[of] + asked;
        }
      }
    }
    return runs;
  }

  void Count(size_t e, double runs, GridLaunch& launch) {
    if (runs == 0) return;
    const ScalarExpr& expr = counts_.expr(e);
    const std::vector<uint64_t> varies = VariesWith(expr);
    const bool along = Loops(e, share_.lane), down = Loops(e, share_.down_dim);
    for (size_t i = 0; i < varies.size(); ++i) {
      const ExprNode& node = expr.nodes()[i];
      const double times = runs / Repeats(!along || Varies(varies[i], share_.lane),
                                          !down || Varies(varies[i], share_.down_dim));
      const Work work = WorkOf(expr, node, machine_);
      const double slower = node.type == DType::kF64 ? Of64() : 1;
      const double ns = slower * (work.ns + work.divider_ns);
      launch.work_ns += times * ns;
      if (Varies(varies[i], share_.lane)) instructions_ += ns / machine_.add_ns;
      if (node.op == ScalarOp::kRead) Read(node, times, launch);
      if (!IsExpensive(node.op)) continue;
      double distinct = 1;
      for (size_t dim = 0; dim < std::min(kBits, kernel_.dims.size()); ++dim)
        if ((varies[i] >> dim & 1) != 0) distinct *= counts_.extent(static_cast<int32_t>(dim));
      launch.expensive_repeats =
          std::max(launch.expensive_repeats, times / std::max(1.0, distinct));
    }
    if (counts_.IsReduction(e)) launch.work_ns += runs * CombineNs(counts_.stage(e), machine_);
    if (!counts_.Stored(e)) return;
    // What passes ask for, each after the one before.
    const double steps = Walks() ? 1 : static_cast<double>(grid_.steps);
    const bool loops = counts_.IsReduction(e) || passes_ || Walks();
    const bool unrolled = loops && instructions_ * shape_.Vector() <= kShortStep;
    double rounds =
        asked_ > 0 ? asked_ / ahead_ / (unrolled ? std::max(kAhead, steps) : steps) * idle_ : 0;
    if (Walks()) rounds = std::max(rounds, runs / share_.along / share_.down);  // one of a thread
    launch.rounds += rounds;
    asked_ = ahead_ = instructions_ = 0;
  }

  // Whether a node that varies with these dims (VariesWith) does so along `dim`.
  static bool Varies(uint64_t dims, int32_t dim) {
    return dim >= static_cast<int32_t>(kBits) || (dim >= 0 && (dims >> dim & 1) != 0);
  }

  double Of64() const {
    constexpr double kCounted = 2;  // correctness: an f64 counts as two already (work.h)
    return std::max(1.0, machine_.gpu.lanes / machine_.gpu.lanes64 / kCounted);
  }

  void Read(const ExprNode& node, double times, GridLaunch& launch) {
    const bool input = node.source == ReadSource::kInput;
    const auto ref = static_cast<size_t>(node.ref);
    if (!input && !FromMemory(ref)) return;
    const std::vector<int32_t>& dims = input ? kernel_.inputs[ref].dims : counts_.Dims(ref);
    const auto size =
        static_cast<double>(SizeOf(input ? kernel_.inputs[ref].type : counts_.stage(ref).type));
    const double run = RunBytes(node, dims, size);
    const double at_once = run >= kSector ? shape_.Vector() : 1;
    launch.work_ns += times / at_once * kOfAccess * machine_.add_ns;
    Traffic& traffic = traffic_[input ? ref : ref + kernel_.inputs.size()];
    const bool kept = input && ref < grid_.inputs.size() && grid_.inputs[ref];
    if (kept && traffic.sectors > 0) return;
    if (Tile(node)) transposed_ += times;
    if (VariesAlong(node, {share_.lane})) {
      asked_ += times * size;
      ahead_ += size * at_once;
    }
    traffic.walked = std::max(traffic.walked, std::min(counts_.Elements(dims), times) * size);
    traffic.sectors += times * size * std::max(1.0, kSector / run);
  }

  // Whether tiles of an operand are transposed.
  bool Tile(const ExprNode& node) const {
    const LoopSummary& loops = counts_.loops();
    if (!loops.transposes || node.index.empty() || !node.index.back().IsDim()) return false;
    return node.index.back().terms[0].dim == loops.along;
  }

  // Bytes side by side that a warp asks for with one load.
  double RunBytes(const ExprNode& node, const std::vector<int32_t>& dims, double size) const {
    if (Tile(node) || !VariesAlong(node, {share_.lane})) return kSector;
    const bool whole = IsIdentityRead(node, dims) && std::is_sorted(dims.begin(), dims.end());
    if (whole && dims.back() == share_.lane) return kSector;
    for (size_t axis = 0; axis + 1 < node.index.size(); ++axis) {
      for (const IndexExpr::Term& term : node.index[axis].terms)
        if (!term.extent && term.dim == share_.lane) return size * Turned(node.index.back());
    }
    const IndexExpr& last = node.index.back();
    if (last.load >= 0) return size;
    for (const IndexExpr::Term& term : last.terms) {
      if (term.extent || term.dim != share_.lane) continue;
      const double apart = std::abs(static_cast<double>(term.coef));
      return std::max(size, columns_ * shape_.Vector() * size / std::max(1.0, apart));
    }
    return size;
  }

  // Threads of a warp along the dim before the lanes', if neighbours in memory lie along that one.
  double Turned(const IndexExpr& last) const {
    return last.IsDim() && last.terms[0].dim == share_.lane - 1 ? kWarp / columns_ : 1;
  }

  void Finish(GridLaunch& launch) {
    for (const size_t e : launch.makes) {
      if (counts_.IsReduction(e)) continue;
      const DType type = counts_.IsStage(e) ? counts_.stage(e).type
                                            : kernel_.outputs[e - kernel_.stages.size()].type;
      launch.walked += counts_.Domain(e) * static_cast<double>(SizeOf(type));
      launch.work_ns += counts_.Domain(e) / shape_.Vector() * kOfAccess * machine_.add_ns;
    }
    for (const auto& [operand, traffic] : traffic_) {
      launch.walked += traffic.walked;
      const double more = std::max(0.0, traffic.sectors - traffic.walked);
      (traffic.walked <= kNearBytes ? launch.near : launch.again) += more;
    }
    launch.work_ns += launch.threads / idle_ * kOfThread * machine_.add_ns;
    launch.work_ns *= half_warps_;
  }

  const LoopCounts& counts_;
  const GridShape shape_;
  const Kernel& kernel_;
  const Grid& grid_;
  const Machine& machine_;
  // Of the launch at hand: what a thread takes, threads of a warp along the lane, and whether
  // threads loop over what they take.
  Share share_;
  double columns_ = kWarp;
  bool passes_ = false;
  double idle_ = 1, half_warps_ = 1;  // see IdleFor, HalfWarpsFor
  double transposed_ = 0;             // elements of tiles
  // Bytes that threads ask for in a pass, all of them, and one thread at once.
  double asked_ = 0, ahead_ = 0;
  double instructions_ = 0;  // of an element in it
  std::map<size_t, Traffic> traffic_;
  std::vector<GridLaunch> launches_;
};

}  // namespace

std::vector<GridLaunch> GridLaunchesOf(const Kernel& kernel, std::span<const int64_t> extents,
                                       const Schedule& schedule, const Machine& machine) {
  if (kernel.num_iterated() == 0) {  // no loops: a thread for each output
    std::vector<GridLaunch> launches(kernel.outputs.size());
    for (size_t k = 0; k < launches.size(); ++k)
      launches[k] = {.makes = {kernel.stages.size() + k}, .threads = 1};
    return launches;
  }
  const int64_t row = extents[static_cast<size_t>(kernel.innermost())];
  const LoopCounts counts(kernel, extents, FormAt(schedule.Loops(kernel), row));
  return LaunchCounter(counts, machine).Run();
}

}  // namespace kiln
