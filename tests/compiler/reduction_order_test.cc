// SPDX-License-Identifier: Apache-2.0
// The tree of a reduction is that of its operand and axes (docs/numerics.md): bits depend neither
// on what the reduction is fused with, nor on transposes and reshapes around it, nor on which
// extents are numbers, symbols or 1. The judge below shares no code with the library: it knows
// operands, axes and the published rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/compile.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/text.h"
#include "kiln/graph.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/on_vm.h"

namespace kiln {
namespace {

using Extents = std::vector<int64_t>;
using Floats = std::vector<float>;

int64_t Count(const Extents& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

// ---- The judge.

float SumOfBlock(const float* at, size_t n, bool lanes) {
  const size_t width = lanes ? 64 : 1;
  Floats acc(width, -0.0F);
  for (size_t i = 0; i < n; ++i) acc[i % width] = acc[i % width] + at[i];
  for (size_t half = width / 2; half > 0; half /= 2)
    for (size_t l = 0; l < half; ++l) acc[l] = acc[l] + acc[l + half];
  return acc[0];
}

float SumOfRow(Floats row, bool lanes) {
  if (row.empty()) return 0;
  const size_t block = lanes ? 4096 : 32;
  do {
    Floats sums;
    for (size_t i = 0; i < row.size(); i += block)
      sums.push_back(SumOfBlock(row.data() + i, std::min(block, row.size() - i), lanes));
    row = std::move(sums);
  } while (row.size() > 1);
  return row[0];
}

// The sum of `x` over `axes`: neighbouring axes are one; the last of them first.
Floats SumOver(const Floats& x, const Extents& shape, const std::vector<bool>& axes) {
  struct Segment {
    int64_t extent = 1;
    bool reduced = false, last = false;
  };
  std::vector<Segment> segments;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (k == 0 || !axes[k] || !axes[k - 1]) segments.push_back({1, axes[k], false});
    segments.back().extent *= shape[k];
    segments.back().last = k + 1 == shape.size();
  }
  Floats values = x;
  int64_t inner = 1;  // elements of what lies behind the segment and is kept
  for (size_t s = segments.size(); s-- > 0;) {
    const Segment& segment = segments[s];
    if (!segment.reduced) {
      inner *= segment.extent;
      continue;
    }
    int64_t outer = 1;
    for (size_t k = 0; k < s; ++k) outer *= segments[k].extent;
    Floats sums;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        Floats row;
        for (int64_t r = 0; r < segment.extent; ++r)
          row.push_back(values[static_cast<size_t>((o * segment.extent + r) * inner + i)]);
        sums.push_back(SumOfRow(std::move(row), segment.last));
      }
    }
    values = std::move(sums);
  }
  return values;
}

// `small`, of extents that are those of `shape` or 1, for each element of `shape`.
Floats Expanded(const Floats& small, const Extents& from, const Extents& shape) {
  Floats all;
  for (int64_t i = 0; i < Count(shape); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (size_t k = shape.size(); k-- > 0;) {
      if (from[k] != 1) at += rest % shape[k] * stride;
      stride *= from[k];
      rest /= shape[k];
    }
    all.push_back(small[static_cast<size_t>(at)]);
  }
  return all;
}

Floats Transposed(const Floats& x, const Extents& shape, const std::vector<size_t>& order) {
  Extents strides(shape.size(), 1);
  for (size_t k = shape.size(); k-- > 1;) strides[k - 1] = strides[k] * shape[k];
  Floats all;
  for (int64_t i = 0; i < Count(shape); ++i) {
    int64_t rest = i, at = 0;
    for (size_t k = order.size(); k-- > 0;) {
      at += rest % shape[order[k]] * strides[order[k]];
      rest /= shape[order[k]];
    }
    all.push_back(x[static_cast<size_t>(at)]);
  }
  return all;
}

// ---- Random programs:  operand = view(x) [* scale];  r = reduce(operand);
//                        y = [reshape](operand - r) [* factor]

