// SPDX-License-Identifier: Apache-2.0
#include "exec/validate/probe_fit.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernel/operands.h"

namespace kiln {
namespace {

constexpr int64_t kManyElements = int64_t{1} << 40;  // correctness: more are not told apart
constexpr int64_t kMostSteps = 1 << 14;  // compile time: coordinates of which reads are followed
constexpr int kMostRounds = 64;          // compile time

// The dims over which each expression of Expressions() is evaluated.
std::vector<std::vector<int32_t>> Spaces(const Kernel& kernel) {
  std::vector<std::vector<int32_t>> spaces;
  for (const Stage& stage : kernel.stages) {
    spaces.push_back(stage.dims);
    spaces.back().insert(spaces.back().end(), stage.over.begin(), stage.over.end());
  }
  for (const KernelOutput& output : kernel.outputs) spaces.push_back(LoopDims(kernel, output));
  return spaces;
}

int64_t Elements(const std::vector<int32_t>& dims, const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int32_t dim : dims) {
    const int64_t extent = extents[static_cast<size_t>(dim)];
    if (extent == 0) return 0;
    count = count > kManyElements / extent ? kManyElements : count * extent;
  }
  return count;
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

uint64_t NextRandom(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

ProbeFitter::ProbeFitter(const Kernel& kernel, std::vector<int64_t> at_most)
    : kernel_(kernel), at_most_(std::move(at_most)) {
  const std::vector<const ScalarExpr*> exprs = Expressions(kernel);
  std::vector<std::vector<int32_t>> spaces = Spaces(kernel);
  for (size_t e = 0; e < exprs.size(); ++e)
    reads_.emplace_back(kernel, *exprs[e], std::move(spaces[e]));
  at_most_.resize(kernel.dims.size(), -1);
}

int64_t ProbeFitter::Limit(size_t dim) const {
  return at_most_[dim] < 0 ? std::numeric_limits<int32_t>::max() : at_most_[dim];
}

bool ProbeFitter::InClass(const std::vector<int64_t>& extents) const {
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] > Limit(d)) return false;
  }
  return true;
}

int64_t ProbeFitter::Outputs(const std::vector<int64_t>& extents) const {
  int64_t most = 0;
  for (const KernelOutput& output : kernel_.outputs)
    most = std::max(most, Elements(output.dims, extents));
  return most;
}

bool ProbeFitter::Launched(const std::vector<int64_t>& extents) const {
  return Outputs(extents) != 0 && !ReducesNothing(kernel_, extents) &&
         std::all_of(kernel_.inputs.begin(), kernel_.inputs.end(),
                     [&](const KernelInput& input) { return Elements(input.dims, extents) != 0; });
}

int64_t ProbeFitter::Most(const std::vector<int64_t>& extents) const {
  int64_t most = Outputs(extents);
  for (const KernelInput& input : kernel_.inputs)
    most = std::max(most, Elements(input.dims, extents));
  for (const ReadFollower& reads : reads_) most = std::max(most, Elements(reads.space(), extents));
  return most;
}

bool ProbeFitter::IsSmall(const std::vector<int64_t>& extents, int64_t most) const {
  if (Most(extents) > most) return false;
  return std::all_of(reads_.begin(), reads_.end(), [&](const ReadFollower& reads) {
    return Elements(reads.walked(), extents) <= kMostSteps;
  });
}

std::vector<StrayRead> ProbeFitter::Strays(const std::vector<int64_t>& extents) const {
  std::vector<StrayRead> all;
  for (const ReadFollower& reads : reads_) {
    for (const StrayRead& stray : reads.Strays(extents)) all.push_back(stray);
  }
  return all;
}

// Gives the axis what is read beyond its end. What is read before its beginning goes by an extent
// in the index, as in a reversal.
bool ProbeFitter::Grow(const StrayRead& stray, std::vector<int64_t>& extents) const {
  auto dim = static_cast<size_t>(stray.dim);
  int64_t wanted = std::max(extents[dim], stray.most + 1);
  if (stray.least < 0) {
    const auto& terms = stray.index->terms;
    const auto by = std::find_if(terms.begin(), terms.end(), [](const IndexExpr::Term& term) {
      return term.extent && term.coef > 0;
    });
    if (by == terms.end()) return false;
    dim = static_cast<size_t>(by->dim);
    wanted = extents[dim] + CeilDiv(-stray.least * stray.index->div, by->coef);
  }
  if (wanted > Limit(dim)) return false;
  extents[dim] = wanted;
  return true;
}

std::optional<std::vector<int64_t>> ProbeFitter::Fit(std::vector<int64_t> extents,
                                                     int64_t most) const {
  for (size_t d = 0; d < extents.size(); ++d) extents[d] = std::min(extents[d], Limit(d));
  for (int round = 0; round < kMostRounds && IsSmall(extents, most); ++round) {
    const std::vector<StrayRead> strays = Strays(extents);
    if (strays.empty()) return Launched(extents) ? std::optional(std::move(extents)) : std::nullopt;
    for (const StrayRead& stray : strays) {
      if (!Grow(stray, extents)) return std::nullopt;
    }
  }
  return std::nullopt;
}

std::vector<ProbeFitter::Move> ProbeFitter::Moves(const StrayRead& stray,
                                                  const std::vector<int64_t>& extents) const {
  std::vector<Move> moves;
  const auto axis = static_cast<size_t>(stray.dim);
  const auto add = [&](size_t dim, int64_t to) {
    to = std::clamp<int64_t>(to, std::min<int64_t>(1, extents[dim]), Limit(dim));
    if (to != extents[dim]) moves.push_back({dim, to});
  };
  const int64_t above = (stray.most - extents[axis] + 1) * stray.index->div;
  const int64_t below = -stray.least * stray.index->div;
  if (above > 0) add(axis, stray.most + 1);
  for (const IndexExpr::Term& term : stray.index->terms) {
    const auto dim = static_cast<size_t>(term.dim);
    const int64_t coef = std::abs(term.coef);
    if (coef == 0) continue;
    const bool up = term.coef > 0;  // a greater extent gives a greater index
    if (above > 0 && (up || term.extent))
      add(dim, extents[dim] + (up ? -1 : 1) * CeilDiv(above, coef));
    if (below > 0 && (!up || term.extent))
      add(dim, extents[dim] + (up ? 1 : -1) * CeilDiv(below, coef));
  }
  return moves;
}

std::optional<std::vector<int64_t>> ProbeFitter::FitFreely(std::vector<int64_t> extents,
                                                           uint64_t seed) const {
  for (size_t d = 0; d < extents.size(); ++d) extents[d] = std::min(extents[d], Limit(d));
  for (int round = 0; round < kMostRounds && IsSmall(extents, kMostElements); ++round) {
    const std::vector<StrayRead> strays = Strays(extents);
    if (strays.empty() && Launched(extents)) return extents;
    if (strays.empty()) {
      // Of an empty operand or output something has to grow.
      const size_t dim = NextRandom(seed) % extents.size();
      if (extents[dim] == 0 && Limit(dim) > 0) extents[dim] = 1;
      continue;
    }
    const std::vector<Move> moves = Moves(strays[NextRandom(seed) % strays.size()], extents);
    if (moves.empty()) return std::nullopt;
    const Move& move = moves[NextRandom(seed) % moves.size()];
    extents[move.dim] = move.to;
  }
  return std::nullopt;
}

}  // namespace kiln
