// SPDX-License-Identifier: Apache-2.0
// Which of the element-wise templates a kernel without reductions takes.
#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "schedule/analysis.h"
#include "schedule/cpu/deinterleave.h"
#include "schedule/cpu/fissioned.h"
#include "schedule/cpu/full_unroll.h"
#include "schedule/cpu/index_split.h"
#include "schedule/cpu/loop_fission.h"
#include "schedule/cpu/memory_order.h"
#include "schedule/cpu/packed_blocks.h"
#include "schedule/cpu/pointwise.h"
#include "schedule/cpu/schedulers.h"
#include "schedule/cpu/segmented.h"
#include "schedule/cpu/transpose.h"

namespace kiln {
namespace {

constexpr int64_t kSmallTile = 8;   // of turned inputs, where others would leave many lanes idle
constexpr int64_t kMostStride = 4;  // strides up to this are loads and shuffles

// The processor takes some lines to see that a stream of stores has begun: only in rows of so many
// elements may those of several channels run side by side.
constexpr int64_t kLongChannel = 2048;

// Rows up to this are made by vectors across rows. One more fills half a register, which is as good
// where all its elements are computed alike.
constexpr int64_t kMostUnrolled = 7;

// Rows up to this lie whole in vectors over several, where inputs lie in order and that takes no
// more to compile, in vectors times operations.
constexpr int64_t kMostWhole = 15, kMostWholeWork = 400;

// Starting the loop of a piece costs as much as a few elements whose guards are looked at.
constexpr int64_t kLeastPiece = 4;

// Rows up to this run as one where they can: of longer ones the last step is a small part.
constexpr int64_t kMostFlat = 512;

// A vector that makes a tiny row has idle lanes; with up to so many operations they do not count.
constexpr int64_t kFewOperations = 16;

// A tail is a small part of so many elements that are turned.
constexpr int64_t kMostTurned = 128;

// Up to so many elements that are turned make a loop over tiles too short to set out on: then
// `kColumns` tiles along the row follow each other.
constexpr int64_t kFewTurned = 16;
constexpr int64_t kColumns = 64;

// Maps read at other elements than the reader's own are computed anew for each such read, and so
// are those they read.
constexpr int64_t kMostCopies = 32;

int64_t Copies(const Kernel& kernel) {
  const std::vector<const ScalarExpr*> exprs = Expressions(kernel);
  const size_t stages = kernel.stages.size();
  std::vector<int64_t> copies(exprs.size(), 1);
  int64_t most = 1;
  for (size_t reader = exprs.size(); reader-- > 0;) {
    for (const ExprNode& node : exprs[reader]->nodes()) {
      if (node.op != ScalarOp::kRead || node.source != ReadSource::kStage) continue;
      const auto stage = static_cast<size_t>(node.ref);
      if (stage >= stages || IsIdentityRead(node, kernel.stages[stage].dims)) continue;
      copies[stage] = std::min(copies[stage] + copies[reader], kMostCopies + 1);
      most = std::max(most, copies[stage]);
    }
  }
  return most;
}

Decision Accepts(const Kernel& kernel) {
  for (const Stage& stage : kernel.stages) {
    if (stage.kind == Stage::Kind::kReduce) return Decision::No("it has a reduction");
  }
  if (kernel.num_iterated() == 0) return Decision::No("it has no dim to loop over");
  if (!OutputsInOrder(kernel, /*rows=*/false)) {
    return Decision::No("an output is not dense over all dims in their order");
  }
  if (Copies(kernel) > kMostCopies) {
    return Decision::No(
        "stages read each other at too many other elements to be computed in place");
  }
  return Decision::Yes();
}

bool ReadsStagesElsewhere(const Kernel& kernel) {
  for (const ScalarExpr* expr : Expressions(kernel)) {
    for (const ExprNode& node : expr->nodes()) {
      const bool read = node.op == ScalarOp::kRead && node.source == ReadSource::kStage;
      if (read && !IsIdentityRead(node, OperandDims(kernel, node))) return true;
    }
  }
  return false;
}

// The dim, other than the innermost, along which most inputs that are turned run in memory; -1 if
// none is, or if stages are read at elements that may lie in other tiles.
int32_t TurnDim(const Kernel& kernel) {
  if (ReadsStagesElsewhere(kernel)) return -1;
  std::vector<int> votes(kernel.dims.size(), 0);
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    const int32_t dim = TurnedAlong(kernel, i);
    if (dim >= 0) ++votes[static_cast<size_t>(dim)];
  }
  const auto most = std::max_element(votes.begin(), votes.end());
  return most == votes.end() || *most == 0 ? -1 : static_cast<int32_t>(most - votes.begin());
}

// True if in every input that runs along `turn` the innermost dim comes next, so that its elements
// are as far from each other as `turn` is long.
bool StridesByTurn(const Kernel& kernel, int32_t turn) {
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    const std::vector<int32_t>& dims = kernel.inputs[i].dims;
    if (TurnedAlong(kernel, i) == turn && dims[dims.size() - 2] != kernel.innermost()) return false;
  }
  return true;
}

