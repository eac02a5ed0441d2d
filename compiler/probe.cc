// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/probe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kiln/compiler/probe_reads.h"
#include "kiln/schedule/facts.h"

namespace kiln {
namespace {

constexpr int64_t kMostElements = 1 << 16;  // of the iteration space and of each operand
constexpr int64_t kUsualElements = 1 << 13;
constexpr int64_t kMostOfExample = 1 << 18;  // of extents that the caller names
constexpr int64_t kMostAlone = 1 << 23;      // the same where there are no others
constexpr int kMostRounds = 64;

uint64_t Next(uint64_t& state) {  // splitmix64
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The dims over which each expression of Expressions() is evaluated.
std::vector<std::vector<int32_t>> Spaces(const Kernel& kernel) {
  std::vector<std::vector<int32_t>> spaces;
  for (const Stage& stage : kernel.stages) {
    spaces.push_back(stage.dims);
    spaces.back().insert(spaces.back().end(), stage.over.begin(), stage.over.end());
  }
  for (const KernelOutput& output : kernel.outputs) spaces.push_back(output.dims);
  return spaces;
}

int64_t Elements(const std::vector<int32_t>& dims, const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int32_t dim : dims) {
    const int64_t extent = extents[static_cast<size_t>(dim)];
    if (extent != 0 && count > 2 * kMostAlone / extent) return 2 * kMostAlone;
    count *= extent;
  }
  return count;
}

// Finds extents near the wanted ones under which a kernel may be called.
class Fitter {
 public:
  Fitter(const Kernel& kernel, const std::vector<int64_t>& at_most)
      : kernel_(kernel), at_most_(at_most) {
    const std::vector<const ScalarExpr*> exprs = Expressions(kernel);
    std::vector<std::vector<int32_t>> spaces = Spaces(kernel);
    for (size_t e = 0; e < exprs.size(); ++e)
      reads_.emplace_back(kernel, *exprs[e], std::move(spaces[e]));
    at_most_.resize(kernel.dims.size(), -1);
  }

  int64_t Limit(size_t dim) const {
    return at_most_[dim] < 0 ? std::numeric_limits<int32_t>::max() : at_most_[dim];
  }

  bool InClass(const std::vector<int64_t>& extents) const {
    for (size_t d = 0; d < extents.size(); ++d) {
      if (extents[d] > Limit(d)) return false;
    }
    return true;
  }

  // Extents grow until all reads fit; nothing if they cannot, or if there would be nothing to do.
  std::optional<std::vector<int64_t>> Fit(std::vector<int64_t> extents) const {
    for (size_t d = 0; d < extents.size(); ++d) extents[d] = std::min(extents[d], Limit(d));
    for (int round = 0; round < kMostRounds && Most(extents) <= kMostElements; ++round) {
      bool fits = true;
      for (const ReadFollower& reads : reads_) {
        for (const StrayRead& stray : reads.Strays(extents)) {
          if (!Grow(stray, extents)) return std::nullopt;
          fits = false;
        }
      }
      if (fits) return Launched(extents) ? std::optional(std::move(extents)) : std::nullopt;
    }
    return std::nullopt;
  }

  // Whether compiled code is launched for such extents: without elements of an input the VM is.
  bool Launched(const std::vector<int64_t>& extents) const {
    return Outputs(extents) != 0 &&
           std::all_of(kernel_.inputs.begin(), kernel_.inputs.end(), [&](const KernelInput& input) {
             return Elements(input.dims, extents) != 0;
           });
  }

  // Elements of the greatest operand or space.
  int64_t Most(const std::vector<int64_t>& extents) const {
    int64_t most = Outputs(extents);
    for (const KernelInput& input : kernel_.inputs)
      most = std::max(most, Elements(input.dims, extents));
    for (const ReadFollower& reads : reads_)
      most = std::max(most, Elements(reads.space(), extents));
    return most;
  }

 private:
  int64_t Outputs(const std::vector<int64_t>& extents) const {
    int64_t most = 0;
    for (const KernelOutput& output : kernel_.outputs)
      most = std::max(most, Elements(output.dims, extents));
    return most;
  }

