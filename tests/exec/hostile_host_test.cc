// SPDX-License-Identifier: Apache-2.0
// Hosts whose functions throw, call back, or answer what they should not: a call ends with a
// Status, nothing hangs, and what runs next is right.

#include <atomic>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kiln/model.h"
#include "kiln/runtime.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/fake_program.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kImage = size_t{4} * 160 * 160, kImages = 8;

// Average, negate, average: library operators that a batch walks through in parts.
FakeProgram Averages() {
  FakeProgram p;
  const FakeProgram::Texts shape = {"n", "4", "160", "160"};
  const auto average = [&](int from, int to) {
    program::LibraryThunk& pool = p.Library("average_pool");
    FakeProgram::Ref(*pool.add_inputs(), from, shape);
    FakeProgram::Ref(*pool.add_outputs(), to, shape);
    for (const auto& [name, values] :
         {std::pair<const char*, std::vector<int64_t>>{"kernel", {3, 3}}, {"pads", {1, 1, 1, 1}}}) {
      program::Attribute& attribute = *pool.add_attributes();
      attribute.set_name(name);
      for (const int64_t value : values) attribute.add_ints(value);
    }
  };
  const int x = p.Input("x", shape), y = p.Output("y", shape);
  const int first = p.Temporary(shape), second = p.Temporary(shape);
  average(x, first);
  p.Kernel(kNegate, {first}, {second}, {"n*4*160*160"});
  average(second, y);
  return p;
}

// y = -(-(-x)), by launches of their own.
FakeProgram Chain() {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), s = p.Temporary({"n"}), t = p.Temporary({"n"});
  p.Kernel(kNegate, {x}, {s}, {"n"});
  p.Kernel(kNegate, {s}, {t}, {"n"});
  p.Kernel(kNegate, {t}, {p.Output("y", {"n"})}, {"n"});
  return p;
}

// next = state + 2 * x, in place.
FakeProgram Accumulator(const std::string& extent) {
  FakeProgram p;
  const int state = p.Input("state", {extent}), x = p.Input("x", {extent});
  p.Kernel(kMix, {state, x}, {p.Output("next", {extent})}, {extent});
  return p;
}

std::shared_ptr<Runtime> MakeRuntime(RuntimeOptions options) {
  return *Runtime::Create(std::move(options));
}

class HostileHost : public testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kOff); }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }
};

// ---- Functions that throw.

TEST_F(HostileHost, OnThunkThrowsWithinABatchTiling) {
  std::vector<float> x(kImages * kImage);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97);
  const Tensor input = Values(x, {kImages, 4, 160, 160});
  Model plain = *Model::Create(Averages().Provider(), {.threads = 1});
  KILN_ASSERT_OK_AND_ASSIGN(const auto want, plain.Run({{"x", input}}));
  int calls = 0, throws_at = 0;
  RunOptions options{.threads = 1};
  options.on_thunk = [&](const ThunkView&) {
    if (++calls == throws_at) throw std::runtime_error("seen enough");
    return absl::OkStatus();
  };
  Model model = *Model::Create(Averages().Provider(), options);
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", input));
  KILN_ASSERT_OK(context.Run());
  ASSERT_GT(calls, 3);  // it is walked through in parts
  for (const int at : {2, calls - 1, calls}) {
    calls = 0;
    throws_at = at;
    EXPECT_THAT(context.Run(), StatusIs(absl::StatusCode::kInternal, HasSubstr("seen enough")));
    throws_at = 0;
    KILN_ASSERT_OK(context.Run());
    ASSERT_EQ(Read(*context.Output("y")), Read(want[0])) << at;
  }
}