// How many of the last dims of inputs that are turned run as one: more than one where all these
// inputs have the same there, and `turn` alone would leave much of the last tile empty. And how
// many elements that are, if few.
std::pair<int64_t, int64_t> Turned(const Kernel& kernel, const SizeClass& sizes, int32_t turn) {
  constexpr int64_t kTile = 8;  // elements of a tile along them
  const auto wasteful = [](int64_t extent) {
    const int64_t empty = (kTile - extent % kTile) % kTile;
    return empty * kTile > extent;
  };
  std::vector<int32_t> common;  // innermost first
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    if (TurnedAlong(kernel, i) != turn) continue;
    const std::vector<int32_t>& dims = kernel.inputs[i].dims;
    if (common.empty()) common.assign(dims.rbegin(), dims.rend());
    const auto differ = std::mismatch(common.begin(), common.end(), dims.rbegin(), dims.rend());
    common.erase(differ.first, common.end());
  }
  size_t count = 0;
  int64_t extent = 1;
  do {
    extent *= std::min(kMostTurned, sizes.at_most[static_cast<size_t>(common[count])]);
    ++count;
  } while (extent < kMostTurned && wasteful(extent) && count < common.size() &&
           common[count] != kernel.innermost());
  return {static_cast<int64_t>(count), extent};
}

// Whether tiles of half the length leave so many fewer lanes of rows of `row` idle that they are
// faster.
bool SmallTiles(int64_t row) {
  const auto lanes = [row](int64_t tile) { return (row / tile + (row % tile != 0)) * tile; };
  return row < kMostTurned && 6 * lanes(kSmallTile) <= 5 * lanes(2 * kSmallTile);
}

// Steps of links overlap; those of a link as long as two functions do so too little.
int64_t VectorsOfLinks(const Kernel& linked) {
  constexpr int64_t kMostOfTwo = 64;
  int64_t most = 0;
  for (const ScalarExpr* link : Expressions(linked)) most = std::max(most, Operations(*link));
  return most > kMostOfTwo ? 4 : 2;
}

// Rows that are no whole steps of `step` elements, and can run as one with the dims before.
struct Collapsed {
  int64_t dims = 1;
  std::vector<int64_t> expanded;  // inputs
};
std::optional<Collapsed> CollapsedFor(const Kernel& kernel, const SizeClass& sizes, int64_t step) {
  const int32_t x = kernel.innermost();
  const int64_t row = sizes.at_most[static_cast<size_t>(x)];
  if (row > kMostFlat || row % step == 0) return std::nullopt;
  const bool apart =
      std::any_of(kernel.stages.begin(), kernel.stages.end(), [&](const Stage& stage) {
        return !SpansAll(kernel, stage.dims) && Cost(stage.expr) >= kLeastOfRow;
      });
  for (int32_t first = 0; first < x && !apart; ++first) {
    auto expanded = TablesToRunAsOne(kernel, sizes, first, x);
    if (expanded) return Collapsed{x - first + 1, *std::move(expanded)};
  }
  return std::nullopt;
}

