// SPDX-License-Identifier: Apache-2.0
#include "tests/compiler/session_caller.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "base/compare.h"
#include "exec/binding.h"
#include "tests/compiler/placed_tensors.h"

namespace kiln {
namespace {

constexpr int64_t kGuard = 64;
constexpr uint8_t kGuardByte = 0x3c;

}  // namespace

SessionCaller::SessionCaller(RandomSession& session, Model model, uint64_t seed)
    : s_(session),
      model_(std::move(model)),
      draw_(seed),
      judge_(session),
      context_(model_.NewContext()),
      output_bound_(model_.outputs().size()) {}

std::string SessionCaller::Walk(int steps) {
  for (int i = 0; i < steps && wrong_.empty(); ++i) Step();
  if (wrong_.empty()) return "";
  return absl::StrCat(wrong_, "\n  steps: ", absl::StrJoin(trace_, " | "));
}

void SessionCaller::Step() {
  Disturb();
  const Tensors& set = draw_.Of(s_.program.input_sets);
  ChooseOutputs();
  const bool fresh = now_.empty();
  now_.resize(set.size());
  bool other_shapes = false;  // those of states go with the other inputs
  for (size_t i = 0; i < set.size(); ++i) {
    if (!IsStateInput(i))
      now_[i] = set[i].Clone();
    else
      other_shapes = other_shapes || now_[i].shape() != set[i].shape();
  }
  if (!s_.states.empty() && (fresh || lost_ || other_shapes || draw_.OneIn(6))) SetStates(set);
  // Before the inputs are bound: an output over one of them changes it.
  const absl::StatusOr<Tensors> like = judge_.Outputs(s_.done, now_);
  BindInputs(set);
  if (like.ok()) BindOutputs(*like);
  ChooseArena();
  if (draw_.OneIn(6)) return RunStopped();
  RunAndJudge(/*refused=*/!like.ok());
}

void SessionCaller::Disturb() {
  if (s_.options.record_level < 2 && draw_.OneIn(8)) {
    Note("trim");
    context_.Trim();
  }
  if (draw_.OneIn(10)) {
    Note("model trim");
    model_.Trim();
  }
  const bool alone = s_.states.empty() && s_.options.output_memory != OutputMemory::kBound;
  if (alone && draw_.OneIn(3)) RunModel();
  if (s_.options.record_level > 0 || !draw_.OneIn(6)) return;
  Note("shapes");
  NamedShapes shapes;
  const Tensors& set = draw_.Of(s_.program.input_sets);
  for (size_t i = 0; i < set.size(); ++i)
    shapes.emplace_back(model_.inputs()[i].name, set[i].shape());
  // They may lack values of inputs, or memory.
  if (draw_.OneIn(2)) model_.Prepare(shapes).IgnoreError();
  model_.OutputShapes(shapes).IgnoreError();
}

void SessionCaller::RunModel() {
  const Tensors& inputs = draw_.Of(s_.program.input_sets);
  NamedTensors named;
  for (size_t i = 0; i < inputs.size(); ++i)
    named.emplace_back(model_.inputs()[i].name, Placed(inputs[i], draw_));
  const size_t first = s_.done;
  absl::StatusOr<Tensors> got;
  if (draw_.OneIn(2)) {
    Note("model run");
    got = model_.Run(named);
  } else {
    Note("asynchronous run");
    std::promise<absl::StatusOr<Tensors>> promise;
    model_.RunAsync(std::move(named),
                    [&promise](auto result) { promise.set_value(std::move(result)); });
    got = promise.get_future().get();
  }
  const std::vector<bool> all(model_.outputs().size(), true);
  const std::string what =
      judge_.Compare(got.status(), got.ok() ? *got : Tensors(), inputs, all, first, s_.begun);
  if (!what.empty()) Wrong("Model::Run: ", what);
}

void SessionCaller::ChooseOutputs() {
  if (!wanted_.empty() && !draw_.OneIn(3)) return;
  wanted_.assign(model_.outputs().size(), false);
  for (size_t k = 0; k < wanted_.size(); ++k)
    wanted_[k] = s_.options.record_level > 1 || draw_.OneIn(2);
  const std::vector<std::string> names = NamesWanted();
  if (names.empty()) wanted_.assign(wanted_.size(), true);
  for (const StatePorts& state : s_.states) wanted_[state.output] = true;
  Note("outputs ", absl::StrJoin(names, ","));
  Check(context_.SetOutputs(names), "SetOutputs");
}

void SessionCaller::SetStates(const Tensors& set) {
  for (const StatePorts& state : s_.states) {
    now_[state.input] = set[state.input].Clone();
    Note("set state ", state.input);
    Check(context_.SetState(model_.inputs()[state.input].name, Placed(set[state.input], draw_)),
          "SetState");
  }
  lost_ = false;
}

void SessionCaller::BindInputs(const Tensors& set) {
  bound_.assign(set.size(), Tensor());
  for (size_t i = 0; i < set.size(); ++i) {
    if (IsStateInput(i)) continue;
    const std::string& name = model_.inputs()[i].name;
    if (set[i].rank() > 0 && draw_.OneIn(4)) {
      const Tensors parts = PlacedParts(now_[i], draw_);
      Note(name, " in ", parts.size(), " parts");
      Check(context_.BindParts(name, parts), "BindParts");
      continue;
    }
    bound_[i] = Placed(now_[i], draw_);
    Note(name, bound_[i].is_dense() ? "" : " strided");
    Check(context_.Bind(i, bound_[i]), "Bind");
  }
}

// In the context's memory, in memory of their own, or over inputs.
void SessionCaller::BindOutputs(const Tensors& like) {
  Tensors used;
  for (size_t k = 0; k < like.size(); ++k) {
    if (IsStateOutput(k)) continue;
    const bool must = s_.options.output_memory == OutputMemory::kBound || output_bound_[k];
    if (!must && draw_.OneIn(2)) continue;
    std::optional<Tensor> memory;
    if (draw_.OneIn(2)) memory = MemoryOver(bound_, like[k], draw_);
    for (const Tensor& other : used)
      if (memory && Overlap(other, *memory)) memory.reset();
    Note("output ", k, memory ? " over an input" : " apart");
    if (!memory) memory = Tensor::Allocate(like[k].dtype(), like[k].shape());
    used.push_back(*memory);
    output_bound_[k] = true;
    Check(context_.BindOutput(k, *memory), "BindOutput");
  }
}

// Of exactly what the last plan took, or of some size; what it holds is nobody's.
void SessionCaller::ChooseArena() {
  if (draw_.OneIn(6)) {
    const int64_t exact = std::max<int64_t>(context_.report().arena, 64);
    const int64_t bytes = draw_.OneIn(2) ? exact : draw_.Below(1 << 15);
    arena_ = Tensor::Allocate(DType::kU8, {bytes + kGuard});
    Note("arena of ", bytes);
    Check(context_.SetArena(arena_.data(), bytes), "SetArena");
  } else if (draw_.OneIn(12)) {
    arena_ = Tensor();
    Check(context_.SetArena(nullptr, 0), "SetArena");
  }
  if (arena_.data() == nullptr) return;
  const auto bytes = static_cast<size_t>(arena_.size_bytes() - kGuard);
  std::memset(arena_.data(), static_cast<int>(draw_.Below(256)), bytes);
  std::memset(static_cast<char*>(arena_.data()) + bytes, kGuardByte, kGuard);
}

absl::Status SessionCaller::RunInArena(const RunControl& control, bool profile) {
  const auto run = [&] { return profile ? context_.Profile().status() : context_.Run(control); };
  absl::Status status = run();
  if (arena_.data() == nullptr) return status;
  const uint8_t* const end = static_cast<const uint8_t*>(arena_.data()) + arena_.size_bytes();
  if (std::count(end - kGuard, end, kGuardByte) != kGuard) Wrong("written beyond the arena");
  const std::string small =
      absl::StrCat("arena: the caller's has ", arena_.size_bytes() - kGuard, " bytes");
  if (!absl::IsResourceExhausted(status) || !absl::StrContains(status.message(), small))
    return status;
  Note("larger");
  arena_ = Tensor();
  Check(context_.SetArena(nullptr, 0), "SetArena");
  return run();
}

void SessionCaller::RunStopped() {
  ++s_.stopped;
  RunControl control;
  control.cancel = std::make_shared<std::atomic<bool>>(draw_.OneIn(3));
  control.deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(draw_.Below(300));
  Note("stopped run");
  const absl::Status status = RunInArena(control, /*profile=*/false);
  lost_ = true;  // it may have come to its end
  const bool stopped = absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
  if (status.ok() || stopped || judge_.LacksBudget(status)) return;
  if (judge_.RunFor(s_.done, now_, wanted_).ok()) Wrong("stopped run: ", status.ToString());
}

void SessionCaller::RunAndJudge(bool refused) {
  const size_t first = s_.done;
  Note("run");
  const absl::Status status = RunInArena({}, /*profile=*/draw_.OneIn(10));
  const size_t last = s_.begun;
  Tensors got(model_.outputs().size());
  for (size_t k = 0; k < got.size() && status.ok(); ++k) {
    const absl::StatusOr<Tensor> output = context_.Output(k);
    if (output.ok() != wanted_[k]) Wrong("output ", k, ": ", output.status().ToString());
    if (output.ok()) got[k] = *output;
  }
  if (!wrong_.empty()) return;
  const std::string what = judge_.Compare(status, got, now_, wanted_, first, last);
  // Of two reasons to refuse either may be given.
  const bool both = refused && !status.ok();
  if (!what.empty() && !both) return Wrong("Context::Run: ", what);
  lost_ = lost_ || !status.ok();
  if (status.ok()) KeepStates(got);
}

void SessionCaller::KeepStates(const Tensors& got) {
  for (const StatePorts& state : s_.states) {
    const auto kept = context_.State(model_.inputs()[state.input].name);
    if (!kept.ok()) return Wrong("State: ", kept.status().ToString());
    if (!CompareBits(*kept, got[state.output]).ok) return Wrong("the state is not the output");
    now_[state.input] = got[state.output].Clone();
  }
}

bool SessionCaller::IsStateInput(size_t input) const {
  return std::any_of(s_.states.begin(), s_.states.end(),
                     [&](const StatePorts& state) { return state.input == input; });
}

bool SessionCaller::IsStateOutput(size_t output) const {
  return std::any_of(s_.states.begin(), s_.states.end(),
                     [&](const StatePorts& state) { return state.output == output; });
}

std::vector<std::string> SessionCaller::NamesWanted() const {
  std::vector<std::string> names;
  for (size_t k = 0; k < wanted_.size(); ++k)
    if (wanted_[k]) names.push_back(model_.outputs()[k].name);
  return names;
}

void SessionCaller::Check(const absl::Status& status, const char* what) {
  if (!status.ok() && !judge_.LacksBudget(status)) Wrong(what, ": ", status.ToString());
}

}  // namespace kiln