struct Case {
  Extents given;              // of input x
  std::vector<size_t> order;  // the operand is x transposed so; empty: as it is
  Extents shape;              // of the operand; reshaped from x if not transposed
  std::vector<bool> axes;     // reduced
  bool mean = false;
  std::optional<Extents> scale;   // broadcasts to `shape`
  Extents result;                 // shape of y, elements as in `shape`
  std::optional<Extents> factor;  // broadcasts to `result`
  bool scale_after = false;       // y reads it too
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Case Draw() {
    Case c;
    const size_t rank = 1 + Below(5);
    while (true) {
      c.shape.clear();
      for (size_t k = 0; k < rank; ++k) c.shape.push_back(Extent());
      if (Count(c.shape) <= 20000) break;
    }
    for (size_t k = 0; k < rank; ++k) c.axes.push_back(Below(2) == 0);
    c.axes[Below(rank)] = true;
    c.mean = Below(2) == 0;
    switch (Below(3)) {
      case 0:
        c.given = c.shape;
        break;
      case 1: {
        c.order.resize(rank);
        std::iota(c.order.begin(), c.order.end(), size_t{0});
        std::shuffle(c.order.begin(), c.order.end(), random_);
        c.given.resize(rank);
        for (size_t k = 0; k < rank; ++k) c.given[c.order[k]] = c.shape[k];
        break;
      }
      default:
        c.given = Regrouped(c.shape);
    }
    if (Below(2) == 0) c.scale = Broadcast(c.shape);
    c.result = Below(2) == 0 ? c.shape : Regrouped(c.shape);
    if (Below(2) == 0) c.factor = Broadcast(c.result);
    return c;
  }

  Floats Values(int64_t count) {
    Floats values;
    for (int64_t i = 0; i < count; ++i) {
      const auto bits = static_cast<uint32_t>(random_());
      const float unit = static_cast<float>(bits >> 8) * 0x1p-23F - 1;
      values.push_back(bits % 13 == 0 ? -0.0F : std::ldexp(unit, static_cast<int>(bits % 9) - 4));
    }
    return values;
  }

  uint64_t Below(uint64_t n) { return random_() % n; }

 private:
  int64_t Extent() {
    constexpr int64_t kExtents[] = {1,  1,  1,  2,  3,  4,  5,   7,   8,
                                    16, 31, 33, 48, 64, 65, 100, 130, 333};
    return kExtents[Below(std::size(kExtents))];
  }

  // The same elements, with extents split in two, and neighbours merged.
  Extents Regrouped(const Extents& shape) {
    Extents out;
    for (const int64_t extent : shape) {
      const int64_t divisor = std::gcd(extent, int64_t{1} << Below(4));
      if (divisor > 1 && divisor < extent && Below(2) == 0) {
        out.push_back(extent / divisor);
        out.push_back(divisor);
      } else if (!out.empty() && Below(4) == 0) {
        out.back() *= extent;
      } else {
        out.push_back(extent);
      }
    }
    return out;
  }

  Extents Broadcast(const Extents& shape) {
    Extents out = shape;
    for (int64_t& extent : out) extent = Below(3) == 0 ? extent : 1;
    return out;
  }

  std::mt19937_64 random_;
};

std::string Describe(const Case& c) {
  const auto list = [](const auto& values) {
    return absl::StrCat("[", absl::StrJoin(values, ","), "]");
  };
  return absl::StrCat("x ", list(c.given), " order ", list(c.order), " operand ", list(c.shape),
                      " axes ", list(c.axes), c.mean ? " mean" : " sum", " scale ",
                      c.scale ? list(*c.scale) : "none", " result ", list(c.result), " factor ",
                      c.factor ? list(*c.factor) : "none");
}

// Results r, y.
struct Results {
  Floats r, y;
};

