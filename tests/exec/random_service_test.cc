// SPDX-License-Identifier: Apache-2.0
// Random programs, called in random ways by several threads: which outputs are wanted, where inputs
// and outputs lie, what is trimmed, cancelled or kept as a state. The judge computes every value of
// the program by itself, from the list of its operations.
#include <atomic>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kiln/model.h"
#include "kiln/runtime.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/fake_program.h"

namespace kiln {
namespace {

using Floats = std::vector<float>;
using Rng = std::mt19937;

int Pick(Rng& rng, int n) { return std::uniform_int_distribution<int>(0, n - 1)(rng); }

// value[k] for k from `inputs` on is op k - inputs: negate a, a + 2 * b, or 3 * a.
struct Op {
  int kind = 0, a = 0, b = 0;
};
struct Case {
  int inputs = 1;
  std::vector<Op> ops;
  std::vector<int> outputs;  // values; each an op
  bool state = false;        // input 0 becomes output 0
  FakeProgram program;
};

Case MakeCase(Rng& rng) {
  Case c;
  c.inputs = 1 + Pick(rng, 3);
  std::vector<int> buffers;
  const FakeProgram::Texts shape = {"n"};
  for (int i = 0; i < c.inputs; ++i)
    buffers.push_back(c.program.Input(absl::StrCat("x", i), shape));
  const int ops = 1 + Pick(rng, 12);
  for (int k = 0; k < ops; ++k) {
    const int values = c.inputs + k;
    c.ops.push_back({Pick(rng, 3), Pick(rng, values), Pick(rng, values)});
    const bool output = k + 1 == ops || Pick(rng, 4) == 0;
    if (output) c.outputs.push_back(values);
    buffers.push_back(output ? c.program.Output(absl::StrCat("y", c.outputs.size() - 1), shape)
                             : c.program.Temporary(shape));
    const Op& op = c.ops.back();
    const int a = buffers[static_cast<size_t>(op.a)], b = buffers[static_cast<size_t>(op.b)];
    if (op.kind == 0) c.program.Kernel(kNegate, {a}, {buffers.back()}, shape);
    if (op.kind == 1) c.program.Kernel(kMix, {a, b}, {buffers.back()}, shape);
    if (op.kind == 2) c.program.Kernel(kScale, {a}, {buffers.back()}, shape, {3});
  }
  if (Pick(rng, 2) == 0) c.program.proto().set_parallel_grain(1);
  c.state = Pick(rng, 3) == 0;
  return c;
}

// Small integers: floats are exact, and the order of operations does not matter.
std::vector<Floats> Evaluate(const Case& c, std::vector<Floats> values) {
  for (const Op& op : c.ops) {
    const Floats &a = values[static_cast<size_t>(op.a)], &b = values[static_cast<size_t>(op.b)];
    Floats made(a.size());
    for (size_t i = 0; i < a.size(); ++i)
      made[i] = op.kind == 0 ? -a[i] : op.kind == 1 ? a[i] + 2 * b[i] : 3 * a[i];
    values.push_back(std::move(made));
  }
  std::vector<Floats> outputs;
  for (const int value : c.outputs) outputs.push_back(values[static_cast<size_t>(value)]);
  return outputs;
}

// A view of `values`, dense or every second element of memory.
Tensor View(const Floats& values, bool strided) {
  if (!strided) return Values(values);
  Floats spread(2 * values.size());
  for (size_t i = 0; i < values.size(); ++i) spread[2 * i] = values[i];
  const Tensor all = Values(spread);
  return Tensor::View(all.data(), DType::kF32, {static_cast<int64_t>(values.size())}, {2},
                      all.owner());
}

// One caller's walk over a case; the first thing that is wrong, or nothing.
class Caller {
 public:
  Caller(const Case& c, Model model, unsigned seed)
      : case_(c), model_(std::move(model)), rng_(seed), context_(model_.NewContext()) {}

  std::string Walk(int steps) {
    for (int i = 0; i < steps && wrong_.empty(); ++i) Step();
    return wrong_;
  }

 private:
  void Check(const absl::Status& status) {
    if (!status.ok() && wrong_.empty()) wrong_ = std::string(status.message());
  }

