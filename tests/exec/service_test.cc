// SPDX-License-Identifier: Apache-2.0
// A model as a service inside a program: who waits for whom, what is shared, how runs are stopped,
// and what a context keeps.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "exec/plan_cache.h"
#include "gtest/gtest.h"
#include "kiln/model.h"
#include "kiln/runtime.h"
#include "tests/base/status_matchers.h"
#include "tests/base/threads_of_process.h"
#include "tests/exec/fake_program.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// y = -x and z = 2 * x, by launches of their own.
FakeProgram TwoOutputs() {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), t = p.Temporary({"n"});
  p.Kernel(kNegate, {x}, {t}, {"n"});
  p.Kernel(kScale, {t}, {p.Output("y", {"n"})}, {"n"}, {1});
  p.Kernel(kScale, {x}, {p.Output("z", {"n"})}, {"n"}, {2});
  return p;
}

// next = state + 2 * x, in place where the plan lets it.
FakeProgram Accumulator() {
  FakeProgram p;
  const int state = p.Input("state", {"4"}), x = p.Input("x", {"4"});
  p.Kernel(kMix, {state, x}, {p.Output("next", {"4"})}, {"4"});
  return p;
}

std::shared_ptr<Runtime> MakeRuntime(RuntimeOptions options) {
  return *Runtime::Create(std::move(options));
}

// Takes long for extents from 100 on.
class SlowProvider : public FakeProvider {
 public:
  using FakeProvider::FakeProvider;
  absl::StatusOr<std::shared_ptr<const Variant>> Get(const std::vector<InputInfo>& in) override {
    if (in[0].tensor.shape()[0] >= 100) std::this_thread::sleep_for(milliseconds(400));
    return FakeProvider::Get(in);
  }
};

std::shared_ptr<SlowProvider> Slow(const FakeProgram& p) {
  return std::make_shared<SlowProvider>(p.ports_in, p.ports_out, p.variant);
}

TEST(Shapes, NobodyWaitsForAnothersShape) {
  const auto provider = Slow(TwoOutputs());
  Model model = *Model::Create(provider, {1});
  const auto run = [&](size_t n) {
    KILN_EXPECT_OK(model.Run({{"x", Values(std::vector<float>(n, 1))}}).status());
  };
  run(4);
  std::atomic<int> made{0};
  const auto start = steady_clock::now();
  std::vector<std::thread> makers;
  for (const size_t n : {size_t{100}, size_t{200}, size_t{300}, size_t{300}})
    makers.emplace_back([&, n] {
      run(n);
      ++made;
    });
  std::this_thread::sleep_for(milliseconds(20));
  int known = 0;
  while (made == 0) {
    run(4);
    ++known;
  }
  EXPECT_GT(known, 100);  // whoever waited would have run once
  for (std::thread& maker : makers) maker.join();
  EXPECT_LT(steady_clock::now() - start, milliseconds(1000));  // one after the other: 1200
  EXPECT_EQ(provider->gets, 4);                                // the two with 300 made one plan
}

TEST(Shapes, ContextsShareAPlan) {
  const auto provider = TwoOutputs().Provider();
  Model model = *Model::Create(provider, {1});
  std::vector<Context> contexts;
  for (int i = 0; i < 5; ++i) {
    contexts.push_back(model.NewContext());
    KILN_ASSERT_OK(contexts.back().Bind("x", Values({1, static_cast<float>(i)})));
  }
  for (Context& context : contexts) KILN_ASSERT_OK(context.Run());
  for (int i = 0; i < 5; ++i)
    EXPECT_THAT(Read(*contexts[static_cast<size_t>(i)].Output("y")), ElementsAre(-1, -i));
  EXPECT_EQ(provider->gets, 1);
  EXPECT_EQ(model.memory().plans, 1);
}