  // Gives the axis what is read beyond its end. What is read before its beginning goes by an extent
  // in the index, as in a reversal.
  bool Grow(const StrayRead& stray, std::vector<int64_t>& extents) const {
    auto dim = static_cast<size_t>(stray.dim);
    int64_t wanted = std::max(extents[dim], stray.most + 1);
    if (stray.least < 0) {
      const auto& terms = stray.index->terms;
      const auto by = std::find_if(terms.begin(), terms.end(), [](const IndexExpr::Term& term) {
        return term.extent && term.coef > 0;
      });
      if (by == terms.end()) return false;
      dim = static_cast<size_t>(by->dim);
      wanted = extents[dim] + (-stray.least * stray.index->div + by->coef - 1) / by->coef;
    }
    if (wanted > Limit(dim)) return false;
    extents[dim] = wanted;
    return true;
  }

  const Kernel& kernel_;
  std::vector<int64_t> at_most_;
  std::vector<ReadFollower> reads_;
};

// Wanted extents: `inner` in the innermost dim, the rest by `pattern` as far as there is room.
std::vector<int64_t> Spread(const Kernel& kernel, int64_t inner, int64_t room, size_t pattern) {
  static constexpr int64_t kOuter[] = {2, 3, 1, 5};
  static constexpr int64_t kSizes[] = {1, 4, 17, 2, 64};
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

std::vector<std::vector<int64_t>> WantedExtents(const Kernel& kernel, const Params& params,
                                                const Fitter& fitter) {
  const auto n = static_cast<size_t>(kernel.num_iterated());
  const int64_t lanes = params.Get("lanes", 16);
  const int64_t grain = std::clamp<int64_t>(params.Get("grain", 1), 1, kMostElements / 2);
  std::vector<std::vector<int64_t>> wanted;
  const auto add = [&](int64_t inner, int64_t room) {
    wanted.push_back(Spread(kernel, inner, room, wanted.size()));
  };
  for (const int64_t inner : {int64_t{1}, lanes - 1, lanes, lanes + 1, 2 * lanes + 3, int64_t{63},
                              int64_t{65}, int64_t{130}})
    add(inner, kUsualElements / 8);
  add(kReduceBlock + 1, kUsualElements);
  add(1000, kUsualElements);
  for (const int32_t dim : ReducedOuterDims(kernel)) {
    for (const int64_t extent : {kOuterReduceBlock + 1, int64_t{70}}) {
      add(5, 64);
      wanted.back()[static_cast<size_t>(dim)] = extent;
    }
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
void AddInPlace(const Params& params, std::vector<Probe>& probes) {
  const size_t apart = params.in_place.empty() ? 0 : probes.size();
  for (size_t k = 0; k < apart; k += 4) {
    Probe probe = probes[k];
    probe.in_place = true;
    probe.at_end = !probe.at_end;
    probes.push_back(std::move(probe));
  }
}

}  // namespace

uint64_t ProbeValue(DType type, bool specials, uint64_t& state) {
  const uint64_t random = Next(state);
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

std::vector<Probe> ProbesFor(const Kernel& kernel, const Params& params,
                             const std::vector<int64_t>& at_most) {
  const Fitter fitter(kernel, at_most);
  std::vector<Probe> probes;
  for (const std::vector<int64_t>& wanted : WantedExtents(kernel, params, fitter)) {
    const auto extents = fitter.Fit(wanted);
    const auto same = [&](const Probe& probe) { return probe.extents == *extents; };
    if (!extents.has_value() || std::count_if(probes.begin(), probes.end(), same) >= 2) continue;
    AddProbe(kernel, *extents, probes);
  }
  AddInPlace(params, probes);
  return probes;
}

std::vector<Probe> ProbesOf(const Kernel& kernel, const Params& params,
                            const std::vector<int64_t>& at_most,
                            const std::vector<int64_t>& extents, bool alone) {
  std::vector<Probe> probes;
  if (extents.size() != kernel.dims.size()) return probes;
  const Fitter fitter(kernel, at_most);
  if (!fitter.InClass(extents) || !fitter.Launched(extents) ||
      fitter.Most(extents) > (alone ? kMostAlone : kMostOfExample))
    return probes;
  for (int k = 0; k < (alone ? 4 : 2); ++k) AddProbe(kernel, extents, probes);
  AddInPlace(params, probes);
  return probes;
}

std::string Describe(const Kernel& kernel, const Probe& probe) {
  std::string text;
  for (size_t d = 0; d < kernel.dims.size(); ++d)
    absl::StrAppend(&text, d == 0 ? "" : " ", kernel.dims[d].name, "=", probe.extents[d]);
  return absl::StrCat(text, probe.specials ? " specials" : "", probe.at_end ? "" : " at-begin",
                      probe.in_place ? " in-place" : "");
}

}  // namespace kiln
