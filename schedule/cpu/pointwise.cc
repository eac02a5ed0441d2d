// SPDX-License-Identifier: Apache-2.0
// "pointwise": no reductions; one loop nest over all dims makes every output, maps are computed
// where they are read.
//
// The dims but the innermost are run as one (rows). The innermost is vectorised; without rows it is
// cut into tasks of `grain` elements, else tasks are so many rows that they have about as many
// elements.
//
// If the rows end inside a step, they run as one with the dims before where they can ("flat",
// "tables"). Else, if the innermost dim has a few elements only, vectors run along the next
// ("unroll"), which also decides guards, or hold several rows whole ("whole_rows").
//
// Inputs contiguous along another dim ("turn") are turned in tiles, which run along several dims
// where those are short ("turns"), and follow each other along rows where the turned dim is still
// short ("columns"). If the turned dim is known to be tiny (channels of an image: "stride_dim",
// "stride_is"), they are loads and shuffles, in long rows those of all channels at each step
// ("together"); where the last dims all are, vectors hold blocks of them ("block"). Short rows that
// lie in another order have a loop for each dim ("order"). Rows with guards on the innermost
// coordinate are run in pieces ("cuts"), short ones in vectors over several ("order", too), long
// chains in "links".
#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedule/analysis.h"
#include "schedule/cpu/index_split.h"
#include "schedule/cpu/loop_fission.h"
#include "schedule/cpu/schedulers.h"

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

