// SPDX-License-Identifier: Apache-2.0
#include "tests/trace/hazard_changes.h"

#include <algorithm>
#include <memory>

namespace kiln::hazards {
namespace {

// A step for which `wanted` holds.
template <typename F>
RandomStep* Pick(Host& host, Random& random, F wanted) {
  std::vector<RandomStep*> found;
  for (RandomStep& step : host.f.steps)
    if (wanted(step)) found.push_back(&step);
  return found.empty() ? nullptr : found[Below(random, found.size())];
}

bool TakesNumber(const RandomStep& step) { return step.operands.back() == -1; }
bool JoinsTwo(const RandomStep& step) {
  return step.operands.size() == 2 && step.operands[1] >= 0 &&
         step.operands[0] != step.operands[1] && !step.forgets;
}

// As wide as kArgument and kCaptured are, so that one may stand for the other.
template <size_t kOne, size_t kOther>
bool Alike(const Host& host) {
  return host.f.inputs[kOne] == host.f.inputs[kOther];
}

const Device kGpu = {DeviceKind::kCuda, 0};
Tensor OnGpu(const Tensor& tensor) {
  return Tensor::View(tensor.data(), tensor.dtype(), tensor.shape(), {},
                      std::make_shared<Tensor>(tensor), kGpu);
}

int64_t Rows(Random& random) { return 2 + static_cast<int64_t>(Below(random, 4)); }
int64_t Columns(Random& random) { return 2 + static_cast<int64_t>(Below(random, 40)); }
Shapes Reversed(Shapes shapes) {
  std::reverse(shapes.begin(), shapes.end());
  return shapes;
}
}  // namespace

// ---- Operations.

bool ChangeNumber(Host& host, Random& random) {
  RandomStep* const step = Pick(host, random, TakesNumber);
  if (step == nullptr) return false;
  step->number += 0.375;
  return true;
}

bool ChangeOperator(Host& host, Random& random) {
  RandomStep* const step = Pick(host, random, [](const RandomStep& s) {
    return s.operands.size() == 1 && s.attrs.empty() && s.op != "transpose";
  });
  if (step == nullptr) return false;
  step->op = step->op == "abs" ? "neg" : "abs";
  return true;
}

bool ChangeAttributes(Host& host, Random& random) {
  RandomStep* const step =
      Pick(host, random, [](const RandomStep& s) { return s.op == "reduce_sum"; });
  if (step == nullptr) return false;
  auto& axes = std::get<std::vector<int64_t>>(step->attrs.at("axes"));
  axes[0] = axes[0] == 0 ? -1 : 0;
  return true;
}

bool SwapOperands(Host& host, Random& random) {
  RandomStep* const step = Pick(host, random, JoinsTwo);
  if (step == nullptr) return false;
  std::swap(step->operands[0], step->operands[1]);
  return true;
}

bool ArrayBecomesNumber(Host& host, Random& random) {
  RandomStep* const step = Pick(host, random, JoinsTwo);
  if (step == nullptr) return false;
  step->operands[1] = -1;
  return true;
}

bool NumberBecomesArray(Host& host, Random& random) {
  RandomStep* const step =
      Pick(host, random, [](const RandomStep& s) { return TakesNumber(s) && !s.forgets; });
  if (step == nullptr) return false;
  step->operands.back() = step->operands[0];
  return true;
}

// Two steps of which neither needs the other, or what the other lets go, change places.
bool SwapSteps(Host& host, Random& random) {
  std::vector<RandomStep>& steps = host.f.steps;
  const int inputs = static_cast<int>(host.f.inputs.size());
  std::vector<size_t> places;
  for (size_t k = 0; k + 1 < steps.size(); ++k) {
    const auto& next = steps[k + 1].operands;
    const bool needs =
        std::find(next.begin(), next.end(), inputs + static_cast<int>(k)) != next.end();
    if (!needs && !steps[k].forgets && !steps[k + 1].forgets && !steps[k].reads &&
        !steps[k + 1].reads && steps[k].op != steps[k + 1].op)
      places.push_back(k);
  }
  if (places.empty()) return false;
  const size_t k = places[Below(random, places.size())];
  std::swap(steps[k], steps[k + 1]);
  const int first = inputs + static_cast<int>(k);
  const auto renumber = [first](int& v) {
    v = v == first ? first + 1 : v == first + 1 ? first : v;
  };
  for (size_t j = k + 2; j < steps.size(); ++j)
    for (int& v : steps[j].operands) renumber(v);
  for (int& v : host.f.results) renumber(v);
  return true;
}

bool MoreOperations(Host& host, Random&) {
  host.f.steps.push_back({.op = "abs", .operands = {NumValues(host) - 1}});
  return true;
}

bool FewerOperations(Host& host, Random&) {
  const int last = NumValues(host) - 1;
  host.f.steps.pop_back();
  for (int& result : host.f.results)
    if (result == last) result = 0;
  return true;
}

// ---- Reads and results.

bool MoreReads(Host& host, Random& random) {
  RandomStep* const step = Pick(host, random, [](const RandomStep& s) { return !s.reads; });
  if (step == nullptr) return false;
  step->reads = true;
  return true;
}

bool FewerReads(Host& host, Random& random) {
  RandomStep* const step = Pick(host, random, [](const RandomStep& s) { return s.reads; });
  if (step == nullptr) return false;
  step->reads = false;
  return true;
}

bool OneRead(Host& host, Random& random) {
  for (RandomStep& step : host.f.steps) step.reads = false;
  return MoreReads(host, random);
}

// The one read is of another value.
bool AnotherRead(Host& host, Random& random) {
  RandomStep* const was = Pick(host, random, [](const RandomStep& s) { return s.reads; });
  RandomStep* const is = Pick(host, random, [](const RandomStep& s) { return !s.reads; });
  if (was == nullptr || is == nullptr) return false;
  was->reads = false;
  is->reads = true;
  return true;
}

bool OtherResults(Host& host, Random&) {
  host.f.results.back() = host.f.results.back() == 0 ? 1 : 0;
  return true;
}

bool MoreResults(Host& host, Random&) {
  host.f.results.push_back(0);
  return true;
}

bool HoldsMore(Host& host, Random& random) {
  RandomStep* const step = Pick(host, random, [](const RandomStep& s) { return s.forgets; });
  if (step == nullptr) return false;
  step->forgets = false;
  return true;
}

// ---- What is captured, and where arguments lie.

bool ReplaceCaptured(Host& host, Random& random) {
  host.inputs[2] = RandomInputs(host.f, random)[2];
  host.captured[0] = Array::of(host.inputs[2]);
  return true;
}

bool UsesCaptured(Host& host, Random&) {
  return std::any_of(host.f.steps.begin(), host.f.steps.end(), [](const RandomStep& step) {
    return std::find(step.operands.begin(), step.operands.end(), 2) != step.operands.end();
  });
}

bool UsesBoth(Host& host, Random& random) {
  const auto uses = [&host](int input) {
    return std::any_of(host.f.steps.begin(), host.f.steps.end(), [input](const RandomStep& step) {
      return std::find(step.operands.begin(), step.operands.end(), input) != step.operands.end();
    });
  };
  (void)random;
  return Alike<2, 3>(host) && uses(2) && uses(3);
}

bool CapturedAreOne(Host& host, Random& random) {
  if (!UsesBoth(host, random)) return false;
  host.inputs[3] = host.inputs[2];
  host.captured[1] = host.captured[0];
  return true;
}

bool CapturedAreTwo(Host& host, Random& random) {
  host.inputs[3] = RandomInputs(host.f, random)[3];
  host.captured[1] = Array::of(host.inputs[3]);
  return true;
}

bool CapturedIsWide(Host& host, Random&) {
  host.captured[0] = Array::full(host.f.inputs[2], 1.5, DType::kF64);
  host.inputs[2] = *host.captured[0].tensor();
  return true;
}

bool CapturedHasOneMore(Host& host, Random& random) {
  std::vector<int64_t> shape = host.f.inputs[2];
  shape[0] += 1;
  host.inputs[2] = RandomTensors({shape}, random)[0];
  host.captured[0] = Array::of(host.inputs[2]);
  return true;
}

bool OneArgumentTwice(Host& host, Random&) {
  host.one_argument_twice = true;
  return Alike<0, 1>(host);
}

bool ArgumentIsCaptured(Host& host, Random&) {
  host.argument_is_captured = true;
  return Alike<0, 2>(host);
}

bool ArgumentHasMemoryOfCaptured(Host& host, Random&) {
  host.inputs[0] = host.inputs[2];
  return Alike<0, 2>(host);
}

// Both arguments are parts of one buffer, which overlap, one of them backwards where it can be.
bool ArgumentsOverlap(Host& host, Random& random) {
  const Tensor &a = host.inputs[0], &b = host.inputs[1];
  const int64_t shift = static_cast<int64_t>(Below(random, 3));
  const int64_t most = std::max(a.num_elements(), b.num_elements()) + shift;
  Tensor buffer = RandomTensors({{most}}, random)[0];
  auto* const data = static_cast<float*>(buffer.data());
  const auto owner = std::make_shared<Tensor>(buffer);
  host.inputs[0] = Tensor::View(data, DType::kF32, a.shape(), {}, owner);
  host.inputs[1] = Tensor::View(data + shift, DType::kF32, b.shape(), {}, owner);
  return true;
}

// The same elements, column by column.
bool OtherStrides(Host& host, Random&) {
  const Tensor dense = host.inputs[0];
  if (dense.rank() != 2) return false;
  const int64_t rows = dense.shape()[0], columns = dense.shape()[1];
  Tensor turned = Tensor::Allocate(DType::kF32, {columns, rows});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      static_cast<float*>(turned.data())[j * rows + i] =
          static_cast<const float*>(dense.data())[i * columns + j];
    }
  }
  const auto owner = std::make_shared<Tensor>(turned);
  host.inputs[0] = Tensor::View(turned.data(), DType::kF32, {rows, columns}, {1, rows}, owner);
  return true;
}

