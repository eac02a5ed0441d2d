// SPDX-License-Identifier: Apache-2.0
#include "exec/validate/probe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "exec/validate/probe_fit.h"
#include "kernel/abi.h"
#include "kernel/operands.h"

namespace kiln {
namespace {

constexpr int64_t kUsualElements = 1 << 13;      // compile time
constexpr int64_t kMostOfExample = 1 << 18;      // compile time: of extents that the caller names
constexpr int64_t kMostAlone = 1 << 23;          // compile time: the same where there are no others
constexpr int64_t kLeastPart = 1 << 12;          // compile time: to which they are scaled down
constexpr int64_t kMostLong = 1 << 19;           // compile time: of long rows, and of many
constexpr int64_t kMostWork = int64_t{1} << 25;  // compile time: operations of a probe with those
constexpr uint64_t kFreeTries = 400;             // compile time
constexpr size_t kFewProbes = 6;                 // correctness

// Wanted extents: `inner` in the innermost dim, the rest by `pattern` as far as there is room.
std::vector<int64_t> Spread(const Kernel& kernel, int64_t inner, int64_t room, size_t pattern) {
  static constexpr int64_t kOuter[] = {2, 3, 1, 5};       // correctness
  static constexpr int64_t kSizes[] = {1, 4, 17, 2, 64};  // correctness
  std::vector<int64_t> extents(kernel.dims.size(), kSizes[pattern % 5]);
  int64_t left = std::max<int64_t>(1, room / std::max<int64_t>(1, inner));
  for (int d = kernel.innermost(); d >= 0; --d) {
    const auto at = static_cast<size_t>(d);
    extents[at] = d == kernel.innermost() ? inner : std::min(kOuter[(pattern + at) % 4], left);
    if (d != kernel.innermost()) left /= extents[at];
  }
  return extents;
}

std::vector<int32_t> ReducedOuterDims(const Kernel& kernel) {
  std::vector<int32_t> dims;
  for (const Stage& stage : kernel.stages) {
    for (const int32_t dim : stage.over) {
      if (dim != kernel.innermost() && std::find(dims.begin(), dims.end(), dim) == dims.end())
        dims.push_back(dim);
    }
  }
  return dims;
}

// Dims of the space, but the innermost, along which rows of some operand lie.
std::vector<int32_t> TransposedDims(const Kernel& kernel) {
  std::vector<int32_t> dims;
  const auto add = [&](const std::vector<int32_t>& axes) {
    if (axes.empty() || axes.back() >= kernel.innermost()) return;
    if (std::find(dims.begin(), dims.end(), axes.back()) == dims.end()) dims.push_back(axes.back());
  };
  for (const KernelInput& input : kernel.inputs) {
    if (input.dims.size() > 1) add(input.dims);
  }
  for (const KernelOutput& output : kernel.outputs) {
    if (output.dims.size() > 1) add(output.dims);
  }
  return dims;
}

std::vector<std::vector<int64_t>> WantedExtents(const Kernel& kernel, const LaunchInfo& launch,
                                                const ProbeFitter& fitter) {
  const auto n = static_cast<size_t>(kernel.num_iterated());
  const int64_t lanes = launch.step;
  const int64_t grain = std::clamp<int64_t>(launch.task, 1, kMostElements / 2);
  std::vector<std::vector<int64_t>> wanted;
  const auto add = [&](int64_t inner, int64_t room) {
    wanted.push_back(Spread(kernel, inner, room, wanted.size()));
  };
  for (const int64_t inner : {int64_t{1}, lanes - 1, lanes, lanes + 1, 2 * lanes + 3, int64_t{63},
                              int64_t{65}, int64_t{130}})
    add(inner, kUsualElements / 8);
  add(kReduceBlock + 1, kUsualElements);
  add(1000, kUsualElements);
  // Blocks of outer dims, in whole vectors of columns and in a part of one.
  const int64_t columns = std::max(lanes, launch.columns) + 1;
  for (const int32_t dim : ReducedOuterDims(kernel)) {
    for (const auto& [extent, inner] :
         {std::pair{kOuterReduceBlock + 1, columns}, std::pair{int64_t{70}, int64_t{5}},
          std::pair{kOuterReduceBlock * kOuterReduceBlock + kOuterReduceBlock + 1, columns}}) {
      add(inner, 1);
      wanted.back()[static_cast<size_t>(dim)] = extent;
    }
  }
  // Tiles, where operands run along other dims than the space: whole ones and parts, both ways.
  const int64_t tile = std::min<int64_t>(lanes, 64);
  for (const int32_t dim : TransposedDims(kernel)) {
    for (const int64_t extent : {2 * tile - 1, tile}) {
      add(extent, 1);
      wanted.back()[static_cast<size_t>(dim)] = extent;
    }
  }
  // Sizes, where rows may be cut: vectors on both sides.
  for (const int64_t part : {tile / 2 + 1, 2 * tile + 3}) {
    if (kernel.dims.size() == n) break;
    add(2 * part + 5, 3 * (2 * part + 5));
    std::fill(wanted.back().begin() + static_cast<ptrdiff_t>(n), wanted.back().end(), part);
  }
  // More than one task: by the outermost dim, and by the innermost where that is alone.
  add(n == 1 ? grain + grain / 8 + 1 : lanes + 1, 1);
  if (n > 1) wanted.back()[0] = grain / (lanes + 1) + 3;
  for (size_t d = 0; d < std::min<size_t>(n, 3); ++d) {
    add(3, 64);
    wanted.back()[d] = 0;
  }
  std::vector<int64_t> greatest;
  for (size_t d = 0; d < kernel.dims.size(); ++d) greatest.push_back(fitter.Limit(d));
  wanted.push_back(std::move(greatest));  // fits only where it is small
  return wanted;
}

// The work that an element takes, in operations.
int64_t Work(const Kernel& kernel) {
  constexpr int64_t kFunction = 20;  // compile time
  int64_t work = 1;
  for (const ScalarExpr* const expr : Expressions(kernel)) {
    for (const ExprNode& node : expr->nodes()) work += Info(node.op).function ? kFunction : 1;
  }
  return work;
}

// Extents by which higher levels of the tree of a reduction have whole blocks, or steps of vectors:
// more elements than other probes have, so few of them, as far as that is worth its time.
std::vector<std::vector<int64_t>> LongExtents(const Kernel& kernel) {
  std::vector<std::vector<int64_t>> wanted;
  const auto add = [&](int32_t dim, int64_t extent) {
    wanted.push_back(Spread(kernel, 1, 1, wanted.size()));
    wanted.back()[static_cast<size_t>(dim)] = extent;
  };
  const bool rows =
      std::any_of(kernel.stages.begin(), kernel.stages.end(), [&](const Stage& stage) {
        return std::find(stage.over.begin(), stage.over.end(), kernel.innermost()) !=
               stage.over.end();
      });
  if (rows) add(kernel.innermost(), (kReduceLanes + 2) * kReduceBlock + kReduceLanes + 6);
  for (const int32_t dim : ReducedOuterDims(kernel))
    add(dim, (kOuterReduceBlock * kOuterReduceBlock + 1) * kOuterReduceBlock + 1);
  return wanted;
}

// Where to begin when what is wanted does not fit: that, or ones, or anything small.
std::vector<int64_t> FreeStart(const Kernel& kernel,
                               const std::vector<std::vector<int64_t>>& wanted, uint64_t seed) {
  if (seed % 4 == 0) return wanted[(seed / 4) % wanted.size()];
  uint64_t state = seed;
  const uint64_t most = std::min<uint64_t>(1 + seed / 4, 12);
  std::vector<int64_t> extents;
  for (size_t d = 0; d < kernel.dims.size(); ++d)
    extents.push_back(1 + static_cast<int64_t>(NextRandom(state) % most));
  return extents;
}

// Every extent at one part of what it is, but for the short ones.
std::vector<int64_t> ScaledDown(std::vector<int64_t> extents, int64_t part) {
  for (int64_t& extent : extents) extent = std::max(std::min<int64_t>(extent, 4), extent / part);
  return extents;
}

// The same extents but for rows of outputs, which become whole lines; nothing if the class has only
// shorter ones.
std::optional<std::vector<int64_t>> OfWholeLines(const Kernel& kernel, const ProbeFitter& fitter,
                                                 std::vector<int64_t> extents) {
  for (const KernelOutput& output : kernel.outputs) {
    if (output.dims.size() < 2) continue;  // where the operand begins is all that counts
    const auto inner = static_cast<size_t>(output.dims.back());
    const int64_t line = kLine / static_cast<int64_t>(SizeOf(output.type));
    const int64_t lines = std::min((extents[inner] + line - 1) / line, fitter.Limit(inner) / line);
    if (lines == 0) return std::nullopt;
    extents[inner] = lines * line;
  }
  return extents;
}

void AddProbe(const Kernel& kernel, const std::vector<int64_t>& extents,
              std::vector<Probe>& probes) {
  Probe& probe = probes.emplace_back();
  probe.extents = extents;
  probe.seed = probes.size();
  probe.specials = probes.size() % 2 == 0;
  probe.at_end = probes.size() % 3 != 0;
  uint64_t state = ~probe.seed;
  for (const DType type : kernel.params)
    probe.params.push_back(ProbeValue(type, probes.size() % 4 == 0, state));
}

// Some of the probes once more, with outputs over inputs.
void AddInPlace(const LaunchInfo& launch, std::vector<Probe>& probes) {
  const size_t apart = launch.in_place.empty() ? 0 : probes.size();
  for (size_t k = 0; k < apart; k += 4) {
    Probe probe = probes[k];
    probe.in_place = true;
    probe.at_end = !probe.at_end;
    probe.whole_lines = false;
    probes.push_back(std::move(probe));
  }
}

}  // namespace

uint64_t ProbeValue(DType type, bool specials, uint64_t& state) {
  const uint64_t random = NextRandom(state);
  if (type == DType::kBool) return random & 1;
  const DType compute = ComputeType(type);
  if (!IsFloat(compute)) {
    const uint64_t bits = specials ? (random >> 7) >> (random % 56) : random % 7;
    return (random >> 63) != 0 ? ~bits + 1 : bits;
  }
  static constexpr double kSpecials[] = {
      std::numeric_limits<double>::quiet_NaN(),
      std::numeric_limits<double>::infinity(),
      -std::numeric_limits<double>::infinity(),
      -0.0,
      0.0,
      1e-40,
      -1e-40,
      1e-45,
      3.4028234663852886e38,
      -3.4028234663852886e38,
      1.1754943508222875e-38,
      1.0,
      -1.0,
      1e-300,
  };
  if (specials && random % 8 == 0)
    return ConstBits(compute, kSpecials[(random >> 8) % std::size(kSpecials)]);
  const double unit = static_cast<double>(static_cast<int64_t>(random >> 11) - (int64_t{1} << 52)) *
                      0x1p-52;  // [-1, 1)
  const int exponent = specials ? static_cast<int>(random % 80) - 40 : 2;
  return ConstBits(compute, std::ldexp(unit, exponent));
}

std::vector<Probe> ProbesFor(const Kernel& kernel, const LaunchInfo& launch,
                             const std::vector<int64_t>& at_most) {
  const ProbeFitter fitter(kernel, at_most);
  std::vector<Probe> probes;
  const auto add = [&](const std::optional<std::vector<int64_t>>& extents, bool whole_lines = false,
                       int most = 2) {
    if (!extents.has_value()) return;
    const auto same = [&](const Probe& probe) {
      return probe.extents == *extents && probe.whole_lines == whole_lines;
    };
    if (std::count_if(probes.begin(), probes.end(), same) >= most) return;
    AddProbe(kernel, *extents, probes);
    if (!whole_lines) return;
    probes.back().at_end = false;
    probes.back().whole_lines = true;
  };
  const std::vector<std::vector<int64_t>> wanted = WantedExtents(kernel, launch, fitter);
  for (const std::vector<int64_t>& extents : wanted) add(fitter.Fit(extents));
  const int64_t longest = std::min(kMostLong, kMostWork / Work(kernel));
  for (const std::vector<int64_t>& extents : LongExtents(kernel))
    add(fitter.Fit(extents, longest), false, 1);
  for (const std::vector<int64_t>& extents : wanted) {
    const auto lines = OfWholeLines(kernel, fitter, extents);
    if (lines.has_value()) add(fitter.Fit(*lines), true, 1);
  }
  for (uint64_t seed = 0; seed < kFreeTries && probes.size() < kFewProbes; ++seed)
    add(fitter.FitFreely(FreeStart(kernel, wanted, seed), seed));
  AddInPlace(launch, probes);
  return probes;
}

std::vector<Probe> ProbesOf(const Kernel& kernel, const LaunchInfo& launch,
                            const std::vector<int64_t>& at_most,
                            const std::vector<int64_t>& extents, bool alone) {
  std::vector<Probe> probes;
  if (extents.size() != kernel.dims.size()) return probes;
  const ProbeFitter fitter(kernel, at_most);
  const bool launches = fitter.InClass(extents) && fitter.Launched(extents);
  if (launches && fitter.Most(extents) <= kMostOfExample) {
    for (int k = 0; k < (alone ? 4 : 2); ++k) AddProbe(kernel, extents, probes);
  } else {
    for (int64_t part = 2; part <= kLeastPart && probes.empty(); part *= 2) {
      const auto fits = fitter.FitFreely(ScaledDown(extents, part), static_cast<uint64_t>(part));
      for (int k = 0; k < 2 && fits.has_value(); ++k) AddProbe(kernel, *fits, probes);
    }
  }
  if (probes.empty() && alone && launches && fitter.Most(extents) <= kMostAlone)
    AddProbe(kernel, extents, probes);
  AddInPlace(launch, probes);
  return probes;
}

std::string Describe(const Kernel& kernel, const Probe& probe) {
  std::string text;
  for (size_t d = 0; d < kernel.dims.size(); ++d)
    absl::StrAppend(&text, d == 0 ? "" : " ", kernel.dims[d].name, "=", probe.extents[d]);
  return absl::StrCat(text, probe.specials ? " specials" : "", probe.at_end ? "" : " at-begin",
                      probe.whole_lines ? " whole-lines" : "", probe.in_place ? " in-place" : "");
}

}  // namespace kiln