// The outer dim along which rows follow each other in the first input that has them in another
// order than the outputs; the last outer one if there is none such, but an input has a row for
// several of them. -1 if rows need no coordinates.
int32_t RowsOrder(const Kernel& kernel) {
  const int32_t x = kernel.innermost();
  int32_t order = -1;
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    const std::vector<int32_t>& dims = kernel.inputs[i].dims;
    const bool iterated =
        std::all_of(dims.begin(), dims.end(), [x](int32_t dim) { return dim <= x; });
    if (kernel.inputs[i].layout != Layout::kDense || !iterated) return -1;
    if (dims.empty() || dims == std::vector<int32_t>{x} || SpansOuter(kernel, dims) ||
        SpansAll(kernel, dims))
      continue;
    const bool moved = dims.back() == x && static_cast<int32_t>(dims.size()) == x + 1;
    if (moved) return dims[dims.size() - 2];
    order = x - 1;
  }
  return order;
}

// If the last dims are known to be tiny, and `turn` is one of them or comes right before.
std::optional<PackedBlocks> PackedFor(const Kernel& kernel, const SizeClass& sizes,
                                      const Machine& machine, int32_t turn) {
  constexpr int64_t kMostElements = 128;  // of a vector
  const auto known = [&](int32_t dim) { return sizes.at_most[static_cast<size_t>(dim)]; };
  const int64_t work = std::max<int64_t>(1, CompileWork(kernel));
  const int64_t most =
      std::min(kMostElements, kMostWholeWork / work * LanesFor(kernel, machine, 1));
  const int32_t x = kernel.innermost();
  int32_t first = x + 1;
  int64_t block = 1;
  while (first > 0 && block > 0 && known(first - 1) <= most / block) block *= known(--first);
  if (block == 0 || first >= x || first == 0 || turn < first - 1) return std::nullopt;
  const auto blocks = static_cast<uint64_t>(std::clamp<int64_t>(known(first - 1), 1, most / block));
  PackedBlocks packed;
  packed.blocks = static_cast<int64_t>(std::bit_floor(blocks));
  packed.task = GrainFor(kernel, machine);
  packed.dims = x + 1 - first;
  packed.known.assign(kernel.dims.size(), -1);
  for (int32_t d = first; d <= x; ++d) packed.known[static_cast<size_t>(d)] = known(d);
  return packed;
}

// Elements of a step for rows of `row`, from `most` by halves to `least`: as many as leave the
// fewest lanes idle in the last.
int64_t FewestIdle(int64_t most, int64_t least, int64_t row) {
  const auto made = [row](int64_t lanes) { return (row + lanes - 1) / lanes * lanes; };
  int64_t best = most;
  for (int64_t lanes = most / 2; lanes >= least; lanes /= 2)
    if (made(lanes) < made(best)) best = lanes;
  return best;
}

// For rows of `row` far from each other. Stores of vectors as long as a line cross lines where rows
// are short: halves do so less often.
int64_t LanesInOrder(const Kernel& kernel, const Machine& machine, int64_t row) {
  constexpr int64_t kQuarter = 4;
  const int64_t vector = LanesFor(kernel, machine, 1);
  const bool halves = machine.VectorsFillLines() && row <= 2 * vector;
  const int64_t lanes = FewestIdle(LanesFor(kernel, machine, 4), halves ? vector / 2 : vector, row);
  return row <= kQuarter ? std::min(lanes, kQuarter) : lanes;
}