TEST(Shapes, PreparedOnesAreNotMadeAgain) {
  const auto provider = TwoOutputs().Provider();
  Model model = *Model::Create(provider, {1});
  KILN_ASSERT_OK(model.Prepare({{"x", {5}}}));
  EXPECT_EQ(model.memory().plans, 1);
  const int gets = provider->gets;
  KILN_ASSERT_OK(model.Run({{"x", Values({1, 2, 3, 4, 5})}}).status());
  EXPECT_EQ(provider->gets, gets);
  KILN_ASSERT_OK_AND_ASSIGN(const auto shapes, model.OutputShapes({{"x", {7}}}));
  EXPECT_THAT(shapes, ElementsAre(ElementsAre(7), ElementsAre(7)));
  EXPECT_THAT(model.Prepare({}), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("input \"x\": no shape is given for [n]")));
  EXPECT_THAT(model.OutputShapes({{"q", {7}}}), StatusIs(absl::StatusCode::kNotFound));
}

TEST(Shapes, PlansBeyondTheLimitAreForgotten) {
  Model model = *Model::Create(TwoOutputs().Provider(), {1});
  for (size_t n = 1; n <= 200; ++n)
    KILN_ASSERT_OK(model.Run({{"x", Values(std::vector<float>(n, 1))}}).status());
  const MemoryReport report = model.memory();
  EXPECT_EQ(report.plans, static_cast<int64_t>(kMaxPlans));
  EXPECT_EQ(report.idle_contexts, 1);
  EXPECT_GT(report.plan_bytes, 0);
  model.Trim();
  EXPECT_EQ(model.memory().plans, 1);
  EXPECT_EQ(model.memory().idle_contexts, 0);
  EXPECT_EQ(model.memory().arenas, 0);
}

// A kernel that asks for its run to be cancelled.
std::shared_ptr<std::atomic<bool>> cancel_flag;
int CancelFn(void** argv) {
  *cancel_flag = true;
  return NegateFn(argv);
}
const FakeKernel kCancel = {"cancel", kNegate.text, CancelFn, {}};

TEST(Control, ACancelledRunStopsBeforeTheNextLaunch) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), t = p.Temporary({"n"});
  p.Kernel(kCancel, {x}, {t}, {"n"});
  p.Kernel(kFail, {t}, {p.Output("y", {"n"})}, {"n"});
  Model model = *Model::Create(p.Provider(), {1});
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1})));
  RunControl control;
  cancel_flag = std::make_shared<std::atomic<bool>>(false);
  control.cancel = cancel_flag;
  EXPECT_TRUE(absl::IsCancelled(context.Run(control)));
  EXPECT_TRUE(absl::IsFailedPrecondition(context.Output("y").status()));
  EXPECT_TRUE(absl::IsInternal(context.Run()));  // kFail
}

int SleepFn(void** argv) {
  std::this_thread::sleep_for(milliseconds(30));
  return NegateFn(argv);
}
const FakeKernel kSleep = {"sleep", kNegate.text, SleepFn, {}};

TEST(Control, ADeadlinePasses) {
  FakeProgram p;
  int from = p.Input("x", {"n"});
  for (int i = 0; i < 20; ++i) {
    const int to = i == 19 ? p.Output("y", {"n"}) : p.Temporary({"n"});
    p.Kernel(kSleep, {from}, {to}, {"n"});
    from = to;
  }
  Model model = *Model::Create(p.Provider(), {1});
  RunControl control;
  const auto start = steady_clock::now();
  control.deadline = start + milliseconds(50);
  EXPECT_TRUE(absl::IsDeadlineExceeded(model.Run({{"x", Values({1})}}, control).status()));
  EXPECT_LT(steady_clock::now() - start, milliseconds(400));  // the whole: 600
}

TEST(Control, RunsGoOnWithoutTheirModel) {
  std::mutex mutex;
  std::condition_variable changed;
  int right = 0, done = 0;
  {
    Model model = *Model::Create(TwoOutputs().Provider(), {2});
    for (int i = 0; i < 50; ++i) {
      model.RunAsync({{"x", Values({static_cast<float>(i)})}}, [&, i](auto result) {
        const std::lock_guard lock(mutex);
        right += result.ok() && Read((*result)[0])[0] == static_cast<float>(-i) ? 1 : 0;
        ++done;
        changed.notify_one();
      });
    }
  }
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return done == 50; }));
  EXPECT_EQ(right, 50);
}

