// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/grouped_loads.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "halide_gen/cpu/picked_lanes.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Add;
using Halide::Internal::Broadcast;
using Halide::Internal::Call;
using Halide::Internal::Div;
using Halide::Internal::Load;
using Halide::Internal::Mod;
using Halide::Internal::Mul;
using Halide::Internal::Ramp;
using Halide::Internal::Shuffle;
using Halide::Internal::Sub;
using Halide::Internal::Variable;

using PerLane = std::vector<int64_t>;

constexpr int kVectorBits = 512;  // of what a shuffle makes

bool IsUniform(const PerLane& lanes) {
  return std::all_of(lanes.begin(), lanes.end(), [&](int64_t of) { return of == lanes[0]; });
}

// An index: in each lane a constant, and scalars times constants.
struct Sum {
  PerLane constant;
  std::map<Expr, PerLane, Halide::Internal::IRDeepCompare> terms;

  bool IsConstant() const { return terms.empty(); }
  bool IsTheSame() const {
    return IsUniform(constant) && std::all_of(terms.begin(), terms.end(), [](const auto& term) {
             return IsUniform(term.second);
           });
  }
  // The value in a lane, plus `more`.
  Expr At(size_t lane, int64_t more = 0) const {
    Expr sum = static_cast<int32_t>(constant[lane] + more);
    for (const auto& [scalar, factors] : terms)
      if (factors[lane] != 0) sum = scalar * static_cast<int32_t>(factors[lane]) + sum;
    return sum;
  }
};

using MaybeSum = std::optional<Sum>;

Sum ScalarTimes(const Expr& scalar, PerLane factors) {
  return {PerLane(factors.size(), 0), {{scalar, std::move(factors)}}};
}

// The lanes again and again, `times` in all.
Sum Repeated(Sum sum, size_t times) {
  const auto repeat = [times](PerLane& lanes) {
    const PerLane once = lanes;
    for (size_t i = 1; i < times; ++i) lanes.insert(lanes.end(), once.begin(), once.end());
  };
  repeat(sum.constant);
  for (auto& term : sum.terms) repeat(term.second);
  return sum;
}

void Append(Sum& sum, const Sum& more) {
  const size_t before = sum.constant.size(), after = before + more.constant.size();
  sum.constant.insert(sum.constant.end(), more.constant.begin(), more.constant.end());
  for (const auto& [scalar, factors] : more.terms) {
    PerLane& all = sum.terms.emplace(scalar, PerLane(before, 0)).first->second;
    all.insert(all.end(), factors.begin(), factors.end());
  }
  for (auto& term : sum.terms) term.second.resize(after, 0);
}

Sum Picked(const Sum& sum, const std::vector<int>& lanes) {
  const auto pick = [&lanes](const PerLane& of) {
    PerLane picked;
    for (const int lane : lanes) picked.push_back(of[static_cast<size_t>(lane)]);
    return picked;
  };
  Sum picked{pick(sum.constant), {}};
  for (const auto& [scalar, factors] : sum.terms) picked.terms[scalar] = pick(factors);
  return picked;
}

template <typename Fn>
PerLane Zipped(PerLane a, const PerLane& b, Fn&& fn) {
  std::transform(a.begin(), a.end(), b.begin(), a.begin(), fn);
  return a;
}

Sum Added(Sum a, const Sum& b, int64_t times) {
  const auto add = [times](int64_t x, int64_t y) { return x + times * y; };
  a.constant = Zipped(a.constant, b.constant, add);
  for (const auto& [scalar, factors] : b.terms) {
    const auto term = a.terms.emplace(scalar, PerLane(factors.size(), 0)).first;
    term->second = Zipped(term->second, factors, add);
  }
  return a;
}

MaybeSum Multiplied(const Sum& a, const Sum& b) {
  if (!a.IsConstant() && !b.IsConstant()) {
    if (!a.IsTheSame()) return b.IsTheSame() ? Multiplied(b, a) : MaybeSum();
    const Expr by = a.At(0);
    Sum product = ScalarTimes(by, b.constant);
    for (const auto& [scalar, factors] : b.terms)
      product = Added(product, ScalarTimes(scalar * by, factors), 1);
    return product;
  }
  if (!a.IsConstant()) return Multiplied(b, a);
  const auto times = std::multiplies<>();
  Sum product{Zipped(b.constant, a.constant, times), {}};
  for (const auto& [scalar, factors] : b.terms)
    product.terms[scalar] = Zipped(factors, a.constant, times);
  return product;
}

// fn(a, b) of constants, b positive.
template <typename Fn>
MaybeSum Divided(const Sum& a, const Sum& b, Fn&& fn) {
  const bool positive =
      std::all_of(b.constant.begin(), b.constant.end(), [](int64_t of) { return of > 0; });
  if (!a.IsConstant() || !b.IsConstant() || !positive) return std::nullopt;
  return Sum{Zipped(a.constant, b.constant, fn), {}};
}