TEST_F(HostileHost, OnThunkThrowsWhileAStateIsWritten) {
  bool throws = false;
  std::vector<bool> finished;
  RunOptions options{.threads = 1, .states = {{"state", "next"}}};
  options.on_thunk = [&](const ThunkView&) {
    if (throws) throw std::runtime_error("seen enough");
    return absl::OkStatus();
  };
  options.on_finish = [&](const absl::Status& status) { finished.push_back(status.ok()); };
  options.runtime = MakeRuntime({.threads = 1});
  Model model = *Model::Create(Accumulator("2").Provider(), options);
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2})));
  KILN_ASSERT_OK(context.Run());
  throws = true;
  EXPECT_THAT(context.Run(), StatusIs(absl::StatusCode::kInternal, HasSubstr("seen enough")));
  throws = false;
  EXPECT_THAT(context.Run(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("call SetState")));
  KILN_ASSERT_OK(context.ResetStates());
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(*context.State("state")), ElementsAre(2, 4));
  EXPECT_THAT(finished, ElementsAre(true, false, false, true));
  EXPECT_EQ(options.runtime->metrics().failed_runs, 2);
}

// A region of four tasks.
int RegionFn(void** argv) {
  LaunchContext* const context = *static_cast<LaunchContext**>(argv[0]);
  const TaskFn task = [](void*, int, uint8_t*) { return 0; };
  context->parallel_for(context, task, 0, 4, nullptr);
  return NegateFn(argv);
}
const FakeKernel kRegion = {"region", kNegate.text, RegionFn, {}};

void RunRegions(RuntimeOptions runtime) {
  RunOptions options;
  options.runtime = MakeRuntime(std::move(runtime));
  FakeProgram p;
  p.proto().set_parallel_grain(1);
  p.Kernel(kRegion, {p.Input("x", {"n"})}, {p.Output("y", {"n"})}, {"n"});
  Model model = *Model::Create(p.Provider(), options);
  for (int run = 0; run < 5; ++run) {
    KILN_ASSERT_OK_AND_ASSIGN(const auto y, model.Run({{"x", Values(std::vector<float>(64, 1))}}));
    EXPECT_THAT(Read(y[0]), testing::Each(-1));
  }
}

TEST_F(HostileHost, OnThreadStartThrows) {
  std::atomic<int> started{0};
  RunRegions({.threads = 3, .on_thread_start = [&](int) {
                ++started;
                throw std::runtime_error("no affinity");
              }});
  EXPECT_EQ(started, 2);
}

class ThrowingExecutor : public Executor {
 public:
  bool Start(int, void (*)(void*, int), void*) override { throw std::bad_alloc(); }
};

TEST_F(HostileHost, AnExecutorThatThrowsRefuses) {
  RunRegions({.threads = 3, .executor = std::make_shared<ThrowingExecutor>()});
}

enum class Gives { kMemory, kNothing, kThrow, kMisaligned };

class OddAllocator : public Allocator {
 public:
  void* Allocate(size_t bytes, size_t alignment) override {
    if (gives == Gives::kNothing) return nullptr;
    if (gives == Gives::kThrow) throw std::runtime_error("allocator");
    char* const memory = static_cast<char*>(std::aligned_alloc(alignment, bytes + alignment));
    ++given;
    return memory + (gives == Gives::kMisaligned ? 8 : 0);
  }
  void Free(void* memory, size_t) override {
    --given;
    std::free(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(memory) / 64 * 64));
  }
  Gives gives = Gives::kMemory;
  int given = 0;
};

TEST_F(HostileHost, AnAllocatorThatGivesNoMemoryIsAnError) {
  const auto allocator = std::make_shared<OddAllocator>();
  RunOptions options;
  options.runtime = MakeRuntime({.threads = 1, .allocator = allocator, .memory_budget = 4096});
  {
    Model model = *Model::Create(Chain().Provider(), options);
    const auto run = [&](Gives gives) {
      allocator->gives = gives;
      return model.Run({{"x", Values({1, 2})}}).status();
    };
    for (int round = 0; round < 40; ++round) {  // beyond the budget, if it were not given back
      EXPECT_THAT(run(Gives::kNothing), StatusIs(absl::StatusCode::kResourceExhausted));
      EXPECT_THAT(run(Gives::kThrow),
                  StatusIs(absl::StatusCode::kInternal, HasSubstr("allocator")));
      EXPECT_THAT(run(Gives::kMisaligned),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           "allocator: gave 64 bytes at an address that is 8 beyond a multiple of "
                           "64; give aligned memory"));
      model.Trim();
      EXPECT_EQ(options.runtime->metrics().memory_bytes, 0);
    }
    KILN_EXPECT_OK(run(Gives::kMemory));
  }
  EXPECT_EQ(allocator->given, 0);
}