TEST(Outputs, OnlyThoseAskedForAreComputed) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), t = p.Temporary({"n"});
  p.Kernel(kNegate, {x}, {t}, {"n"});
  p.Kernel(kScale, {t}, {p.Output("y", {"n"})}, {"n"}, {3});
  p.Kernel(kFail, {t}, {p.Output("z", {"n"})}, {"n"});
  Model model = *Model::Create(p.Provider(), {1});
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2})));
  EXPECT_TRUE(absl::IsInternal(context.Run()));
  KILN_ASSERT_OK(context.SetOutputs({"y"}));
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(*context.Output("y")), ElementsAre(-3, -6));
  EXPECT_EQ(context.report().kernel_launches, 2);
  EXPECT_THAT(context.Output("z"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            HasSubstr("\"z\": it was not computed")));
  EXPECT_THAT(context.SetOutputs({"w"}), StatusIs(absl::StatusCode::kNotFound));
  KILN_ASSERT_OK(context.SetOutputs({}));
  EXPECT_TRUE(absl::IsInternal(context.Run()));
}

TEST(States, AreKeptFromRunToRun) {
  RunOptions options;
  options.threads = 1;
  options.states = {{"state", "next"}};
  const auto provider = Accumulator().Provider();
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Model::Create(provider, options));
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2, 3, 4})));
  for (int i = 0; i < 1000; ++i) KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(*context.State("state")), ElementsAre(2000, 4000, 6000, 8000));
  EXPECT_THAT(Read(*context.Output("next")), ElementsAre(2000, 4000, 6000, 8000));
  EXPECT_EQ(provider->gets, 1);
  EXPECT_EQ(model.memory().plans, 1);
  EXPECT_EQ(model.memory().states, 64);  // in place: one buffer
  Context other = model.NewContext();    // has a state of its own
  KILN_ASSERT_OK(other.Bind("x", Values({1, 1, 1, 1})));
  KILN_ASSERT_OK(other.SetState("state", Values({10, 20, 30, 40})));
  KILN_ASSERT_OK(other.Run());
  EXPECT_THAT(Read(*other.State("state")), ElementsAre(12, 22, 32, 42));
  KILN_ASSERT_OK(context.ResetStates());
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(*context.State("state")), ElementsAre(2, 4, 6, 8));
}

// What Model::Run hands out is the caller's, and it begins anew each time.
TEST(States, BelongToContextsAlone) {
  RunOptions options;
  options.threads = 1;
  options.states = {{"state", "next"}};
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Model::Create(Accumulator().Provider(), options));
  KILN_ASSERT_OK_AND_ASSIGN(const auto first, model.Run({{"x", Values({1, 2, 3, 4})}}));
  KILN_ASSERT_OK_AND_ASSIGN(const auto second, model.Run({{"x", Values({5, 5, 5, 5})}}));
  EXPECT_THAT(Read(first[0]), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(Read(second[0]), ElementsAre(10, 10, 10, 10));
}

TEST(States, ThoseThatCannotBeInPlaceTakeTurns) {
  FakeProgram p;  // the state is read again after `next` is written
  const int state = p.Input("state", {"4"}), x = p.Input("x", {"4"});
  p.Kernel(kMix, {state, x}, {p.Output("next", {"4"})}, {"4"});
  p.Kernel(kNegate, {state}, {p.Output("y", {"4"})}, {"4"});
  RunOptions options;
  options.threads = 1;
  options.states = {{"state", "next"}};
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Model::Create(p.Provider(), options));
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2, 3, 4})));
  for (int i = 0; i < 11; ++i) KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(*context.State("state")), ElementsAre(22, 44, 66, 88));
  EXPECT_THAT(Read(*context.Output("y")), ElementsAre(-20, -40, -60, -80));
  EXPECT_EQ(model.memory().states, 128);
}