int64_t Quotient(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
int64_t Remainder(int64_t a, int64_t b) { return a - Quotient(a, b) * b; }
int64_t PowerOfTwo(int64_t of) { return int64_t{1} << std::clamp<int64_t>(of, 0, 31); }

// Nothing if a vector is not such a sum, as far as it is looked at.
class SumOf {
 public:
  using Names = std::function<Expr(Expr)>;  // the vector that a name stands for
  explicit SumOf(const Names& named) : named_(named) {}

  MaybeSum operator()(const Expr& named) const {
    const Expr index = named_(named);
    const MaybeSum sum = Split(index);
    return !sum && index.type().is_scalar() ? ScalarTimes(index, {1}) : sum;
  }

 private:
  MaybeSum Split(const Expr& index) const {
    if (const auto* ramp = index.as<Ramp>()) return OfRamp(*ramp);
    if (const auto* same = index.as<Broadcast>()) {
      const MaybeSum sum = (*this)(same->value);
      return sum ? Repeated(*sum, static_cast<size_t>(same->lanes)) : MaybeSum();
    }
    if (const auto* sum = index.as<Add>())
      return Both(sum->a, sum->b, [](Sum a, const Sum& b) { return Added(std::move(a), b, 1); });
    if (const auto* sum = index.as<Sub>())
      return Both(sum->a, sum->b, [](Sum a, const Sum& b) { return Added(std::move(a), b, -1); });
    if (const auto* product = index.as<Mul>()) return Both(product->a, product->b, Multiplied);
    if (const auto* ratio = index.as<Div>()) return OfConstants(ratio->a, ratio->b, Quotient);
    if (const auto* ratio = index.as<Mod>()) return OfConstants(ratio->a, ratio->b, Remainder);
    if (const auto* call = index.as<Call>()) return OfIntrinsic(*call);
    if (const auto* shuffle = index.as<Shuffle>()) return OfShuffle(*shuffle);
    if (const auto known = Halide::Internal::as_const_int(index)) return Sum{{*known}, {}};
    if (const auto known = Halide::Internal::as_const_uint(index))
      return Sum{{static_cast<int64_t>(*known)}, {}};
    return std::nullopt;
  }

  template <typename Fn>
  MaybeSum Both(const Expr& a, const Expr& b, Fn&& fn) const {
    const MaybeSum first = (*this)(a), second = (*this)(b);
    return first && second ? fn(*first, *second) : MaybeSum();
  }

  MaybeSum OfConstants(const Expr& a, const Expr& b, int64_t (*fn)(int64_t, int64_t)) const {
    return Both(a, b, [fn](const Sum& x, const Sum& y) { return Divided(x, y, fn); });
  }

  // Of vectors, each lane of which is the first of a row of lanes, if any.
  MaybeSum OfRamp(const Ramp& ramp) const {
    const MaybeSum base = (*this)(ramp.base), stride = (*this)(ramp.stride);
    if (!base || !stride) return std::nullopt;
    const size_t rows = base->constant.size(), steps = static_cast<size_t>(ramp.lanes);
    PerLane step(rows * steps);
    for (size_t lane = 0; lane < step.size(); ++lane)
      step[lane] = static_cast<int64_t>(lane / rows);
    const MaybeSum apart = Multiplied(Repeated(*stride, steps), Sum{step, {}});
    return Added(Repeated(*base, steps), *apart, 1);
  }

  MaybeSum OfShuffle(const Shuffle& shuffle) const {
    MaybeSum all = Sum{};
    for (const Expr& vector : shuffle.vectors) {
      const MaybeSum part = (*this)(vector);
      if (!part) return std::nullopt;
      Append(*all, *part);
    }
    return Picked(*all, shuffle.indices);
  }

  // What lowering makes of arithmetic with constants.
  MaybeSum OfIntrinsic(const Call& call) const {
    if (call.args.size() != 2) return std::nullopt;
    const Expr &a = call.args[0], &b = call.args[1];
    const auto by = [](const Sum& x, const Sum& y, auto&& fn) {
      if (!y.IsConstant()) return MaybeSum();
      Sum powers = y;
      for (int64_t& bits : powers.constant) bits = PowerOfTwo(bits);
      return fn(x, powers);
    };
    if (call.is_intrinsic(Call::widen_right_add))
      return Both(a, b, [](Sum x, const Sum& y) { return Added(std::move(x), y, 1); });
    if (call.is_intrinsic(Call::widen_right_sub))
      return Both(a, b, [](Sum x, const Sum& y) { return Added(std::move(x), y, -1); });
    if (call.is_intrinsic(Call::widen_right_mul)) return Both(a, b, Multiplied);
    if (call.is_intrinsic(Call::shift_left))
      return Both(a, b, [&](const Sum& x, const Sum& y) { return by(x, y, Multiplied); });
    if (call.is_intrinsic(Call::shift_right)) {
      return Both(a, b, [&](const Sum& x, const Sum& y) {
        return by(x, y, [](const Sum& of, const Sum& to) { return Divided(of, to, Quotient); });
      });
    }
    return std::nullopt;
  }

  const Names& named_;
};

// Lanes whose places differ by constants, as known of `place`.
std::vector<std::vector<size_t>> Groups(const Sum& place) {
  std::map<PerLane, std::vector<size_t>> groups;  // by the factors of all scalars
  for (size_t lane = 0; lane < place.constant.size(); ++lane) {
    PerLane factors;
    for (const auto& term : place.terms) factors.push_back(term.second[lane]);
    groups[factors].push_back(lane);
  }
  std::vector<std::vector<size_t>> all;
  for (auto& group : groups) all.push_back(std::move(group.second));
  std::sort(all.begin(), all.end());
  return all;
}

// Dense vectors with all that is loaded, and where each lane is there.
struct Pieces {
  std::vector<Expr> loads;
  std::vector<PickedLane> lanes;  // of the loads
};

// Those of a group: vectors of a power of two of elements, up to `most`, which may overlap.
void AddPieces(const Load& load, const Sum& place, std::vector<size_t> group, int64_t most,
               Pieces& pieces) {
  const auto at = [&](size_t lane) { return place.constant[lane]; };
  std::stable_sort(group.begin(), group.end(), [&](size_t a, size_t b) { return at(a) < at(b); });
  const int64_t last = at(group.back());
  const auto whole = static_cast<uint64_t>(std::min(most, last - at(group.front()) + 1));
  const int width = static_cast<int>(std::bit_floor(whole));
  for (size_t next = 0; next < group.size();) {
    const size_t first = group[next];
    const int64_t begin = std::min(at(first), last - width + 1);
    const Expr base = place.At(first, begin - at(first));
    for (; next < group.size() && at(group[next]) < begin + width; ++next)
      pieces.lanes[group[next]] = {pieces.loads.size(), static_cast<int>(at(group[next]) - begin)};
    pieces.loads.push_back(Load::make(load.type.with_lanes(width), load.name,
                                      width == 1 ? base : Ramp::make(base, 1, width), load.image,
                                      load.param, Halide::Internal::const_true(width), {}));
  }
}

// The lanes of `load` at `place`; undefined if loads of groups save little.
Expr InGroups(const Load& load, const Sum& place) {
  constexpr size_t kLoads = 3, kLanes = 4;  // more loads for the lanes are as good as one for each
  const size_t lanes = place.constant.size();
  const auto most = static_cast<size_t>(kVectorBits / load.type.bits());
  Pieces pieces{{}, std::vector<PickedLane>(lanes)};
  for (const std::vector<size_t>& group : Groups(place))
    AddPieces(load, place, group, static_cast<int64_t>(most), pieces);
  if (pieces.loads.size() * kLanes > lanes * kLoads) return Expr();
  std::vector<Expr> parts;
  for (auto lane = pieces.lanes.begin(); lane != pieces.lanes.end();) {
    const auto left = static_cast<size_t>(pieces.lanes.end() - lane);
    const auto end = lane + static_cast<std::ptrdiff_t>(std::min(most, left));
    parts.push_back(PickLanes(pieces.loads, {lane, end}));
    lane = end;
  }
  return parts.size() == 1 ? parts[0] : Shuffle::make_concat(parts);
}

}  // namespace