Results Judge(const Case& c, const Floats& x, const Floats& scale, const Floats& factor) {
  Floats operand = c.order.empty() ? x : Transposed(x, c.given, c.order);
  if (c.scale) {
    const Floats each = Expanded(scale, *c.scale, c.shape);
    for (size_t i = 0; i < operand.size(); ++i) operand[i] = operand[i] * each[i];
  }
  Results results{SumOver(operand, c.shape, c.axes), {}};
  Extents kept = c.shape;
  for (size_t k = 0; k < kept.size(); ++k) kept[k] = c.axes[k] ? 1 : kept[k];
  if (c.mean) {
    const auto count = static_cast<float>(Count(c.shape) / Count(kept));
    for (float& value : results.r) value = value / count;
  }
  const Floats each = Expanded(results.r, kept, c.shape);
  for (size_t i = 0; i < operand.size(); ++i) results.y.push_back(operand[i] - each[i]);
  if (c.factor) {
    const Floats by = Expanded(factor, *c.factor, c.result);
    for (size_t i = 0; i < operand.size(); ++i) results.y[i] = results.y[i] * by[i];
  }
  return results;
}

// Numbers where `symbols` is not set: extents of operand axes are else named by axis.
class Program {
 public:
  Program(const Case& c, uint64_t symbols) : c_(c), symbols_(symbols) {}

  absl::StatusOr<Graph> Build() {
    GraphBuilder b("reduction");
    Shape shape;
    for (size_t k = 0; k < c_.shape.size(); ++k) {
      const bool symbol = (symbols_ >> k & 1) != 0;
      shape.push_back(symbol ? Dim::Symbol(absl::StrCat("n", k)) : Dim(c_.shape[k]));
    }
    ValueId operand;
    if (c_.order.empty()) {
      operand = b.Input("x", DType::kF32, Named(c_.given, shape));
      if (c_.given != c_.shape) operand = Reshape(b, operand, shape);
    } else {
      Shape given(shape.size());
      std::vector<int64_t> perm;
      for (size_t k = 0; k < shape.size(); ++k) {
        given[c_.order[k]] = shape[k];
        perm.push_back(static_cast<int64_t>(c_.order[k]));
      }
      operand = b.Op("transpose", {b.Input("x", DType::kF32, given)}, {{"perm", perm}});
    }
    if (c_.scale) {
      Shape of = shape;
      for (size_t k = 0; k < of.size(); ++k) of[k] = (*c_.scale)[k] == 1 ? Dim(1) : of[k];
      operand = b.Op("mul", {operand, b.Input("scale", DType::kF32, of)});
    }
    std::vector<int64_t> axes;
    for (size_t k = 0; k < c_.axes.size(); ++k)
      if (c_.axes[k]) axes.push_back(static_cast<int64_t>(k));
    const ValueId r = b.Op(c_.mean ? "reduce_mean" : "reduce_sum", {operand}, {{"axes", axes}});
    ValueId y = b.Op("sub", {operand, r});
    const Shape result = Named(c_.result, shape);
    if (c_.result != c_.shape) y = Reshape(b, y, result);
    if (c_.factor) {
      Shape of = result;
      for (size_t k = 0; k < of.size(); ++k) of[k] = (*c_.factor)[k] == 1 ? Dim(1) : of[k];
      y = b.Op("mul", {y, b.Input("factor", DType::kF32, of)});
    }
    b.Output(r, "r");
    b.Output(y, "y");
    return std::move(b).Finish();
  }

 private:
  static ValueId Reshape(GraphBuilder& b, ValueId value, const Shape& shape) {
    return b.Op("reshape", {value}, {{"shape", DimsValue(shape)}, {"allowzero", int64_t{1}}});
  }

  // Extents of a regrouping of the operand's axes, whose symbols must then be numbers but for axes
  // that it leaves alone.
  Shape Named(const Extents& extents, const Shape& shape) const {
    if (extents == c_.shape) return shape;
    Shape named(extents.begin(), extents.end());
    for (size_t k = 0; k < shape.size() && k < extents.size() && extents[k] == c_.shape[k]; ++k)
      named[k] = shape[k];
    return named;
  }

  const Case& c_;
  uint64_t symbols_;
};