// Whether short rows with cuts take less work in vectors over several pieces, whose lanes compute
// all of them, than in vectors of one piece each.
bool Blends(const Kernel& kernel, const std::vector<IndexExpr>& cuts, const SizeClass& sizes,
            const Machine& machine) {
  constexpr int64_t kLeastWork = 16;   // of a vector: its loop, mask and store, in operations
  constexpr int64_t kMostVectors = 4;  // of longer rows, few elements are near a cut
  const int32_t x = kernel.innermost();
  const int64_t row = sizes.at_most[static_cast<size_t>(x)];
  const int64_t lanes = LanesFor(kernel, machine, 1);
  const auto vectors = [lanes](int64_t elements) { return (elements + lanes - 1) / lanes; };
  if (x == 0 || row > kMostVectors * lanes) return false;
  const std::vector<int64_t> lengths = PieceLengths(kernel, cuts, sizes.at_most);
  int64_t all = kLeastWork, apart = 0;  // of a vector over pieces; of a row in pieces
  for (size_t piece = 0; piece < lengths.size(); ++piece) {
    const int64_t work = CompileWork(Between(kernel, cuts, piece));
    all += work;
    apart += vectors(lengths[piece]) * (work + kLeastWork);
  }
  return vectors(row) * all < apart;
}

template <typename T>
Schedule With(const Template& of, T fields, std::vector<std::pair<int32_t, int32_t>> in_place) {
  Schedule schedule(of, std::move(fields));
  schedule.in_place = std::move(in_place);
  return schedule;
}

Schedule Choose(const Kernel& kernel, const SizeClass& sizes, const Machine& machine) {
  const auto in_place = ElementwisePairs(kernel);
  const auto known = [&](int32_t dim) { return sizes.at_most[static_cast<size_t>(dim)]; };
  const int32_t x = kernel.innermost();
  const int64_t row = known(x), task = GrainFor(kernel, machine);
  const std::vector<IndexExpr> cuts = Cuts(kernel);
  const auto segments = static_cast<int64_t>(cuts.size());
  const int32_t turn = TurnDim(kernel);
  int64_t step = LanesForRow(kernel, machine, 4, row);
  const bool strided = turn >= 0 && known(turn) <= kMostStride && StridesByTurn(kernel, turn);
  const bool turned = cuts.empty() && turn >= 0 && !strided;
  const bool whole_rows = cuts.empty() && ReadsInOrder(kernel);
  const bool light = row <= kMostWhole && row * CompileWork(kernel) <= kMostWholeWork;
  const int64_t most = whole_rows && light ? kMostWhole : kMostUnrolled + (cuts.empty() ? 0 : 1);
  const int64_t whole_step = LanesFor(kernel, machine, 4);
  const std::optional<Collapsed> collapsed =
      cuts.empty() && turn < 0 ? CollapsedFor(kernel, sizes, whole_step) : std::nullopt;
  if (collapsed) step = whole_step;
  const int32_t order = collapsed || !cuts.empty() || turn >= 0 || row > kShortRow ||
                                (row <= kMostUnrolled && CompileWork(kernel) > kFewOperations)
                            ? -1
                            : RowsOrder(kernel);
  const bool moved = order >= 0 && order < x - 1;
  const bool tiny = !turned || row <= kMostStride;
  if (!moved && !collapsed && tiny) {
    if (std::optional<FullUnroll> unrolled = UnrolledFor(kernel, sizes, machine, most)) {
      unrolled->packed = whole_rows;
      return With(kFullUnroll, *std::move(unrolled), in_place);
    }
  }
  if (cuts.empty() && turn >= 0) {  // the last vector makes elements twice: nothing in place
    if (auto packed = PackedFor(kernel, sizes, machine, turn))
      return Schedule(kPackedBlocks, *std::move(packed));
  }
  if (!cuts.empty() && Blends(kernel, cuts, sizes, machine)) {
    MemoryOrder blended;
    blended.step = LanesInOrder(kernel, machine, row);
    blended.task = task;
    blended.order = x - 1;
    blended.segments = segments;
    return With(kMemoryOrder, blended, in_place);
  }
  if (!cuts.empty() && row / kLeastPiece >= segments + 1) {
    Segmented segmented;
    segmented.step = LanesForRow(Between(kernel, cuts, 0), machine, 1, row);
    segmented.task = task;
    segmented.segments = segments;
    return With(kSegmented, segmented, in_place);
  }
  if (turned) {
    Transpose transpose;
    transpose.step = step;
    transpose.task = task;
    transpose.along = turn;
    const auto [dims, extent] = Turned(kernel, sizes, turn);
    transpose.dims = dims;
    if (extent <= kFewTurned && row >= kMostTurned) transpose.columns = kColumns;
    if (SmallTiles(row)) transpose.tile = kSmallTile;
    return With(kTranspose, transpose, in_place);
  }
  if (strided) {
    Deinterleave deinterleave;
    deinterleave.channel = turn;
    deinterleave.channels = known(turn);
    // Short rows take fewer.
    deinterleave.step = row >= kMostTurned && row != kUnbounded ? 2 * step : step;
    deinterleave.task = task;
    deinterleave.together = row >= kLongChannel;
    return With(kDeinterleave, deinterleave, in_place);
  }
  if (order >= 0) {
    MemoryOrder permuted;
    permuted.step = LanesInOrder(kernel, machine, row);
    permuted.task = task;
    permuted.order = order;
    return With(kMemoryOrder, permuted, in_place);
  }
  const Collapsed as_one = collapsed.value_or(Collapsed());
  const std::optional<Kernel> linked = collapsed || row >= kStrip ? InLinks(kernel) : std::nullopt;
  if (linked) {
    Fissioned fissioned;
    fissioned.step = LanesFor(kernel, machine, VectorsOfLinks(*linked));
    fissioned.task = task;
    fissioned.parts = static_cast<int64_t>(linked->stages.size());
    fissioned.collapsed = as_one.dims;
    fissioned.expanded = as_one.expanded;
    return With(kFissioned, std::move(fissioned), in_place);
  }
  Pointwise pointwise;
  pointwise.step = step;
  pointwise.task = task;
  pointwise.collapsed = as_one.dims;
  pointwise.expanded = as_one.expanded;
  return With(kPointwise, std::move(pointwise), in_place);
}