TEST(States, SayWhatIsWrong) {
  const auto make = [](std::vector<StateBuffer> states) {
    RunOptions options;
    options.states = std::move(states);
    return Model::Create(Accumulator().Provider(), options).status();
  };
  EXPECT_THAT(make({{"nothing", "next"}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no input \"nothing\"; it has \"")));
  EXPECT_THAT(make({{"state", "nothing"}}), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(make({{"state", "next"}, {"x", "next"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one state only")));
  RunOptions options;
  options.states = {{"state", "next"}};
  Model model = *Model::Create(Accumulator().Provider(), options);
  Context context = model.NewContext();
  EXPECT_THAT(context.Bind("state", Values({1, 2, 3, 4})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("call SetState")));
  EXPECT_THAT(context.BindOutput("next", Values({1, 2, 3, 4})),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(context.SetState("state", Values({1})), StatusIs(absl::StatusCode::kInvalidArgument));
  const std::string none =
      "state \"x\": the input is none; states are \"state\"; name it in RunOptions::states";
  EXPECT_THAT(context.SetState("x", Values({1, 2, 3, 4})),
              StatusIs(absl::StatusCode::kNotFound, none));
  EXPECT_THAT(context.State("x"), StatusIs(absl::StatusCode::kNotFound, none));
}

TEST(States, OneThatWasBeingWrittenIsLost) {
  FakeProgram p;
  const int state = p.Input("state", {"4"});
  p.Kernel(kFail, {state}, {p.Output("next", {"4"})}, {"4"});
  p.proto().mutable_kernels(0)->mutable_choices(0)->add_in_place(0);
  p.proto().mutable_kernels(0)->mutable_choices(0)->add_in_place(0);
  RunOptions options;
  options.threads = 1;
  options.states = {{"state", "next"}};
  Model model = *Model::Create(p.Provider(), options);
  Context context = model.NewContext();
  EXPECT_TRUE(absl::IsInternal(context.Run()));
  EXPECT_THAT(context.Run(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("call SetState or ResetStates")));
  KILN_ASSERT_OK(context.ResetStates());
  EXPECT_TRUE(absl::IsInternal(context.Run()));
}

TEST(Arena, MayBeTheCallers) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), t = p.Temporary({"n"}), u = p.Temporary({"n"});
  p.Kernel(kNegate, {x}, {t}, {"n"});
  p.Kernel(kMix, {x, t}, {u}, {"n"});
  p.Kernel(kMix, {t, u}, {p.Output("y", {"n"})}, {"n"});
  Model model = *Model::Create(p.Provider(), {1});
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values(std::vector<float>(100, 1))));
  KILN_ASSERT_OK(context.Run());
  const int64_t bytes = context.report().arena;
  ASSERT_GT(bytes, 0);
  context.Trim();
  EXPECT_EQ(model.memory().arenas, 0);
  alignas(64) static uint8_t memory[4096];
  EXPECT_THAT(context.SetArena(memory + 1, 100), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(context.SetArena(memory, -1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is -1 bytes")));
  KILN_ASSERT_OK(context.SetArena(memory, bytes - 1));
  EXPECT_THAT(context.Run(), StatusIs(absl::StatusCode::kResourceExhausted,
                                      HasSubstr("give a larger one to SetArena")));
  KILN_ASSERT_OK(context.SetArena(memory, bytes));
  KILN_ASSERT_OK(context.Run());
  EXPECT_EQ(Read(*context.Output("y")), std::vector<float>(100, -3));
  EXPECT_EQ(model.memory().arenas, 0);
}

TEST(Arena, SeparateBuffersShareNothing) {
  FakeProgram p;
  int from = p.Input("x", {"n"});
  for (int i = 0; i < 6; ++i) {
    const int to = i == 5 ? p.Output("y", {"n"}) : p.Temporary({"n"});
    p.Kernel(kNegate, {from}, {to}, {"n"});
    from = to;
  }
  RunOptions options;
  options.threads = 1;
  options.temporaries = Temporaries::kSeparate;
  Model model = *Model::Create(p.Provider(), options);
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values(std::vector<float>(16, 1))));
  KILN_ASSERT_OK(context.Run());
  EXPECT_EQ(context.report().arena, 5 * (64 + 64));
  EXPECT_EQ(Read(*context.Output("y")), std::vector<float>(16, 1));
}

TEST(Arena, ModelsThatTakeTurnsShareOne) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), t = p.Temporary({"n"}), u = p.Temporary({"n"});
  p.Kernel(kNegate, {x}, {t}, {"n"});
  p.Kernel(kMix, {x, t}, {u}, {"n"});
  p.Kernel(kMix, {t, u}, {p.Output("y", {"n"})}, {"n"});
  const auto runtime = MakeRuntime({});
  RunOptions options;
  options.threads = 1;
  options.runtime = runtime;
  options.shared_arena = NewSharedArena();
  std::vector<Model> models;
  for (int i = 0; i < 4; ++i) models.push_back(*Model::Create(p.Provider(), options));
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (Model& model : models) {
    callers.emplace_back([&model, &wrong] {
      for (int i = 0; i < 200; ++i) {
        const auto y = model.Run({{"x", Values(std::vector<float>(1000, static_cast<float>(i)))}});
        if (!y.ok() || Read((*y)[0]) != std::vector<float>(1000, static_cast<float>(-3 * i)))
          ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  for (const Model& model : models) EXPECT_EQ(model.memory().arenas, 0);
  EXPECT_GT(runtime->metrics().memory_bytes, 0);
}

// Counts what it gives.
class CountingAllocator : public Allocator {
 public:
  void* Allocate(size_t bytes, size_t alignment) override {
    EXPECT_EQ(bytes % alignment, 0U);
    given += static_cast<int64_t>(bytes);
    ++calls;
    return std::aligned_alloc(alignment, bytes);
  }
  void Free(void* memory, size_t bytes) override {
    given -= static_cast<int64_t>(bytes);
    std::free(memory);
  }
  std::atomic<int64_t> given{0}, calls{0};
};

TEST(Runtime, MemoryComesFromTheHostAndGoesBack) {
  const auto allocator = std::make_shared<CountingAllocator>();
  {
    RunOptions options;
    options.runtime = MakeRuntime({.threads = 1, .allocator = allocator});
    Model model = *Model::Create(TwoOutputs().Provider(), options);
    KILN_ASSERT_OK_AND_ASSIGN(const auto y, model.Run({{"x", Values({1, 2})}}));
    EXPECT_EQ(allocator->given, options.runtime->metrics().memory_bytes);
    EXPECT_GE(allocator->calls, 2);
    model = Model();
    options.runtime.reset();
    EXPECT_GT(allocator->given, 0);  // outputs live on
    EXPECT_THAT(Read(y[0]), ElementsAre(-1, -2));
  }
  EXPECT_EQ(allocator->given, 0);
}

TEST(Runtime, BudgetsHold) {
  RunOptions options;
  options.runtime = MakeRuntime({.threads = 1, .memory_budget = 4096, .idle_budget = 1});
  Model model = *Model::Create(TwoOutputs().Provider(), options);
  KILN_ASSERT_OK(model.Run({{"x", Values({1, 2})}}).status());
  EXPECT_EQ(model.memory().idle_bytes, 0);
  EXPECT_EQ(options.runtime->metrics().memory_bytes, 0);
  EXPECT_THAT(model.Run({{"x", Values(std::vector<float>(2000, 1))}}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("memory_budget of 4096")));
  KILN_EXPECT_OK(model.Run({{"x", Values({1, 2})}}).status());
  EXPECT_EQ(options.runtime->metrics().runs, 2);
  EXPECT_EQ(options.runtime->metrics().failed_runs, 1);
}

// A region of four tasks, each of which notes its thread.
std::mutex seen_mutex;
std::set<std::thread::id> seen_threads;
int RegionFn(void** argv) {
  LaunchContext* const context = *static_cast<LaunchContext**>(argv[0]);
  const TaskFn task = [](void*, int, uint8_t*) {
    const std::lock_guard lock(seen_mutex);
    seen_threads.insert(std::this_thread::get_id());
    return 0;
  };
  context->parallel_for(context, task, 0, 4, nullptr);
  return NegateFn(argv);
}
const FakeKernel kRegion = {"region", kNegate.text, RegionFn, {}};

FakeProgram Region() {
  FakeProgram p;
  p.proto().set_parallel_grain(1);
  p.Kernel(kRegion, {p.Input("x", {"n"})}, {p.Output("y", {"n"})}, {"n"});
  return p;
}

// Threads of a host; may refuse.
class HostThreads : public Executor {
 public:
  explicit HostThreads(bool refuses) : refuses_(refuses) {}
  ~HostThreads() override {
    for (std::thread& thread : threads_) thread.join();
  }
  bool Start(int members, void (*task)(void*, int), void* data) override {
    ++starts;
    if (refuses_) return false;
    const std::lock_guard lock(mutex_);
    for (int m = 1; m < members; ++m) threads_.emplace_back([=] { task(data, m); });
    return true;
  }
  std::atomic<int> starts{0};

 private:
  const bool refuses_;
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

TEST(Runtime, RegionsRunOnThreadsOfTheHost) {
  for (const bool refuses : {false, true}) {
    const auto host = std::make_shared<HostThreads>(refuses);
    std::atomic<int> own{0};
    RunOptions options;
    options.runtime =
        MakeRuntime({.threads = 3, .on_thread_start = [&](int) { ++own; }, .executor = host});
    {
      Model model = *Model::Create(Region().Provider(), options);
      seen_threads.clear();
      for (int i = 0; i < 10; ++i)
        KILN_ASSERT_OK(model.Run({{"x", Values(std::vector<float>(64, 1))}}).status());
    }
    EXPECT_EQ(host->starts, 10);
    EXPECT_EQ(own, refuses ? 2 : 0);
    EXPECT_GE(seen_threads.size(), 3U);
    options.runtime.reset();
  }
}

TEST(Runtime, OneThreadStartsNone) {
  const int before = ThreadsOfProcess();
  RunOptions options;
  options.runtime = MakeRuntime({.threads = 1});
  Model model = *Model::Create(Region().Provider(), options);
  for (int i = 0; i < 10; ++i)
    KILN_ASSERT_OK(model.Run({{"x", Values(std::vector<float>(64, 1))}}).status());
  EXPECT_EQ(ThreadsOfProcess(), before);
}

// Threads that have, or wait for, a processor some time after a run, and the process's time in ms.
struct Idle {
  int runnable;
  double ms;
};
Idle AfterARun(std::chrono::microseconds spin) {
  RunOptions options;
  options.runtime = MakeRuntime({.threads = 3, .spin_time = spin});
  Model model = *Model::Create(Region().Provider(), options);
  KILN_EXPECT_OK(model.Run({{"x", Values(std::vector<float>(64, 1))}}).status());
  const std::clock_t start = std::clock();
  std::this_thread::sleep_for(milliseconds(100));
  const double ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return {RunnableThreads(), ms};
}

TEST(Runtime, IdleThreadsSleepAfterTheSpinTime) {
  for (const std::chrono::microseconds spin :
       {std::chrono::microseconds(0), std::chrono::microseconds(1000)}) {
    const Idle idle = AfterARun(spin);
    EXPECT_EQ(idle.runnable, 0);
    // What a thread takes to fall asleep on a machine that others use comes on top.
    EXPECT_LT(idle.ms, 2 * static_cast<double>(spin.count()) / 1000 + 5);
  }
  EXPECT_EQ(AfterARun(std::chrono::seconds(5)).runnable, 2);  // they would be seen
}

TEST(Runtime, ModelsShareItsThreads) {
  std::atomic<int> started{0};
  RunOptions options;
  options.runtime = MakeRuntime({.threads = 3, .on_thread_start = [&](int) { ++started; }});
  std::vector<Model> models;
  for (int i = 0; i < 5; ++i) models.push_back(*Model::Create(Region().Provider(), options));
  for (Model& model : models)
    KILN_ASSERT_OK(model.Run({{"x", Values(std::vector<float>(64, 1))}}).status());
  EXPECT_EQ(started, 2);
  EXPECT_TRUE(absl::IsInvalidArgument(Runtime::Create({.threads = -1}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      Runtime::Create({.spin_time = std::chrono::microseconds(-1)}).status()));
}

TEST(Runtime, CallbacksSurroundARun) {
  std::vector<std::string> events;
  RunOptions options;
  options.threads = 1;
  options.on_start = [&] { events.emplace_back("start"); };
  options.on_finish = [&](const absl::Status& status) {
    events.push_back(status.ok() ? "ok" : "failed");
  };
  Model model = *Model::Create(TwoOutputs().Provider(), options);
  KILN_ASSERT_OK(model.Run({{"x", Values({1})}}).status());
  EXPECT_FALSE(model.Run({}).ok());
  EXPECT_THAT(events, ElementsAre("start", "ok", "start", "failed"));
}

}  // namespace
}  // namespace kiln