// ---- Functions that call back.

TEST_F(HostileHost, OnThunkMayRunModels) {
  for (const int threads : {1, 3}) {
    Model other = *Model::Create(Chain().Provider(), {.threads = threads});
    int depth = 0;
    Model model;
    RunOptions options{.threads = threads};
    options.on_thunk = [&](const ThunkView&) -> absl::Status {
      if (depth > 0) return absl::OkStatus();
      ++depth;
      for (Model* callee : {&model, &other}) {
        auto y = callee->Run({{"x", Values({3})}});
        if (!y.ok()) return y.status();
        EXPECT_THAT(Read((*y)[0]), ElementsAre(-3));
      }
      --depth;
      return absl::OkStatus();
    };
    model = *Model::Create(Chain().Provider(), options);
    KILN_ASSERT_OK_AND_ASSIGN(const auto y, model.Run({{"x", Values({1, 2})}}));
    EXPECT_THAT(Read(y[0]), ElementsAre(-1, -2));
    KILN_EXPECT_OK(model.Run({{"x", Values({1, 2})}}).status());
  }
}

TEST_F(HostileHost, OnThunkMayNotRunWhatSharesTheArena) {
  const auto arena = NewSharedArena();
  Model other = *Model::Create(Chain().Provider(), {.threads = 1, .shared_arena = arena});
  RunOptions options{.threads = 1, .shared_arena = arena};
  options.on_thunk = [&](const ThunkView&) { return other.Run({{"x", Values({3})}}).status(); };
  Model model = *Model::Create(Chain().Provider(), options);
  EXPECT_THAT(model.Run({{"x", Values({1, 2})}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("shared_arena")));
  KILN_EXPECT_OK(other.Run({{"x", Values({3})}}).status());
}

TEST_F(HostileHost, OnPlanMayNotRunTheModel) {
  for (const int level : {0, 1}) {
    Model model;
    absl::Status inner;
    RunOptions options{.threads = 1, .record_level = level};
    options.on_plan = [&](const PlanInfo&) { inner = model.Run({{"x", Values({3})}}).status(); };
    model = *Model::Create(Chain().Provider(), options);
    KILN_EXPECT_OK(model.Run({{"x", Values({1})}}).status());
    EXPECT_THAT(inner, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("on_plan")));
  }
}

// ---- Runs on threads of the host.

// Has tasks done by a thread, in the way that it is told.
class OddExecutor : public Executor {
 public:
  enum class Way { kOnce, kTwice, kThenThrows, kThenRefuses };
  explicit OddExecutor(Way way) : way_(way) {}
  ~OddExecutor() override { Join(); }
  bool Start(int members, void (*task)(void*, int), void* data) override {
    if (members != 2) return false;
    std::thread([=] { task(data, 1); }).swap(first_);
    if (way_ != Way::kOnce) first_.join();
    if (way_ == Way::kTwice) std::thread([=] { task(data, 1); }).swap(second_);
    if (way_ == Way::kThenThrows) throw std::runtime_error("after all");
    return way_ != Way::kThenRefuses;
  }
  void Join() {
    for (std::thread* thread : {&first_, &second_})
      if (thread->joinable()) thread->join();
  }

 private:
  const Way way_;
  std::thread first_, second_;
};