// Symbols may stand for leading axes that no reshape touches, or for all axes.
uint64_t AllowedSymbols(const Case& c) {
  uint64_t allowed = 0;
  for (size_t k = 0; k < c.shape.size(); ++k) {
    const auto same = [&](const Extents& other) {
      if (other == c.shape) return true;
      return k < other.size() &&
             std::equal(c.shape.begin(), c.shape.begin() + static_cast<std::ptrdiff_t>(k) + 1,
                        other.begin());
    };
    const bool given = !c.order.empty() || same(c.given);
    if (given && same(c.result)) allowed |= uint64_t{1} << k;
  }
  return allowed;
}

Tensor TensorOf(const Floats& values, const Extents& shape) {
  Tensor tensor = Tensor::Allocate(DType::kF32, shape);
  std::memcpy(tensor.data(), values.data(), values.size() * sizeof(float));
  return tensor;
}

std::string Difference(const Floats& want, const Tensor& got, const char* name) {
  const auto* values = static_cast<const float*>(got.data());
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::bit_cast<uint32_t>(want[i]) == std::bit_cast<uint32_t>(values[i])) continue;
    return absl::StrCat(name, "[", i, "] is ", values[i], ", the rule gives ", want[i]);
  }
  return "";
}

std::string Check(const Case& c, Generator& random) {
  const Floats x = random.Values(Count(c.given));
  const Floats scale = random.Values(c.scale ? Count(*c.scale) : 0);
  const Floats factor = random.Values(c.factor ? Count(*c.factor) : 0);
  std::vector<std::pair<std::string, Tensor>> inputs = {{"x", TensorOf(x, c.given)}};
  if (c.scale) inputs.emplace_back("scale", TensorOf(scale, *c.scale));
  if (c.factor) inputs.emplace_back("factor", TensorOf(factor, *c.factor));
  const Results want = Judge(c, x, scale, factor);
  const uint64_t allowed = AllowedSymbols(c);
  for (const uint64_t symbols : {uint64_t{0}, allowed, allowed & random.Below(32)}) {
    absl::StatusOr<Graph> graph = Program(c, symbols).Build();
    if (!graph.ok()) return std::string(graph.status().message());
    for (const int level : {0, 3}) {
      CompileOptions options = OnVm();
      options.graph_opt_level = level;
      absl::StatusOr<Model> model = Compile(*graph, options);
      if (!model.ok()) return std::string(model.status().message());
      const absl::StatusOr<std::vector<Tensor>> got = model->Run(inputs);
      if (!got.ok()) return std::string(got.status().message());
      std::string error = Difference(want.r, (*got)[0], "r");
      if (error.empty()) error = Difference(want.y, (*got)[1], "y");
      if (!error.empty()) return absl::StrCat("symbols ", symbols, " -O", level, ": ", error);
    }
  }
  return "";
}

TEST(ReductionOrder, IsThatOfTheOperandAndItsAxes) {
  const uint64_t count = FromEnvironment("KILN_RANDOM_REDUCTIONS", 400);
  const uint64_t first = FromEnvironment("KILN_SEED", 1);
  int wrong = 0;
  for (uint64_t seed = first; seed < first + count && wrong < 10; ++seed) {
    Generator random(seed);
    const Case c = random.Draw();
    const std::string error = Check(c, random);
    EXPECT_EQ(error, "") << "seed " << seed << ": " << Describe(c) << " (failure " << ++wrong
                         << ")";
  }
}

// A judge that cannot find a difference is none.
TEST(ReductionOrder, JudgeSeesAnotherTree) {
  Generator random(5);
  const Floats x = random.Values(4 * 300);
  const Floats rows = SumOver(x, {4, 300, 1}, {false, true, false});
  const Floats lanes = SumOver(x, {4, 300}, {false, true});
  EXPECT_NE(rows, lanes);
  EXPECT_NE(SumOver(x, {4, 30, 1, 10}, {false, true, false, true}), lanes);
  EXPECT_EQ(SumOver(x, {4, 30, 10}, {false, true, true}), lanes);
}

}  // namespace
}  // namespace kiln
