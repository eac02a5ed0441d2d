// SPDX-License-Identifier: Apache-2.0
// Random kernels on the emulated device, with candidates of each template, against EvalKernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernel/operands.h"
#include "kernel/text.h"
#include "schedule/cuda/templates.h"
#include "tests/base/environment.h"
#include "tests/cuda/device_kernel_check.h"
#include "tests/cuda/emulated_gpu.h"

namespace kiln {
namespace {

// Of each template one candidate, another one for each seed.
std::vector<Schedule> OneOfEach(const Kernel& kernel, uint64_t seed,
                                const std::vector<int64_t>& at_most) {
  std::vector<Schedule> chosen;
  const std::vector<Schedule> all = DeviceCandidates(kernel, at_most);
  for (size_t first = 0; first < all.size();) {
    size_t end = first;
    while (end < all.size() && std::string(all[end].name()) == all[first].name()) ++end;
    chosen.push_back(all[first + seed % (end - first)]);
    first = end;
  }
  return chosen;
}

// `dims` of "abcd" as they stand in a text, without `skip`.
std::string Axes(const std::string& dims, char skip = 0) {
  std::string axes;
  for (const char dim : dims)
    if (dim != skip) axes += (axes.empty() ? "" : ", ") + std::string(1, dim);
  return absl::StrCat("[", axes, "]");
}

// Reductions over a dim that is not the innermost, and what is made of them: RandomKernel seldom
// makes one that is read in place. And sums of operands in several orders.
std::string ColumnsText(uint64_t seed) {
  const std::string dims = std::string("abcd").substr(0, 2 + seed % 3);
  const char over = dims[seed / 3 % (dims.size() - 1)];
  const std::string all = Axes(dims), kept = Axes(dims, over),
                    last = Axes(dims.substr(dims.size() - 1));
  constexpr const char* kTypes[] = {"f32", "i32", "bf16", "f64", "f16"};
  const std::string stored = kTypes[seed / 2 % 5], type = stored.back() == '6' ? "f32" : stored;
  constexpr const char* kOps[] = {"add", "max", "min"};
  std::string text = "kernel v1 math 1\ndims";
  for (const char dim : dims) text += absl::StrCat(" ", std::string(1, dim));
  absl::StrAppend(&text, "\nin   0 ", stored, " ", all, " dense\nin   1 ", stored, " ", kept,
                  " dense\nin   2 ", stored, " ", last, " dense\n");
  absl::StrAppend(&text, "s0 : ", type, " ", kept, " = reduce ", kOps[seed % 3], " over ",
                  std::string(1, over), " (mul(in0", all, ", in2", last, "))\n");
  absl::StrAppend(&text, "s1 : ", type, " ", all, " = sub(in0", all, ", s0", kept, ")\ns2 : ", type,
                  " ", kept, " = reduce add over ", std::string(1, over), " (mul(s1", all, ", s1",
                  all, "))\n");
  absl::StrAppend(&text, "out  0 ", stored, " ", kept, " dense = add(s2", kept, ", in1", kept,
                  ")\n");
  if (seed % 2 == 0)
    absl::StrAppend(&text, "out  1 ", stored, " ", all, " dense = add(s1", all, ", s2", kept,
                    ")\n");
  return text;
}

std::string TilesText(uint64_t seed) {
  const std::string dims = std::string("abcd").substr(0, 2 + seed % 3);
  std::string order = dims;
  do {
    std::next_permutation(order.begin(), order.end());
  } while (order.back() == dims.back());
  constexpr const char* kTypes[] = {"f32", "bf16", "f64", "f16"};
  const std::string stored = kTypes[seed % 4], all = Axes(dims), other = Axes(order);
  std::string text = "kernel v1 math 1\ndims";
  for (const char dim : dims) text += absl::StrCat(" ", std::string(1, dim));
  return absl::StrCat(text, "\nin   0 ", stored, " ", other, " dense\nin   1 ", stored, " ", all,
                      " dense\nout  0 ", stored, " ", all, " dense = add(in0", other, ", in1", all,
                      ")\n");
}

// A normalization of rows: the innermost dim is read in several passes, of which some values are
// used under conditions only; outputs are of all dims or of the rows.
std::string RowsText(uint64_t seed) {
  constexpr const char* kTypes[] = {"f32", "bf16", "f16", "f64"};
  constexpr const char* kMaps[] = {"sub(in0[a, b], s0[a])", "exp(sub(in0[a, b], s0[a]))",
                                   "select(lt(in0[a, b], in2[a]), s0[a], in0[a, b])"};
  const std::string stored = kTypes[seed % 4], type = stored.back() == '6' ? "f32" : stored;
  std::string text = absl::StrCat(
      "kernel v1 math 1\ndims a b\nin   0 ", stored, " [a, b] dense\nin   1 ", stored,
      " [b] dense\nin   2 ", stored, " [a] dense\ns0 : ", type,
      " [a] = reduce max over b (in0[a, b])\ns1 : ", type, " [a, b] = ", kMaps[seed / 3 % 3],
      "\ns2 : ", type, " [a] = reduce add over b (mul(s1[a, b], s1[a, b]))\n");
  int outputs = 0;
  const auto output = [&](const char* axes, const std::string& value) {
    absl::StrAppend(&text, "out  ", outputs++, " ", stored, " ", axes, " dense = ", value, "\n");
  };
  if (seed / 4 % 4 != 0) output("[a]", "select(lt(in2[a], s2[a]), s0[a], s2[a])");
  if (seed / 4 % 4 != 1) output("[a, b]", "mul(add(s1[a, b], s2[a]), in1[b])");
  if (seed / 4 % 4 != 2) output("[a]", "sub(s2[a], s0[a])");
  if (seed / 4 % 4 == 3) output("[a, b]", "select(lt(in2[a], s0[a]), s1[a, b], s2[a])");
  return text;
}

void CheckKernel(const std::shared_ptr<cuda::Gpu>& gpu, const Kernel& kernel, uint64_t seed,
                 const std::vector<Schedule>& schedules, int64_t at_most) {
  for (const Schedule& schedule : schedules) {
    SCOPED_TRACE(schedule.ToString());
    DeviceKernelCheck check(gpu, kernel, schedule);
    ASSERT_EQ(check.error(), "");
    for (uint64_t round = 0; round < 3; ++round) {
      RandomRun run = MakeRandomRun(kernel, seed * 16 + round, 20000);
      const bool beyond = std::any_of(run.extents.begin(), run.extents.end(),
                                      [&](int64_t extent) { return extent > at_most; });
      if (beyond || AnyEmpty(run.outputs) || AnyEmpty(run.inputs) ||
          ReducesNothing(kernel, run.extents))
        continue;  // launches of other code
      // All operands aligned, none, and some.
      const uint32_t shifted = round == 0   ? 0
                               : round == 1 ? ~0U
                                            : static_cast<uint32_t>(seed * 2654435761U >> 7);
      ASSERT_EQ(check.Run(run, shifted), "") << "round " << round << "\n" << check.recipe();
    }
  }
}

TEST(RandomDeviceKernels, OfColumnsAndTilesHaveTheBitsOfTheText) {
  const uint64_t first = FromEnvironment("KILN_SEED", 0);
  const uint64_t count = FromEnvironment("KILN_RANDOM_SEEDS", 6);
  const std::shared_ptr<cuda::Gpu> gpu = EmulatedGpu();
  for (uint64_t seed = first; seed < first + count; ++seed) {
    for (const Template* of : {&kColumns, &kTiles}) {
      const std::string text = of == &kColumns ? ColumnsText(seed) : TilesText(seed);
      SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << text);
      const auto kernel = ParseKernel(text);
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      constexpr int64_t kMost[] = {1024, 1 << 20};
      const std::vector<int64_t> at_most(kernel->dims.size(), kMost[seed % 2]);
      std::vector<Schedule> schedules = OneOfEach(*kernel, seed, at_most);
      std::erase_if(schedules, [&](const Schedule& schedule) { return !schedule.Is(*of); });
      ASSERT_EQ(schedules.size(), 1u);
      CheckKernel(gpu, *kernel, seed, schedules, at_most[0]);
    }
  }
}

// Where a warp holds more elements than the row has, some of its threads have none.
TEST(RandomDeviceKernels, OfShortRowsHaveTheBitsOfTheText) {
  const uint64_t first = FromEnvironment("KILN_SEED", 0);
  const uint64_t count = FromEnvironment("KILN_RANDOM_SEEDS", 8);
  const std::shared_ptr<cuda::Gpu> gpu = EmulatedGpu();
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const std::string text = RowsText(seed);
    const auto most = static_cast<int64_t>(1 + seed * 2654435761U % 150);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", rows of " << most << "\n" << text);
    const auto kernel = ParseKernel(text);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    for (const Schedule& schedule : DeviceCandidates(*kernel, {1000, most})) {
      if (!schedule.Is(kWarpRows)) continue;
      SCOPED_TRACE(schedule.ToString());
      DeviceKernelCheck check(gpu, *kernel, schedule);
      ASSERT_EQ(check.error(), "");
      for (const int64_t length : {int64_t{1}, std::min<int64_t>(4, most), (most + 3) / 4, most})
        for (const int64_t rows : {int64_t{1}, static_cast<int64_t>(2 + seed % 9)})
          ASSERT_EQ(check.Run(MakeRandomRunAt(*kernel, seed, {rows, length})), "")
              << rows << " rows of " << length << "\n"
              << check.recipe();
    }
  }
}