// ---- Types, extents and devices of arguments.

bool WideArgument(Host& host, Random&) {
  host.wide_argument = true;
  return true;
}

// Its memory is the host's: whoever reads it as the device's has not compared.
bool ArgumentOnGpu(Host& host, Random&) {
  host.argument_on_gpu = true;
  return true;
}

bool CapturedOnGpu(Host& host, Random&) {
  host.captured[0] = Array::of(OnGpu(host.inputs[2]));
  return true;
}

bool OtherExtents(Host& host, Random& random) {
  const Shapes& shapes = host.f.variants[0];
  if (shapes[0] == host.f.inputs[0] && shapes[1] == host.f.inputs[1]) return false;
  host.inputs = RandomTensors(shapes, random);
  for (size_t k = 0; k < 2; ++k) host.captured[k] = Array::of(host.inputs[2 + k]);
  return true;
}

Shapes OneLess(Random& random) {
  const int64_t rows = Rows(random), columns = Columns(random);
  return {{rows, columns}, {rows, columns - 1}};
}
Shapes Others(Random& random) {
  return {{Rows(random), Columns(random)}, {Rows(random), Columns(random)}};
}
Shapes FromOne(Random& random) {
  const int64_t rows = Rows(random), columns = Columns(random);
  return Below(random, 2) == 0 ? Shapes{{rows, 1}, {rows, columns}}
                               : Shapes{{1, columns}, {rows, columns}};
}
Shapes ToOne(Random& random) { return Reversed(FromOne(random)); }
Shapes FromZero(Random& random) {
  Shapes shapes = FromOne(random);
  for (int64_t& extent : shapes[0])
    if (extent == 1) extent = 0;
  return shapes;
}
Shapes ToZero(Random& random) { return Reversed(FromZero(random)); }