// Rows too short for a strip are run without links.
std::vector<SizeClass> Classes(const Kernel& kernel, const SizeClass& known) {
  SizeClass short_rows = known;
  int64_t& row = short_rows.at_most[static_cast<size_t>(kernel.innermost())];
  const bool any = kernel.num_iterated() > 1 && row == kUnbounded;
  if (!any || !Choose(kernel, known, Machine()).Is(kFissioned)) return {known};
  row = kStrip - 1;
  return {short_rows, known};
}

template <typename T>
constexpr Template ElementWise(const char* name, const char* doc) {
  return {name, doc, Accepts, Make<T>};
}

}  // namespace

const Template kPointwise =
    ElementWise<Pointwise>("pointwise", "element-wise, vectors along the innermost dim");
const Template kFissioned =
    ElementWise<Fissioned>("fissioned", "element-wise, a long chain in parts over strips");
const Template kPackedBlocks =
    ElementWise<PackedBlocks>("packed_blocks", "element-wise, vectors of whole blocks of dims");
const Template kMemoryOrder =
    ElementWise<MemoryOrder>("memory_order", "element-wise, short rows with permuted loops");
const Template kSegmented =
    ElementWise<Segmented>("segmented", "element-wise, rows with guards in segments");
const Template kTranspose =
    ElementWise<Transpose>("transpose", "element-wise, tiles transposed in registers");
const Template kDeinterleave =
    ElementWise<Deinterleave>("deinterleave", "element-wise, a few interleaved channels");

const Scheduler kPointwiseScheduler = {
    .name = "pointwise",
    .doc = "element-wise kernels, vectorised over the innermost dim",
    .accepts = Accepts,
    .choose = Choose,
    .classes = Classes,
};

}  // namespace kiln
