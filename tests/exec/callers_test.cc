// SPDX-License-Identifier: Apache-2.0
// Many callers of one Model: right results, never more threads than the cap, nothing allocated and
// nothing copied per run.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "exec/model_state.h"
#include "exec/script.h"
#include "exec/support/admission.h"
#include "gtest/gtest.h"
#include "kiln/model.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/fake_program.h"

namespace {
std::atomic<int64_t> allocations{0};
}

// Sanitizers have their own. Not inlined: the compiler takes the pair of malloc and free that it
// would see for a mismatch.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace kiln {
namespace {

// Counts who works at the same time. Work is sleep: it overlaps on one processor too.
struct Work {
  std::atomic<int> now{0}, most{0};

  void Do(int microseconds) {
    int seen = most;
    const int running = ++now;
    while (running > seen && !most.compare_exchange_weak(seen, running)) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    --now;
  }
};
Work work;

// A kernel that works on its caller, then in a region of two tasks; y = -x.
int BusyFn(void** argv) {
  work.Do(200);
  LaunchContext* const context = *static_cast<LaunchContext**>(argv[0]);
  const TaskFn task = [](void*, int, uint8_t*) {
    work.Do(200);
    return 0;
  };
  const int error = context->parallel_for(context, task, 0, 2, nullptr);
  return error != 0 ? error : NegateFn(argv);
}
const FakeKernel kBusy = {"busy", kNegate.text, BusyFn, {0, 0}};

// Five busy kernels in a row: y = -x. With a grain of 1 element no plan is too small for threads.
FakeProgram BusyChain(int64_t grain) {
  FakeProgram p;
  p.proto().set_parallel_grain(grain);
  int from = p.Input("x", {"n"});
  for (int i = 0; i < 4; ++i) {
    const int to = p.Temporary({"n"});
    p.Kernel(kBusy, {from}, {to}, {"n"});
    from = to;
  }
  p.Kernel(kBusy, {from}, {p.Output("y", {"n"})}, {"n"});
  return p;
}

// Wrong results of `callers` threads with `runs` runs each.
int WrongRuns(Model& model, int callers, int runs) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int c = 0; c < callers; ++c) {
    threads.emplace_back([&, c] {
      for (int i = 0; i < runs; ++i) {
        const auto n = static_cast<size_t>(8 + (c + i) % 3);
        std::vector<float> x(n);
        std::iota(x.begin(), x.end(), static_cast<float>(c * 1000 + i));
        const auto y = model.Run({{"x", Values(x)}});
        for (float& v : x) v = -v;
        if (!y.ok() || Read((*y)[0]) != x) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

// Whether `holds` becomes true when it is asked every `pause` for some seconds.
bool Becomes(std::chrono::microseconds pause, const std::function<bool()>& holds) {
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
       std::chrono::steady_clock::now() < end;) {
    if (holds()) return true;
    std::this_thread::sleep_for(pause);
  }
  return false;
}

TEST(Callers, NeverRunMoreThreadsThanTheCap) {
  for (const int64_t grain : {int64_t{1}, int64_t{1} << 20}) {  // plans with regions, serial plans
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat("grain ", grain, ", threads ", threads));
      Model model = *Model::Create(BusyChain(grain).Provider(), {threads});
      work.most = 0;
      // Where others have the processors, a worker may come late to all regions of a round.
      EXPECT_TRUE(Becomes(std::chrono::microseconds(0), [&] {
        EXPECT_EQ(WrongRuns(model, 4, 10), 0);
        return work.most >= std::min(threads, 2);
      }));
      EXPECT_LE(work.most, threads);
    }
  }
}

// KILN_CALLER_RUNS, else 1,000: runs of each of 32 callers; 10,000 under ThreadSanitizer.
int CallerRuns() { return static_cast<int>(FromEnvironment("KILN_CALLER_RUNS", 1000)); }

// y = -x, by three kernels.
FakeProgram NegateChain() {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), t = p.Temporary({"n"}), u = p.Temporary({"n"});
  p.Kernel(kNegate, {x}, {t}, {"n"});
  p.Kernel(kNegate, {t}, {u}, {"n"});
  p.Kernel(kNegate, {u}, {p.Output("y", {"n"})}, {"n"});
  return p;
}

TEST(Callers, ThirtyTwoGetRightResults) {
  Model model = *Model::Create(NegateChain().Provider(), {2});
  EXPECT_EQ(WrongRuns(model, 32, CallerRuns()), 0);
}

// One of many callers: runs, gives up the models of asynchronous runs that are not done, is
// cancelled by whoever has the flag, trims, and makes models and contexts anew.
class RestlessCaller {
 public:
  RestlessCaller(std::shared_ptr<VariantProvider> provider,
                 std::shared_ptr<std::atomic<bool>> cancel, int number)
      : provider_(std::move(provider)), cancel_(std::move(cancel)), number_(number) {}

  void Work(int runs) {
    for (int i = number_; i < number_ + runs; ++i) Step(i);
    while (pending_ > 0) std::this_thread::yield();
  }
  int wrong() const { return wrong_; }
  int right() const { return right_; }