// ---- What the function does beside.

bool DoesNothing(Host& host, Random&) {
  host.deed = Deed::kNone;
  return true;
}

bool RegionHasMore(Host& host, Random&) {
  host.deed = Deed::kExcludeMore;
  return true;
}

bool RegionHasAnotherOperator(Host& host, Random& random) {
  const size_t begin = host.at, end = host.until;
  const RandomStep* const first = host.f.steps.data();
  RandomStep* const step = Pick(host, random, [&](const RandomStep& s) {
    const auto place = static_cast<size_t>(&s - first);
    return place >= begin && place < end && s.operands.size() == 1 && s.attrs.empty() &&
           s.op != "transpose";
  });
  if (step == nullptr) return false;
  step->op = step->op == "abs" ? "neg" : "abs";
  return true;
}

bool RegionBeginsEarlier(Host& host, Random&) {
  host.at -= 1;
  return true;
}

bool RegionEndsLater(Host& host, Random&) {
  host.until += 1;
  return host.until <= host.f.steps.size();
}

// From step `at` on there is another way: the operator of a step is another one.
bool Branches(Host& host, Random& random) {
  if (!Does<Deed::kBranch>(host, random)) return false;
  const auto from = host.f.steps.begin() + static_cast<std::ptrdiff_t>(host.at);
  Host other = host;
  for (auto step = from; step != host.f.steps.end(); ++step) {
    if (step->operands.size() != 1 || !step->attrs.empty() || step->op == "transpose") continue;
    RandomStep& there = other.f.steps[static_cast<size_t>(step - host.f.steps.begin())];
    there.op = there.op == "abs" ? "neg" : "abs";
    host.otherwise = other.f;
    return true;
  }
  return false;
}

bool BranchesOnArgument(Host& host, Random& random) {
  const bool suits = Branches(host, random);
  host.deed = Deed::kBranchOnArgument;
  return suits;
}

bool MakesArrays(Host& host, Random&) {
  host.makes = true;
  return std::any_of(host.f.steps.begin(), host.f.steps.end(), [](const RandomStep& step) {
    return std::find(step.operands.begin(), step.operands.end(), 3) != step.operands.end();
  });
}

bool AnotherThreadCalls(Host& host, Random&) {
  host.other_thread = true;
  return true;
}

}  // namespace kiln::hazards