Expr GroupedLoads::visit(const Load* op) {
  const Expr index = Unnamed(op->index);
  const bool others = op->index.type().element_of() != Halide::Int(32) ||
                      index.type().is_scalar() || index.as<Ramp>() != nullptr ||
                      index.as<Broadcast>() != nullptr ||
                      !Halide::Internal::is_const_one(op->predicate);
  if (others) return MaskReader::visit(op);
  const SumOf::Names named = [this](Expr name) { return Unnamed(std::move(name)); };
  const MaybeSum place = SumOf(named)(index);
  const Expr loads = place ? InGroups(*op, *place) : Expr();
  return loads.defined() ? loads : MaskReader::visit(op);
}

// Of one load, longer than vectors.
Expr GroupedLoads::visit(const Shuffle* op) {
  const auto* load = op->vectors[0].as<Load>();
  const bool one = load != nullptr && op->vectors.size() == 1 &&
                   load->index.type().element_of() == Halide::Int(32) &&
                   op->type.bits() * op->type.lanes() > kVectorBits &&
                   Halide::Internal::is_const_one(load->predicate);
  if (!one) return MaskReader::visit(op);
  const SumOf::Names named = [this](Expr name) { return Unnamed(std::move(name)); };
  const MaybeSum place = SumOf(named)(Shuffle::make({load->index}, op->indices));
  const Expr loads = place ? InGroups(*load, *place) : Expr();
  return loads.defined() ? loads : MaskReader::visit(op);
}

}  // namespace kiln
