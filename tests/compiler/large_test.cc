// SPDX-License-Identifier: Apache-2.0
// Models whose tensors have more elements than 32 bits count: compiled, in pieces or on the VM with
// 64-bit indices, and on the VM altogether. Inputs are zeros but for a few marks, so that the
// system keeps no memory for most of their pages.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "compiler/compile.h"
#include "gmock/gmock.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;

// Zeros that take memory only where they are written.
class Zeros {
 public:
  explicit Zeros(std::vector<int64_t> shape) : shape_(std::move(shape)) {
    for (const int64_t extent : shape_) bytes_ *= static_cast<size_t>(extent);
    void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = memory == MAP_FAILED ? nullptr : static_cast<uint8_t*>(memory);
  }
  ~Zeros() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;

  uint8_t& operator[](int64_t i) { return data_[i]; }
  bool ok() const { return data_ != nullptr; }
  Tensor View() { return Tensor::View(data_, DType::kU8, shape_); }

 private:
  std::vector<int64_t> shape_;
  size_t bytes_ = 1;
  uint8_t* data_ = nullptr;
};

bool HasMemory(int64_t bytes) {
  return int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE) > bytes;
}

class LargeTest : public testing::TestWithParam<CompileMode> {
 protected:
  static CompileOptions Options() {
    CompileOptions options;
    options.compile_mode = GetParam();
    return options;
  }

  // Runs a graph of one input on `x`; the plan's words are left in plan_.
  std::vector<Tensor> Run(const std::string& text, Zeros& x, Tensor* out = nullptr) {
    const absl::StatusOr<Graph> graph = ParseGraph(text);
    EXPECT_TRUE(graph.ok()) << graph.status();
    if (!graph.ok()) return {};
    absl::StatusOr<Model> model = Compile(*graph, Options());
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return {};
    Context context = model->NewContext();
    KILN_EXPECT_OK(context.Bind("x", x.View()));
    if (out != nullptr) {
      KILN_EXPECT_OK(context.BindOutput("y", *out));
    }
    const absl::Status run = context.Run();
    EXPECT_TRUE(run.ok()) << run;
    if (!run.ok()) return {};
    vm_launches_ = context.report().vm_launches;
    absl::StatusOr<Tensor> y = context.Output("y");
    EXPECT_TRUE(y.ok()) << y.status();
    return y.ok() ? std::vector<Tensor>{*y} : std::vector<Tensor>();
  }

  int64_t CompiledVmLaunches(int64_t compiled) const {
    return GetParam() == CompileMode::kNever ? 1 : compiled;
  }

  int64_t vm_launches_ = -1;
};

template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  const T* const data = static_cast<const T*>(tensor.data());
  return {data, data + tensor.num_elements()};
}

TEST_P(LargeTest, RowsThatTogetherAreMore) {
  constexpr int64_t kRow = 800'000'000;
  Zeros x({3, kRow});
  if (!x.ok()) GTEST_SKIP() << "no addresses";
  x[0] = 1;
  x[kRow - 1] = 2;
  x[kRow] = 3;
  x[2 * kRow] = 200;
  x[(int64_t{1} << 31) - 1] = 100;
  x[int64_t{1} << 31] = 101;
  x[3 * kRow - 1] = 7;
  const auto y = Run(
      "graph rows\ninput x : u8 [3, 800000000]\na = cast(x) {to = i32}\ny = reduce_sum(a) {axes = "
      "[1], keepdims = 0}\noutput y\n",
      x);
  ASSERT_EQ(y.size(), 1u);
  EXPECT_THAT(Values<int32_t>(y[0]), ElementsAre(3, 3, 408));
  EXPECT_EQ(vm_launches_, CompiledVmLaunches(0));
}

TEST_P(LargeTest, OneRowThatIsMore) {
  constexpr int64_t kRow = 2'200'000'000;
  Zeros x({kRow});
  if (!x.ok()) GTEST_SKIP() << "no addresses";
  x[5] = 17;
  x[kRow - 1] = 250;
  const auto y =
      Run("graph row\ninput x : u8 [2200000000]\na = cast(x) {to = i32}\ny = reduce_sum(a) {axes = "
          "[0], keepdims = 0}\noutput y\n",
          x);
  ASSERT_EQ(y.size(), 1u);
  EXPECT_THAT(Values<int32_t>(y[0]), ElementsAre(267));
  EXPECT_EQ(vm_launches_, CompiledVmLaunches(1));
}

TEST_P(LargeTest, ColumnsOfMore) {
  constexpr int64_t kSide = 50'000;
  Zeros x({kSide, kSide});
  if (!x.ok()) GTEST_SKIP() << "no addresses";
  x[0] = 9;
  x[kSide * kSide - 1] = 250;
  x[kSide * (kSide - 1)] = 8;
  const auto y =
      Run("graph columns\ninput x : u8 [50000, 50000]\ny = reduce_max(x) {axes = [0], keepdims = "
          "0}\noutput y\n",
          x);
  ASSERT_EQ(y.size(), 1u);
  const std::vector<uint8_t> got = Values<uint8_t>(y[0]);
  EXPECT_EQ(got.front(), 9);
  EXPECT_EQ(got.back(), 250);
  EXPECT_EQ(got[1], 0);
}

TEST_P(LargeTest, MapInPlaceAndNot) {
  constexpr int64_t kSize = 2'200'000'000;
  if (!HasMemory(2 * kSize)) GTEST_SKIP() << "too little memory is free";
  Zeros x({kSize}), y({kSize});
  if (!x.ok() || !y.ok()) GTEST_SKIP() << "no addresses";
  constexpr int64_t kMarks[] = {0, (int64_t{1} << 31) - 1, int64_t{1} << 31, kSize - 1};
  for (const int64_t at : kMarks) x[at] = static_cast<uint8_t>(at % 100 + 5);
  const std::string text =
      "graph map\ninput x : u8 [2200000000]\nconst one : u8 [] = 1\ny = add(x, one)\noutput y\n";
  Tensor out = y.View();
  ASSERT_EQ(Run(text, x, &out).size(), 1u);
  EXPECT_EQ(vm_launches_, CompiledVmLaunches(0));
  const auto check = [&](Zeros& z) {
    int64_t sum = 0;
    for (int64_t i = 0; i < kSize; ++i) sum += z[i];
    for (const int64_t at : kMarks) {
      EXPECT_EQ(z[at], at % 100 + 6);
      sum -= at % 100 + 5;
    }
    EXPECT_EQ(sum, kSize);
  };
  check(y);
  out = x.View();
  ASSERT_EQ(Run(text, x, &out).size(), 1u);
  check(x);
}

INSTANTIATE_TEST_SUITE_P(Modes, LargeTest,
                         testing::Values(CompileMode::kBlock, CompileMode::kNever),
                         [](const auto& info) {
                           return info.param == CompileMode::kBlock ? "Compiled" : "Vm";
                         });

}  // namespace
}  // namespace kiln