 private:
  void Step(int i) {
    if (i % 37 == 0) model_ = *Model::Create(provider_, {2});
    if (i % 5 == 0) context_ = model_.NewContext();
    if (i % 53 == 0) model_.Trim();
    const std::vector<float> x(static_cast<size_t>(8 + i % 3), static_cast<float>(i));
    RunControl control;
    if (i % 2 == 0) control.cancel = cancel_;
    if (i % 11 == 0) control.deadline = std::chrono::steady_clock::now();
    if (i % 3 == 0) {
      ++pending_;
      model_.RunAsync(
          {{"x", Values(x)}},
          [this, x](absl::StatusOr<std::vector<Tensor>> y) {
            Count(x, y.status(), y.ok() ? Read((*y)[0]) : std::vector<float>());
            --pending_;
          },
          control);
      return;
    }
    absl::Status status = context_.Bind("x", Values(x));
    if (status.ok()) status = context_.Run(control);
    Count(x, status, status.ok() ? Read(*context_.Output("y")) : std::vector<float>());
  }

  void Count(std::vector<float> x, const absl::Status& status, const std::vector<float>& y) {
    for (float& v : x) v = -v;
    if (status.ok() && x == y) {
      ++right_;
    } else if (!absl::IsCancelled(status) && !absl::IsDeadlineExceeded(status)) {
      ++wrong_;
    }
  }

  const std::shared_ptr<VariantProvider> provider_;
  const std::shared_ptr<std::atomic<bool>> cancel_;
  const int number_;
  Model model_ = *Model::Create(provider_, {2});
  Context context_ = model_.NewContext();
  std::atomic<int> pending_{0}, wrong_{0}, right_{0};
};

TEST(Callers, ThirtyTwoCancelAndGiveUpModelsThatOthersRun) {
  const auto cancel = std::make_shared<std::atomic<bool>>(false);
  const auto provider = NegateChain().Provider();
  std::vector<std::unique_ptr<RestlessCaller>> callers;
  std::vector<std::thread> threads;
  for (int c = 0; c < 32; ++c)
    callers.push_back(std::make_unique<RestlessCaller>(provider, cancel, c));
  for (const auto& caller : callers)
    threads.emplace_back([&caller] { caller->Work(CallerRuns() / 4); });
  std::atomic<bool> over{false};
  std::thread canceller([&] {
    for (int i = 0; !over; ++i) {
      *cancel = i % 2 == 0;
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  });
  for (std::thread& thread : threads) thread.join();
  over = true;
  canceller.join();
  for (const auto& caller : callers) {
    EXPECT_EQ(caller->wrong(), 0);
    EXPECT_GT(caller->right(), 0);
  }
}

TEST(Callers, AChildAfterForkRunsWhileTheParentsCallersDo) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer allows no new threads after a fork";
#endif
  Model model = *Model::Create(BusyChain(1).Provider(), {2});
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2, 3, 4})));
  KILN_ASSERT_OK(context.Run());
  std::atomic<bool> stop{false};
  std::thread caller([&] {
    Context other = model.NewContext();
    KILN_EXPECT_OK(other.Bind("x", Values({1, 2, 3, 4})));
    while (!stop) KILN_EXPECT_OK(other.Run());
  });
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      const bool right = context.Run().ok() && Read(*context.Output("y"))[3] == -4;
      _exit(right ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
  caller.join();
}

TEST(Callers, ARunAllocatesNothing) {
  FakeProgram p = BusyChain(1);
  const int x = 0, z = p.Output("z", {"n"}), s = p.Output("s", {"1"});
  p.Copy(x, z, {"n"});
  program::HostThunk& host = *p.region().add_thunks()->mutable_host();
  host.set_op("dims");
  host.add_dims("n");
  FakeProgram::Ref(*host.add_outputs(), s, {"1"});
  host.mutable_outputs(0)->set_dtype(static_cast<uint32_t>(DType::kI32));
  Model model = *Model::Create(p.Provider(), {2});
  Context context = model.NewContext();
  const Tensor first = Values({1, 2, 3, 4}), second = Values({5, 6, 7, 8});
  for (int i = 0; i < 3; ++i) {
    KILN_ASSERT_OK(context.Bind("x", first));
    KILN_ASSERT_OK(context.Run());
  }
  const int64_t before = allocations;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(context.Run().ok());
  EXPECT_EQ(allocations, before);
  KILN_ASSERT_OK(context.Bind("x", second));
  const int64_t bound = allocations;
  ASSERT_TRUE(context.Run().ok());
  EXPECT_EQ(allocations, bound);
}

// Where the kernel found its operands.
const void *seen_x = nullptr, *seen_y = nullptr;
int LookFn(void** argv) {
  seen_x = In(argv, 0);
  seen_y = Out(argv, 3);
  return NegateFn(argv);
}
const FakeKernel kLook = {"look", kNegate.text, LookFn, {}};