TEST(RandomDeviceKernels, OfSumsAtPlacesHaveTheBitsOfTheText) {
  const uint64_t first = FromEnvironment("KILN_SEED", 0);
  const uint64_t count = FromEnvironment("KILN_RANDOM_SEEDS", 8);
  const std::shared_ptr<cuda::Gpu> gpu = EmulatedGpu();
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Kernel kernel = RandomSums(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << Print(kernel));
    const std::vector<int64_t> at_most(kernel.dims.size(), 1 << 20);
    CheckKernel(gpu, kernel, seed, DeviceCandidates(kernel, at_most), at_most[0]);
  }
}

TEST(RandomDeviceKernels, HaveTheBitsOfTheText) {
  const uint64_t first = FromEnvironment("KILN_SEED", 0);
  const uint64_t count = FromEnvironment("KILN_RANDOM_SEEDS", 12);
  const std::shared_ptr<cuda::Gpu> gpu = EmulatedGpu();
  ASSERT_NE(gpu, nullptr);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Kernel kernel = RandomKernel(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << Print(kernel));
    constexpr int64_t kMost[] = {1024, 1 << 20};
    const std::vector<int64_t> at_most(kernel.dims.size(), kMost[seed % 2]);
    CheckKernel(gpu, kernel, seed, OneOfEach(kernel, seed, at_most), at_most[0]);
  }
}

}  // namespace
}  // namespace kiln
