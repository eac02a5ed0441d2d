// SPDX-License-Identifier: Apache-2.0
// oneDNN on Kiln's pool, in a program that uses OpenMP itself.
#include "exec/support/openmp_shim.h"

#include <dlfcn.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "exec/library/library.h"
#include "exec/library/omp_scope.h"
#include "exec/support/pool.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/base/threads_of_process.h"

namespace kiln::library {
namespace {

// libkomp's entry points as oneDNN's copy binds them.
template <typename Function>
Function Entry(const char* name, const char* version = "KILN_1.0") {
  void* library = dlopen("libkomp.so.1", RTLD_NOW | RTLD_NOLOAD);
  void* symbol = library != nullptr ? dlvsym(library, name, version) : nullptr;
  EXPECT_NE(symbol, nullptr) << name;
  return reinterpret_cast<Function>(symbol);
}

struct Omp {
  void (*start)(void (*)(void*), void*, unsigned) = Entry<decltype(start)>("GOMP_parallel_start");
  void (*end)() = Entry<decltype(end)>("GOMP_parallel_end");
  void (*barrier)() = Entry<decltype(barrier)>("GOMP_barrier");
  bool (*loop_start)(long, long, long, long, long*,
                     long*) = Entry<decltype(loop_start)>("GOMP_loop_static_start");
  bool (*loop_next)(long*, long*) = Entry<decltype(loop_next)>("GOMP_loop_static_next");
  int (*size)() = Entry<decltype(size)>("omp_get_num_threads", "ILN_1.0");
  int (*member)() = Entry<decltype(member)>("omp_get_thread_num", "ILN_1.0");
  int (*most)() = Entry<decltype(most)>("omp_get_max_threads", "ILN_1.0");
  int (*in_parallel)() = Entry<decltype(in_parallel)>("omp_in_parallel", "ILN_1.0");

