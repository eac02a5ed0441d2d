// SPDX-License-Identifier: Apache-2.0
// What a plan's text says of its arena, and of the work of its launches.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "tools/plan_text.h"

namespace kiln {
namespace {

struct Life {
  int64_t first = -1, last = -1, lanes = 1;
};

// Runs of launches that are repeated for parts of the batch: [begin, end).
std::vector<std::pair<int64_t, int64_t>> Repeats(const PlanText& plan) {
  std::vector<std::pair<int64_t, int64_t>> repeats;
  const auto count = static_cast<int64_t>(plan.launches.size());
  for (int64_t begin = 0; begin < count;) {
    const PlanText::Launch& launch = plan.launches[static_cast<size_t>(begin)];
    int64_t end = begin + 1;
    while (end < count && launch.parts > 1 &&
           plan.launches[static_cast<size_t>(end)].parts == launch.parts &&
           plan.launches[static_cast<size_t>(end)].lanes == launch.lanes)
      ++end;
    if (launch.parts > 1) repeats.emplace_back(begin, end);
    begin = end;
  }
  return repeats;
}

// By root.
std::map<int64_t, Life> LivesOf(const PlanText& plan) {
  std::map<int64_t, Life> lives;
  for (size_t k = 0; k < plan.launches.size(); ++k) {
    const PlanText::Launch& launch = plan.launches[k];
    for (const std::vector<PlanText::Ref>* refs : {&launch.inputs, &launch.outputs}) {
      for (const PlanText::Ref& ref : *refs) {
        if (ref.buffer < 0) continue;
        const int64_t root = plan.buffers[static_cast<size_t>(ref.buffer)].root;
        Life& life = lives[root];
        if (life.first < 0) life.first = static_cast<int64_t>(k);
        life.last = static_cast<int64_t>(k);
        life.lanes = std::max(life.lanes, launch.lanes);
      }
    }
  }
  for (const auto& [begin, end] : Repeats(plan)) {
    for (auto& [root, life] : lives) {
      if (life.last < begin || life.first >= end) continue;
      if (life.first < begin) life.last = std::max(life.last, end - 1);
      if (life.last >= end) life.first = std::min(life.first, begin);
    }
  }
  return lives;
}

int64_t At(const std::vector<int64_t>& shape, size_t from_end) {
  return shape[shape.size() - from_end];
}

double Elements(const std::vector<int64_t>& shape) {
  double elements = 1;
  for (const int64_t extent : shape) elements *= static_cast<double>(extent);
  return elements;
}

// The length of the sums of a matrix product, whichever operands are transposed.
std::optional<int64_t> Terms(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                             const std::vector<int64_t>& out) {
  if (a.size() == 1) return a[0];
  if (b.size() == 1) return b[0];
  if (a.size() < 2 || out.size() < 2) return std::nullopt;
  if (At(a, 2) == At(out, 2)) return At(a, 1);
  if (At(a, 1) == At(out, 2)) return At(a, 2);
  return std::nullopt;
}

}  // namespace

std::vector<PlannedInterval> ArenaIntervals(const PlanText& plan) {
  std::vector<PlannedInterval> intervals;
  for (const auto& [root, life] : LivesOf(plan)) {
    const PlanText::Buffer& buffer = plan.buffers[static_cast<size_t>(root)];
    if (buffer.arena_offset < 0 || buffer.bytes == 0) continue;
    const int64_t lanes = buffer.lane_step > 0 ? life.lanes : 1;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      intervals.push_back(
          {lanes > 1 ? absl::StrCat(buffer.name, " (lane ", lane, ")") : buffer.name, life.first,
           life.last + 1, buffer.arena_offset + lane * buffer.lane_step, buffer.bytes});
    }
  }
  return intervals;
}

std::vector<int64_t> LiveBytes(const PlanText& plan) {
  std::vector<int64_t> change(plan.launches.size() + 1);
  for (const PlannedInterval& interval : ArenaIntervals(plan)) {
    change[static_cast<size_t>(interval.lower)] += interval.size;
    change[static_cast<size_t>(interval.upper)] -= interval.size;
  }
  change.pop_back();
  int64_t live = 0;
  for (int64_t& bytes : change) bytes = live += bytes;
  return change;
}

MemoryPlanPage ArenaPlan(const PlanText& plan, const std::string& title) {
  MemoryPlanPage page{.title = title,
                      .intervals = ArenaIntervals(plan),
                      .peak = plan.arena,
                      .lower_bound = plan.lower_bound,
                      .sum = plan.sum};
  int64_t with_scratch = 0;
  for (const PlanText::Launch& launch : plan.launches) {
    page.steps.push_back(absl::StrCat(launch.what, " ", launch.name));
    with_scratch += launch.scratch_offset >= 0 ? 1 : 0;
  }
  if (with_scratch > 0)
    absl::StrAppend(&page.title, " (without the scratch memory of ", with_scratch, " launches)");
  return page;
}

std::optional<double> FlopsOf(const PlanText::Launch& launch, const SymbolValues& symbols) {
  if (launch.what != "library" || launch.inputs.size() < 2 || launch.outputs.size() != 1)
    return std::nullopt;
  std::vector<std::vector<int64_t>> shapes;
  for (const PlanText::Ref* ref : {&launch.inputs[0], &launch.inputs[1], &launch.outputs[0]}) {
    absl::StatusOr<std::vector<int64_t>> shape = Evaluate(ref->shape, symbols);
    if (!shape.ok() || ref->buffer < 0 || ref->type != DType::kF32) return std::nullopt;
    shapes.push_back(*std::move(shape));
  }
  const std::vector<int64_t>&x = shapes[0], &w = shapes[1], &y = shapes[2];
  if (launch.op == "matmul") {
    const std::optional<int64_t> terms = Terms(x, w, y);
    if (!terms) return std::nullopt;
    return 2 * Elements(y) * static_cast<double>(*terms);
  }
  if (launch.op == "conv_backward_weights") {
    if (y.empty() || y[0] == 0) return std::nullopt;
    return 2 * Elements(y) / static_cast<double>(y[0]) * Elements(w);
  }
  if ((launch.op != "conv" && launch.op != "conv_transpose") || w.empty() || w[0] == 0)
    return std::nullopt;
  const double window = Elements(w) / static_cast<double>(w[0]);
  return 2 * window * Elements(launch.op == "conv" ? y : x);
}

}  // namespace kiln