TEST_F(HostileHost, AnAsynchronousRunIsDoneOnce) {
  using Way = OddExecutor::Way;
  for (const Way way : {Way::kOnce, Way::kTwice, Way::kThenThrows, Way::kThenRefuses}) {
    const auto executor = std::make_shared<OddExecutor>(way);
    RunOptions options;
    options.runtime = MakeRuntime({.threads = 1, .executor = executor});
    Model model = *Model::Create(Chain().Provider(), options);
    std::atomic<int> done{0};
    model.RunAsync({{"x", Values({1})}}, [&](const auto& result) {
      KILN_EXPECT_OK(result.status());
      ++done;
    });
    executor->Join();
    EXPECT_EQ(done, 1);
  }
}

TEST_F(HostileHost, DoneMayBeNothingOrThrow) {
  for (const bool own : {false, true}) {
    const auto executor = std::make_shared<OddExecutor>(OddExecutor::Way::kOnce);
    RunOptions options;
    options.runtime = MakeRuntime({.threads = 1, .executor = own ? executor : nullptr});
    Model model = *Model::Create(Chain().Provider(), options);
    model.RunAsync({{"x", Values({1})}}, nullptr);
    executor->Join();
    model.RunAsync({{"x", Values({1})}}, [](const auto&) { throw std::runtime_error("done"); });
    executor->Join();
    std::promise<absl::Status> last;
    model.RunAsync({{"x", Values({1})}}, [&](const auto& r) { last.set_value(r.status()); });
    KILN_EXPECT_OK(last.get_future().get());
    executor->Join();  // the result, which holds the runtime and so the executor, ends there
  }
}

TEST_F(HostileHost, ARunThatIsDoneHoldsNothing) {
  auto owner = std::make_shared<int>(0);
  const std::weak_ptr<int> input = owner;
  float x = 1;
  RunOptions options;
  options.runtime = MakeRuntime({.threads = 1});
  const std::weak_ptr<Runtime> runtime = options.runtime;
  auto model = std::make_unique<Model>(*Model::Create(Chain().Provider(), options));
  options.runtime.reset();
  std::promise<void> go;
  std::promise<std::pair<bool, bool>> gone;
  model->RunAsync({{"x", Tensor::View(&x, DType::kF32, {1}, {}, std::move(owner))}},
                  [&](absl::StatusOr<std::vector<Tensor>> result) {
                    KILN_EXPECT_OK(result.status());
                    result = absl::CancelledError();  // its memory is the runtime's
                    go.get_future().wait();
                    gone.set_value({input.expired(), runtime.expired()});
                  });
  model.reset();
  go.set_value();
  EXPECT_EQ(gone.get_future().get(), std::pair(true, true));
}

// ---- Values that are none, or beyond all memory.

TEST_F(HostileHost, NumbersThatAreNoTypesAreErrors) {
  Model model = *Model::Create(Chain().Provider(), {.threads = 1});
  Context context = model.NewContext();
  float x = 0;
  EXPECT_THAT(context.Bind("x", Tensor::View(&x, static_cast<DType>(77), {1})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "input \"x\": type is no type, expected f32; convert the tensor"));
  EXPECT_THAT(Runtime::Create({.build_jobs = 2'000'000'000}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "runtime: build_jobs is 2000000000, expected 0 to 1024"));
}

TEST_F(HostileHost, AStateOfExabytesIsAnError) {
  RunOptions options{.threads = 1, .states = {{"state", "next"}}};
  Model open = *Model::Create(Accumulator("n").Provider(), options);
  Context context = open.NewContext();
  float zero = 0;
  for (const int shift : {58, 60}) {
    const int64_t count = (int64_t{1} << shift) + 1;
    EXPECT_THAT(context.SetState("state", Tensor::View(&zero, DType::kF32, {count}, {0})),
                StatusIs(absl::StatusCode::kResourceExhausted))
        << shift;
  }
  Model fixed = *Model::Create(Accumulator("1152921504606846977").Provider(), options);
  EXPECT_THAT(fixed.Run({{"x", Tensor::View(&zero, DType::kF32, {1152921504606846977}, {0})}}),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace kiln