  template <typename F>
  void Region(unsigned count, F body) const {
    void (*const call)(void*) = [](void* data) { (*static_cast<F*>(data))(); };
    start(call, &body, count);
    call(&body);
    end();
  }
};

TEST(OpenmpShim, ARegionHasExactlyTheMembersAskedFor) {
  const Omp omp;
  Pool pool(4);
  const OmpPool lent(&pool);
  const OmpScope scope(lent);
  EXPECT_EQ(omp.most(), 4);
  EXPECT_FALSE(omp.in_parallel());
  for (const auto& [asked, given] :
       std::vector<std::pair<unsigned, int>>{{0, 4}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {9, 4}}) {
    std::atomic<int> calls{0}, members{0};
    omp.Region(asked, [&, want = given] {
      ++calls;
      members += 1 << (8 * omp.member());
      EXPECT_EQ(omp.size(), want);
      EXPECT_EQ(omp.in_parallel(), want > 1);
    });
    EXPECT_EQ(calls, given) << asked;
    EXPECT_EQ(members, static_cast<int>(0x01010101U & ((uint64_t{1} << (8 * given)) - 1))) << asked;
  }
  EXPECT_EQ(omp.member(), 0);
}

TEST(OpenmpShim, NestedAndUnboundRegionsHaveOneMember) {
  const Omp omp;
  EXPECT_EQ(omp.most(), 1);
  omp.Region(8, [&] { EXPECT_EQ(omp.size(), 1); });
  Pool pool(2);
  const OmpPool lent(&pool);
  const OmpScope scope(lent);
  std::atomic<int> inner{0};
  omp.Region(2, [&] {
    omp.Region(2, [&] {
      ++inner;
      EXPECT_EQ(omp.size(), 1);
      EXPECT_EQ(omp.member(), 0);
      omp.barrier();
    });
    EXPECT_EQ(omp.size(), 2);
  });
  EXPECT_EQ(inner, 2);
  // The library inside a kernel's region.
  pool.ParallelFor(2, [&](int64_t, int64_t) {
    const OmpScope inside(lent);
    EXPECT_TRUE(omp.in_parallel());
    omp.Region(2, [&] { EXPECT_EQ(omp.size(), 1); });
    return 0;
  });
}

TEST(OpenmpShim, BarriersHoldEveryMember) {
  const Omp omp;
  Pool pool(3);
  const OmpPool lent(&pool);
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&] {
      const OmpScope scope(lent);
      for (int round = 0; round < 100; ++round) {
        std::atomic<int> arrived{0};
        omp.Region(3, [&] {
          for (int phase = 1; phase <= 3; ++phase) {
            ++arrived;
            omp.barrier();
            EXPECT_EQ(arrived, 3 * phase);
            omp.barrier();
          }
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(OpenmpShim, StaticLoopsCoverTheirRangeInAFixedPartition) {
  const Omp omp;
  Pool pool(3);
  const OmpPool lent(&pool);
  const OmpScope scope(lent);
  const auto owners = [&](long begin, long end, long step, long chunk) {
    std::vector<int> owner(40, -1);
    omp.Region(3, [&] {
      long from, to;
      for (bool more = omp.loop_start(begin, end, step, chunk, &from, &to); more;
           more = omp.loop_next(&from, &to)) {
        for (long i = from; step > 0 ? i < to : i > to; i += step)
          owner[static_cast<size_t>(i)] = omp.member();
      }
    });
    return owner;
  };
  const auto first = [&](std::vector<int> owner, size_t n) {
    owner.resize(n);
    return owner;
  };
  EXPECT_EQ(first(owners(0, 10, 1, 0), 10), (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(first(owners(0, 2, 1, 0), 3), (std::vector<int>{0, 1, -1}));
  EXPECT_EQ(first(owners(0, 10, 1, 2), 11), (std::vector<int>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, -1}));
  EXPECT_EQ(first(owners(1, 8, 3, 1), 9), (std::vector<int>{-1, 0, -1, -1, 1, -1, -1, 2, -1}));
  EXPECT_EQ(first(owners(5, 0, -1, 0), 7), (std::vector<int>{-1, 2, 1, 1, 0, 0, -1}));
  EXPECT_EQ(first(owners(3, 3, 1, 0), 5), (std::vector<int>(5, -1)));
}

// ---- the library on it

// y = x w with x [m, k] of ones and w [k, n] of twos.
class Product {
 public:
  Product(int64_t m, int64_t k, int64_t n, const std::shared_ptr<Session>& session)
      : k_(k),
        x_(static_cast<size_t>(m * k), 1),
        w_(static_cast<size_t>(k * n), 2),
        y_(static_cast<size_t>(m * n)) {
    const auto describe = [](int64_t rows, int64_t columns) {
      return Operand{true, DType::kF32, {rows, columns}, {columns, 1}, nullptr};
    };
    Request request;
    request.inputs = {describe(m, k), describe(k, n)};
    request.outputs = {describe(m, n)};
    primitive_ = *Make(*Find("matmul"), request, session);
    scratch_ = Tensor::Allocate(DType::kU8, {primitive_->scratch_bytes() + 64});
  }

  bool Right() {
    std::fill(y_.begin(), y_.end(), 0.0F);
    void *inputs[] = {x_.data(), w_.data()}, *outputs[] = {y_.data()};
    const absl::Status status = primitive_->Run({inputs, outputs, scratch_.data(), nullptr});
    for (const float v : y_) {
      if (v != 2 * static_cast<float>(k_)) return false;
    }
    return status.ok();
  }

 private:
  int64_t k_;
  std::vector<float> x_, w_, y_;
  std::unique_ptr<Primitive> primitive_;
  Tensor scratch_;
};

// The members of a team of the program's own OpenMP, and the sum they make.
std::pair<int, int> OwnOpenMp() {
  int members = 0, sum = 0;
#pragma omp parallel num_threads(3) reduction(+ : sum)
  {
#pragma omp single
    members = omp_get_num_threads();
#pragma omp for
    for (int i = 0; i < 1000; ++i) sum += i;
  }
  return {members, sum};
}

TEST(OpenmpShim, TheProgramsOwnOpenMpIsLeftAlone) {
  EXPECT_EQ(OwnOpenMp(), std::make_pair(3, 499500));
  const int before = ThreadsOfProcess();
  Pool pool(2);
  EXPECT_TRUE(Product(300, 200, 300, *Session::Create(&pool)).Right());
  EXPECT_EQ(ThreadsOfProcess(), before + 1);  // the pool's worker and no team of OpenMP's
  EXPECT_EQ(OwnOpenMp(), std::make_pair(3, 499500));
}

TEST(OpenmpShim, TellsWhichRegionsRaisedInvalidOnOtherThreads) {
  const Omp omp;
  Pool pool(2);
  const OmpPool lent(&pool);
  const OmpScope scope(lent);
  bool invalid = false;
  kiln_omp_watch_invalid(&invalid);
  const auto divide = [&](int member, float by) {
    omp.Region(2, [&, member, by] {
      if (omp.member() != member) return;
      volatile float zero = 0;
      zero = zero / by;
    });
  };
  divide(1, 2);
  EXPECT_FALSE(invalid);
  divide(1, 0);
  EXPECT_TRUE(invalid);
  invalid = false;
  divide(1, 2);  // the flag that the thread raised before is forgotten
  EXPECT_FALSE(invalid);
  kiln_omp_watch_invalid(nullptr);
  divide(1, 0);
  EXPECT_FALSE(invalid);
}

TEST(OpenmpShim, CallersShareTheThreadsOfThePool) {
  Pool pool(2);
  const auto session = *Session::Create(&pool);
  const int before = ThreadsOfProcess();
  std::atomic<int> wrong{0}, most{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      Product product(128, 100, 256, session);
      for (int i = 0; i < 50; ++i) wrong += product.Right() ? 0 : 1;
      int seen = most, now = ThreadsOfProcess();
      while (now > seen && !most.compare_exchange_weak(seen, now)) {
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(most, before + 4 + 1);
}

TEST(OpenmpShim, PoolsOfTwoSessionsDoNotMeet) {
  Pool two(2), three(3);
  Product on_two(256, 100, 256, *Session::Create(&two));
  Product on_three(256, 100, 256, *Session::Create(&three));
  Product alone(256, 100, 256, *Session::Create(nullptr));
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(on_two.Right());
    EXPECT_TRUE(on_three.Right());
    EXPECT_TRUE(alone.Right());
  }
}

TEST(OpenmpShim, ASerialSessionStartsNoThread) {
  Pool pool(3);
  const int before = ThreadsOfProcess();
  Product product(300, 200, 300, (*Session::Create(&pool))->Serial());
  EXPECT_TRUE(product.Right());
  EXPECT_EQ(ThreadsOfProcess(), before);
}

TEST(OpenmpShim, WorksInAForkedChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer allows no new threads after a fork";
#endif
  Pool pool(2);
  Product product(200, 300, 200, *Session::Create(&pool));
  ASSERT_TRUE(product.Right());
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(product.Right() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(product.Right());
}

}  // namespace
}  // namespace kiln::library