TEST(Callers, DenseInputsAndOutputsAreUsedWhereTheyLie) {
  FakeProgram p;
  p.Kernel(kLook, {p.Input("x", {"n"})}, {p.Output("y", {"n"})}, {"n"});
  Model model = *Model::Create(p.Provider(), {1});
  Context context = model.NewContext();
  const Tensor x = Values({1, 2, 3}), y = Values({0, 0, 0});
  KILN_ASSERT_OK(context.Bind("x", x));
  KILN_ASSERT_OK(context.BindOutput("y", y));
  KILN_ASSERT_OK(context.Run());
  EXPECT_EQ(seen_x, x.data());
  EXPECT_EQ(seen_y, y.data());
  KILN_ASSERT_OK_AND_ASSIGN(const auto out, model.Run({{"x", x}}));
  EXPECT_EQ(seen_x, x.data());
  EXPECT_EQ(seen_y, out[0].data());
}

TEST(Memory, LargeOnesLieOnHugePages) {
  constexpr int64_t kHuge = int64_t{2} << 20;
  Memory memory(Runtime::Default(), std::make_shared<std::atomic<int64_t>>(0));
  KILN_ASSERT_OK(memory.Reserve(1000));
  EXPECT_EQ(memory.size(), 1024);
  KILN_ASSERT_OK(memory.Reserve(5 << 20));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % kHuge, 0U);
  EXPECT_EQ(memory.size(), 3 * kHuge);
  static_cast<uint8_t*>(memory.data())[memory.size() - 1] = 1;
}

TEST(Admission, OneShareLetsAsManyInAsThereAreThreads) {
  Pool pool(3);
  Work at_once;
  std::vector<std::thread> threads;
  for (int c = 0; c < 6; ++c) {
    threads.emplace_back([&, c] {
      for (int i = 0; i < 50; ++i) {
        if (c == 0) {
          const Admission admission(pool, Admission::Share::kExclusive);
          EXPECT_EQ(at_once.now, 0);
        } else {
          const Admission admission(pool, Admission::Share::kShared);
          at_once.Do(100);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(at_once.most, 3);
  EXPECT_GE(at_once.most, 2);
}

TEST(Admission, NobodyPassesTheOneThatWaitsForAll) {
  AdmissionQueue queue(2);
  queue.Enter(2);
  std::thread other([&] {
    queue.Enter(2);
    queue.Leave(2);
  });
  queue.Leave(1);
  const auto refused = [&] {
    if (!queue.TryEnter(1)) return true;
    queue.Leave(1);
    return false;
  };
  EXPECT_TRUE(Becomes(std::chrono::milliseconds(1), refused));  // the other waits now,
  std::this_thread::sleep_for(std::chrono::milliseconds(30));   // and has for long
  EXPECT_TRUE(refused());
  queue.Leave(1);
  other.join();
}

TEST(Admission, ReadyOneHasThreadsThatAreAwakeToItself) {
  Pool alone(1);
  EXPECT_FALSE(alone.Ready());
  Pool pool(3);
  const auto whole = [&] { return Admission(pool, Admission::Share::kOpportunistic).exclusive(); };
  EXPECT_FALSE(whole());  // no threads yet, and it may be the only time
  EXPECT_TRUE(Becomes(std::chrono::microseconds(0), whole));
  EXPECT_TRUE(Becomes(std::chrono::milliseconds(20), [&] { return !whole(); }));  // they sleep
  EXPECT_TRUE(Becomes(std::chrono::microseconds(0), whole));
  std::promise<void> has, ends;
  std::thread other([&] {
    const Admission admission(pool, Admission::Share::kShared);
    has.set_value();
    ends.get_future().wait();
  });
  has.get_future().wait();
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(whole());
  ends.set_value();
  other.join();
  EXPECT_FALSE(whole());  // the other comes again, perhaps
  EXPECT_TRUE(Becomes(std::chrono::microseconds(0), whole));
}

TEST(Admission, OneWithinAnotherHasWhatThatHas) {
  using Share = Admission::Share;
  Pool pool(3), second(1);
  for (const Share inner : {Share::kShared, Share::kOpportunistic, Share::kExclusive}) {
    for (const Share outer : {Share::kShared, Share::kExclusive}) {
      const Admission around(pool, outer);
      const Admission beside(second, Share::kExclusive);
      const Admission within(pool, inner);  // without waiting
      EXPECT_EQ(within.exclusive(), outer == Share::kExclusive);
    }
    pool.admission_queue().Enter(3);  // all were given back
    pool.admission_queue().Leave(3);
  }
}

TEST(Admission, ReadyOnesWorkBesideEachOther) {
  Pool pool(3);
  Work at_once;
  std::vector<std::thread> threads;
  for (int c = 0; c < 6; ++c) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const Admission admission(pool, Admission::Share::kOpportunistic);
        EXPECT_TRUE(!admission.exclusive() || at_once.now == 0);
        at_once.Do(100);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(at_once.most, 3);
  EXPECT_GE(at_once.most, 2);
}

}  // namespace
}  // namespace kiln