  void Step() {
    const size_t n = 1 + static_cast<size_t>(Pick(rng_, 4));
    if (Pick(rng_, 8) == 0) context_.Trim();
    if (Pick(rng_, 8) == 0) model_.Trim();
    ChooseOutputs();
    BindInputs(n);
    BindOutputs(n);
    if (Pick(rng_, 6) == 0) RunCancelled();
    Check(context_.Run());
    const std::vector<Floats> expected = Evaluate(case_, inputs_);
    for (size_t k = 0; k < case_.outputs.size(); ++k) {
      const auto got = context_.Output(k);
      if (!wanted_[k] && got.ok()) wrong_ = absl::StrCat("output ", k, " was not asked for");
      if (!wanted_[k]) continue;
      Check(got.status());
      if (got.ok() && Read(*got) != expected[k]) wrong_ = absl::StrCat("output ", k, " is wrong");
    }
    if (case_.state) inputs_[0] = expected[0];
  }

  void ChooseOutputs() {
    if (!wanted_.empty() && Pick(rng_, 3) > 0) return;
    wanted_.assign(case_.outputs.size(), false);
    std::vector<std::string> names;
    for (size_t k = 0; k < wanted_.size(); ++k) {
      wanted_[k] = Pick(rng_, 2) == 0;
      if (wanted_[k]) names.push_back(absl::StrCat("y", k));
    }
    if (names.empty()) wanted_.assign(wanted_.size(), true);
    if (case_.state) wanted_[0] = true;
    Check(context_.SetOutputs(names));
  }

  void BindInputs(size_t n) {
    inputs_.resize(static_cast<size_t>(case_.inputs));
    bound_.clear();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool state = case_.state && i == 0;
      if (state && inputs_[0].size() == n) continue;
      inputs_[i].assign(n, 0);
      for (float& x : inputs_[i]) x = static_cast<float>(Pick(rng_, 7) - 3);
      const Tensor x = View(inputs_[i], Pick(rng_, 4) == 0);
      Check(state ? context_.SetState("x0", x) : context_.Bind(i, x));
      if (!state && x.is_dense()) bound_.push_back(x);
    }
  }

  // Outputs lie in the context's memory, in memory of their own, or over an input.
  void BindOutputs(size_t n) {
    for (size_t k = 0; k < case_.outputs.size(); ++k) {
      if (case_.state && k == 0) continue;
      const bool over = k + 1 == case_.outputs.size() && !bound_.empty() && Pick(rng_, 3) == 0;
      Check(context_.BindOutput(k, over ? bound_[0] : Values(Floats(n))));
    }
  }

  // The flag is up before the first launch: nothing is written, states stay.
  void RunCancelled() {
    RunControl control;
    control.cancel = std::make_shared<std::atomic<bool>>(true);
    if (!absl::IsCancelled(context_.Run(control))) wrong_ = "it was not cancelled";
    if (context_.Output(size_t{0}).ok()) wrong_ = "a run that was cancelled has an output";
  }

  const Case& case_;
  Model model_;
  Rng rng_;
  Context context_;
  std::vector<Floats> inputs_;
  std::vector<Tensor> bound_;
  std::vector<bool> wanted_;
  std::string wrong_;
};

TEST(RandomService, EveryRunIsRight) {
  const auto seed = static_cast<unsigned>(FromEnvironment("KILN_SEED", 20));
  SCOPED_TRACE(absl::StrCat("KILN_SEED=", seed));
  Rng rng(seed);
  const uint64_t cases = FromEnvironment("KILN_RANDOM_SERVICES", 150);
  for (uint64_t number = 0; number < cases; ++number) {
    const Case c = MakeCase(rng);
    RunOptions options;
    options.threads = 1 + Pick(rng, 3);
    if (Pick(rng, 2) == 0)
      options.temporaries = Pick(rng, 2) == 0 ? Temporaries::kSeparate : Temporaries::kAllocated;
    options.output_memory = static_cast<OutputMemory>(Pick(rng, 3));  // all outputs are bound
    options.check_first_run = Pick(rng, 3) == 0;
    if (Pick(rng, 3) == 0) options.on_thunk = [](const ThunkView&) { return absl::OkStatus(); };
    if (c.state) options.states = {{"x0", "y0"}};
    if (Pick(rng, 3) == 0) options.shared_arena = NewSharedArena();
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Model::Create(c.program.Provider(), options));
    std::vector<std::thread> threads;
    std::vector<std::string> wrong(3);
    for (size_t t = 0; t < wrong.size(); ++t) {
      const auto walk = static_cast<unsigned>(Pick(rng, 1 << 30));
      threads.emplace_back([&, t, walk] { wrong[t] = Caller(c, model, walk).Walk(30); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& one : wrong) ASSERT_EQ(one, "") << "case " << number;
    model.Trim();
    EXPECT_EQ(model.memory().arenas, 0);
    EXPECT_EQ(model.memory().states, 0);
  }
}

}  // namespace
}  // namespace kiln