// Rows that are no whole steps of `lanes` and can run as one with the dims before: sets "flat", how
// many dims do, and the tables that it takes.
bool SetFlat(Params& params, const Kernel& kernel, const SizeClass& sizes, int64_t lanes) {
  const int32_t x = kernel.innermost();
  const int64_t row = sizes.at_most[static_cast<size_t>(x)];
  if (row > kMostFlat || row % lanes == 0) return false;
  const bool apart =
      std::any_of(kernel.stages.begin(), kernel.stages.end(), [&](const Stage& stage) {
        return !SpansAll(kernel, stage.dims) && Cost(stage.expr) >= kLeastOfRow;
      });
  for (int32_t first = 0; first < x && !apart; ++first) {
    const std::optional<int64_t> tables = TablesToRunAsOne(kernel, sizes, first, x);
    if (!tables) continue;
    params.values.emplace_back("flat", x - first + 1);
    if (*tables != 0) params.values.emplace_back("tables", *tables);
    return true;
  }
  return false;
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

// If the last dims are known to be tiny, and `turn` is one of them or comes right before: sets
// "block", how many they are, their extents ("is<dim>"), and "lanes", how many such blocks make a
// vector.
bool SetBlock(Params& params, const Kernel& kernel, const SizeClass& sizes, const Machine& machine,
              int32_t turn) {
  constexpr int64_t kMostElements = 128;  // of a vector
  const auto known = [&](int32_t dim) { return sizes.at_most[static_cast<size_t>(dim)]; };
  const int64_t work = std::max<int64_t>(1, CompileWork(kernel));
  const int64_t most =
      std::min(kMostElements, kMostWholeWork / work * LanesFor(kernel, machine, 1));
  const int32_t x = kernel.innermost();
  int32_t first = x + 1;
  int64_t block = 1;
  while (first > 0 && block > 0 && known(first - 1) <= most / block) block *= known(--first);
  if (block == 0 || first >= x || first == 0 || turn < first - 1) return false;
  const auto lanes = static_cast<uint64_t>(std::clamp<int64_t>(known(first - 1), 1, most / block));
  params.values.emplace_back("block", x + 1 - first);
  params.values.emplace_back("lanes", std::bit_floor(lanes));
  for (int32_t d = first; d <= x; ++d) params.values.emplace_back(absl::StrCat("is", d), known(d));
  std::sort(params.values.begin(), params.values.end());
  params.in_place.clear();  // the last vector makes elements twice
  return true;
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

Params Choose(const Kernel& kernel, const SizeClass& sizes, const Machine& machine) {
  Params params{.scheduler = "pointwise", .values = {}, .in_place = ElementwisePairs(kernel)};
  const auto known = [&](int32_t dim) { return sizes.at_most[static_cast<size_t>(dim)]; };
  const int32_t x = kernel.innermost();
  const std::vector<IndexExpr> cuts = Cuts(kernel);
  const int32_t turn = TurnDim(kernel);
  int64_t lanes = LanesForRow(kernel, machine, 4, known(x));
  params.values = {{"grain", GrainFor(kernel, machine)}};
  const bool strided = turn >= 0 && known(turn) <= kMostStride && StridesByTurn(kernel, turn);
  const bool turned = cuts.empty() && turn >= 0 && !strided;
  const bool whole_rows = cuts.empty() && ReadsInOrder(kernel);
  const bool light = known(x) <= kMostWhole && known(x) * CompileWork(kernel) <= kMostWholeWork;
  const int64_t most = whole_rows && light ? kMostWhole : kMostUnrolled + (cuts.empty() ? 0 : 1);
  const int64_t whole_lanes = LanesFor(kernel, machine, 4);
  const bool flat = cuts.empty() && turn < 0 && SetFlat(params, kernel, sizes, whole_lanes);
  if (flat) lanes = whole_lanes;
  const int32_t order = flat || !cuts.empty() || turn >= 0 || known(x) > kShortRow ||
                                (known(x) <= kMostUnrolled && CompileWork(kernel) > kFewOperations)
                            ? -1
                            : RowsOrder(kernel);
  const bool moved = order >= 0 && order < x - 1;
  const bool tiny = !turned || known(x) <= kMostStride;
  if (!moved && !flat && tiny && SetUnrolled(params, kernel, sizes, machine, most)) {
    if (whole_rows) params.values.emplace_back("whole_rows", 1);
    return params;
  }
  if (cuts.empty() && turn >= 0 && SetBlock(params, kernel, sizes, machine, turn)) return params;
  const bool long_enough = known(x) / kLeastPiece >= static_cast<int64_t>(cuts.size()) + 1;
  if (!cuts.empty() && Blends(kernel, cuts, sizes, machine)) {
    params.values.emplace_back("order", x - 1);
    params.values.emplace_back("cuts", static_cast<int64_t>(cuts.size()));
    lanes = LanesInOrder(kernel, machine, known(x));
  } else if (!cuts.empty() && long_enough) {
    lanes = LanesForRow(Between(kernel, cuts, 0), machine, 1, known(x));
    params.values.emplace_back("cuts", static_cast<int64_t>(cuts.size()));
  } else if (turned) {
    params.values.emplace_back("turn", turn);
    const auto [dims, extent] = Turned(kernel, sizes, turn);
    if (dims > 1) params.values.emplace_back("turns", dims);
    if (extent <= kFewTurned && known(x) >= kMostTurned)
      params.values.emplace_back("columns", kColumns);
    if (SmallTiles(known(x))) params.values.emplace_back("tile", kSmallTile);
  } else if (strided) {
    params.values.emplace_back("stride_dim", turn);
    params.values.emplace_back("stride_is", known(turn));
    if (known(x) >= kMostTurned && known(x) != kUnbounded) lanes *= 2;  // short rows take fewer
    if (known(x) >= kLongChannel) params.values.emplace_back("together", 1);
  } else if (order >= 0) {
    params.values.emplace_back("order", order);
    lanes = LanesInOrder(kernel, machine, known(x));
  } else if (flat || known(x) >= kStrip) {
    if (const std::optional<Kernel> linked = InLinks(kernel)) {
      params.values.emplace_back("links", static_cast<int64_t>(linked->stages.size()));
      lanes = LanesFor(kernel, machine, VectorsOfLinks(*linked));
    }
  }
  params.values.emplace_back("lanes", lanes);
  std::sort(params.values.begin(), params.values.end());
  return params;
}

// Rows too short for a strip are run without links.
std::vector<SizeClass> Classes(const Kernel& kernel, const SizeClass& known) {
  SizeClass short_rows = known;
  int64_t& row = short_rows.at_most[static_cast<size_t>(kernel.innermost())];
  const bool any = kernel.num_iterated() > 1 && row == kUnbounded;
  if (!any || Choose(kernel, known, Machine()).Get("links", 0) == 0) return {known};
  row = kStrip - 1;
  return {short_rows, known};
}

}  // namespace

const Scheduler kPointwiseScheduler = {
    .name = "pointwise",
    .doc = "element-wise kernels, vectorised over the innermost dim",
    .accepts = Accepts,
    .choose = Choose,
    .classes = Classes,
};

}  // namespace kiln
