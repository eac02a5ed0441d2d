// SPDX-License-Identifier: Apache-2.0
#include "tests/halide_gen/harness.h"
#include "base/cpu_features.h"
#include "schedule/choose.h"
#include "schedule/device.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "halide_gen/common/worker.h"
#include "kernel/naive.h"
#include "kernel/operands.h"
#include "kernel/text.h"
#include "tests/halide_gen/difference.h"

namespace kiln {
namespace {

// True if the schedule has all of `words`: the name of its template, and fields with values.
bool HasWords(const Schedule& schedule, const std::string& words) {
  std::set<std::string> known = {schedule.name()};
  for (const auto& [field, value] : schedule.Values())
    known.insert(absl::StrCat(field, "=", value));
  for (const absl::string_view word : absl::StrSplit(words, ' ', absl::SkipEmpty()))
    if (known.count(std::string(word)) == 0) return false;
  return true;
}

// Mostly plain numbers, some of every special kind.
uint64_t RandomBits(DType type, std::mt19937& random) {
  const uint64_t word = static_cast<uint64_t>(random()) << 32 | random();
  if (type == DType::kBool) return word & 1;
  if (!IsFloat(type)) {
    const int bits = static_cast<int>(SizeOf(type)) * 8;
    const int kind = static_cast<int>(word % 8);
    const uint64_t raw = kind < 4    ? (random() % 41) - uint64_t{20}
                         : kind == 4 ? uint64_t{1} << (bits - 1)
                                     : word;
    if (bits == 64) return raw;
    const int unused = 64 - bits;
    return IsSigned(type) ? static_cast<uint64_t>(static_cast<int64_t>(raw << unused) >> unused)
                          : raw << unused >> unused;
  }
  static constexpr double kSpecial[] = {0.0,  -0.0,  1.0,   -1.0, 1e-42,        -3e-45,
                                        3e38, -3e38, 65504, 6e-8, 2147483648.0, 127.5};
  const int kind = static_cast<int>(random() % 64);
  if (kind < 3) return ConstBits(type, kSpecial[word % 12]);
  const double uniform = static_cast<double>(random()) / 2147483648.0 - 1.0;
  return ConstBits(
      type, kind < 40 ? uniform * 4 : uniform * std::ldexp(1.0, static_cast<int>(word % 30) - 15));
}

// NaN and infinities swallow all they meet in a reduction, so they come in some fills only.
void Fill(HostArray& array, std::mt19937& random) {
  const bool wild = random() % 2 == 0;
  const size_t count = array.bytes.size() / SizeOf(array.type);
  const DType type = ComputeType(array.type);
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = RandomBits(type, random);
    if (wild && IsFloat(type) && random() % 97 == 0) {
      static const double kWild[] = {std::nan(""), HUGE_VAL, -HUGE_VAL};
      bits = ConstBits(type, kWild[random() % 3]);
    }
    StoreElement(array.bytes.data(), array.type, static_cast<int64_t>(i), bits);
  }
}

std::vector<int64_t> ExtentsOf(const std::vector<int32_t>& dims,
                               const std::vector<int32_t>& extents) {
  std::vector<int64_t> result;
  for (const int32_t dim : dims) result.push_back(extents[static_cast<size_t>(dim)]);
  return result;
}

HostArray Make(DType type, Layout layout, const std::vector<int32_t>& dims,
               const std::vector<int32_t>& extents) {
  return HostArray::Make(type, ExtentsOf(dims, extents), layout == Layout::kStrided ? 3 : 1,
                         layout == Layout::kDense ? 0 : 5);
}

std::vector<NaiveBuffer> NaiveBuffers(std::vector<HostArray>& arrays) {
  std::vector<NaiveBuffer> buffers;
  for (HostArray& array : arrays) buffers.push_back({array.bytes.data(), array.strides});
  return buffers;
}

std::vector<HostView> Views(std::vector<HostArray>& arrays) {
  std::vector<HostView> views;
  for (HostArray& array : arrays) views.push_back(array.View());
  return views;
}

// Copies of arrays that end where a page does, with no memory behind it.
class AtPageEnds {
 public:
  explicit AtPageEnds(const std::vector<HostArray>& arrays) {
    for (const HostArray& array : arrays) Add(array);
  }
  AtPageEnds(const AtPageEnds&) = delete;
  AtPageEnds& operator=(const AtPageEnds&) = delete;
  ~AtPageEnds() {
    for (const auto& [start, bytes] : mappings_) munmap(start, bytes);
  }

  const std::vector<HostView>& views() const { return views_; }
  // What is in them now, as `array` of the same shape.
  HostArray Read(size_t i, HostArray array) const {
    const size_t used = array.bytes.size() - 64 - SizeOf(array.type);
    std::memcpy(array.bytes.data(), views_[i].data, used);
    return array;
  }

 private:
  void Add(const HostArray& array) {
    constexpr size_t kPage = 4096;
    // Behind the elements, of which a launcher keeps one at least, an array has room to spare.
    const size_t size = SizeOf(array.type), bytes = std::max(array.bytes.size() - 64 - size, size);
    const size_t pages = (bytes + kPage - 1) / kPage * kPage;
    void* const start =
        mmap(nullptr, pages + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(start, MAP_FAILED);
    mappings_.emplace_back(start, pages + kPage);
    uint8_t* const end = static_cast<uint8_t*>(start) + pages;
    ASSERT_EQ(mprotect(end, kPage, PROT_NONE), 0);
    std::memcpy(end - bytes, array.bytes.data(), bytes);
    views_.push_back({array.type, array.extents, array.strides, end - bytes});
  }

  std::vector<std::pair<void*, size_t>> mappings_;
  std::vector<HostView> views_;
};

bool AnyZero(const HostArray& array) {
  for (const int64_t extent : array.extents) {
    if (extent == 0) return true;
  }
  return false;
}

}  // namespace

CompiledKernel::CompiledKernel(const std::string& text, IsaLevel isa, const std::string& words,
                               SizeClass sizes) {
  Choose(text, isa, words, std::move(sizes));
  if (!testing::Test::HasFatalFailure()) Compile(text, isa);
}

CompiledKernel::CompiledKernel(const std::string& text, IsaLevel isa, const Schedule& schedule)
    : schedule_(schedule) {
  const auto kernel = ParseKernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status() << "\n" << text;
  if (!kernel.ok()) return;
  kernel_ = *kernel;
  Compile(text, isa);
}

void CompiledKernel::Choose(const std::string& text, IsaLevel isa, const std::string& words,
                            SizeClass sizes) {
  const auto kernel = ParseKernel(text);
  ASSERT_TRUE(kernel.ok()) << kernel.status() << "\n" << text;
  kernel_ = *kernel;
  if (sizes.at_most.empty()) sizes.at_most.assign(kernel_.dims.size(), kUnbounded);
  const std::vector<Candidate> candidates =
      CandidatesFor(kernel_, sizes, ShippedMachine(CpuTarget(isa)));
  const auto wanted =
      std::find_if(candidates.begin(), candidates.end(),
                   [&](const Candidate& candidate) { return HasWords(candidate.schedule, words); });
  if (wanted == candidates.end()) {
    std::string offered;
    for (const Candidate& candidate : candidates)
      absl::StrAppend(&offered, "\n", candidate.schedule.ToString());
    FAIL() << "no candidate has \"" << words << "\"; there are" << offered << "\n" << text;
  }
  schedule_ = wanted->schedule;
}

void CompiledKernel::Compile(const std::string& text, IsaLevel isa) {
  answer_ = Serve({.kernel = text,
                   .schedule = schedule_.ToString(),
                   .target = std::string(Name(isa)),
                   .sections = {"elf"}});
  ASSERT_EQ(answer_.outcome, CodegenAnswer::Outcome::kOk) << answer_.error << "\n" << text;
  auto loaded = LoadedKernel::Load(answer_.sections[0].second);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  loaded_ = *std::move(loaded);
}

std::vector<HostArray> CompiledKernel::MakeInputs(const std::vector<int32_t>& extents,
                                                  std::mt19937& random) const {
  std::vector<HostArray> inputs;
  for (const KernelInput& input : kernel_.inputs) {
    inputs.push_back(Make(input.type, input.layout, input.dims, extents));
    Fill(inputs.back(), random);
  }
  return inputs;
}

std::vector<HostArray> CompiledKernel::MakeOutputs(const std::vector<int32_t>& extents) const {
  std::vector<HostArray> outputs;
  for (const KernelOutput& output : kernel_.outputs) {
    outputs.push_back(Make(output.type, output.layout, output.dims, extents));
  }
  return outputs;
}

std::vector<uint64_t> CompiledKernel::MakeParams(std::mt19937& random) const {
  std::vector<uint64_t> params;
  for (const DType type : kernel_.params) params.push_back(RandomBits(type, random));
  return params;
}

void CompiledKernel::Check(const std::vector<int32_t>& extents, uint32_t seed, bool in_place) {
  if (!ok()) return;
  SCOPED_TRACE(testing::Message() << schedule_.ToString() << " at " << absl::StrJoin(extents, "x")
                                  << " seed " << seed);
  std::mt19937 random(seed);
  std::vector<HostArray> inputs = MakeInputs(extents, random);
  const std::vector<uint64_t> params = MakeParams(random);
  std::vector<HostArray> want = MakeOutputs(extents), got = MakeOutputs(extents);
  for (const HostArray& output : want) {
    if (AnyZero(output)) return;  // such launches are skipped
  }
  const std::vector<int64_t> wide(extents.begin(), extents.end());
  if (ReducesNothing(kernel_, wide)) return;  // these are the VM's
  const absl::Status naive =
      EvalKernel(kernel_, NaiveBuffers(inputs), wide, params, NaiveBuffers(want));
  ASSERT_TRUE(naive.ok()) << naive;
  const AtPageEnds guarded(inputs);
  ASSERT_EQ(loaded_->Run(kernel_, extents, params, guarded.views(), Views(got)), 0);
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(Difference(got[i], want[i]), "") << "output " << i;
  // Outputs that are a multiple of 64 bytes long begin at lines there.
  const AtPageEnds targets(MakeOutputs(extents));
  ASSERT_EQ(loaded_->Run(kernel_, extents, params, guarded.views(), targets.views()), 0);
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(Difference(targets.Read(i, want[i]), want[i]), "") << "output " << i << " at lines";
  if (!in_place) return;
  for (const auto& [input, output] : schedule_.in_place) {
    SCOPED_TRACE(testing::Message() << "output " << output << " over input " << input);
    const auto in = static_cast<size_t>(input), out = static_cast<size_t>(output);
    std::vector<HostArray> sources = inputs;
    HostArray& shared = sources[in];
    // The bytes behind the elements are the input's then.
    const size_t used = want[out].bytes.size() - 64 - SizeOf(want[out].type);
    std::vector<HostArray> targets = MakeOutputs(extents);
    ASSERT_EQ(
        loaded_->Run(kernel_, extents, params, Views(sources), Views(targets), {{input, output}}),
        0);
    HostArray result = want[out];
    std::copy_n(shared.bytes.begin(), used, result.bytes.begin());
    EXPECT_EQ(Difference(result, want[out]), "");
  }
  CheckAllInPlace(extents, inputs, want, params);
}

// As many pairs at once as there are with an input and an output of their own.
void CompiledKernel::CheckAllInPlace(const std::vector<int32_t>& extents,
                                     const std::vector<HostArray>& inputs,
                                     const std::vector<HostArray>& want,
                                     const std::vector<uint64_t>& params) {
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (const auto& pair : schedule_.in_place) {
    if (std::none_of(pairs.begin(), pairs.end(), [&](const auto& p) {
          return p.first == pair.first || p.second == pair.second;
        }))
      pairs.push_back(pair);
  }
  if (pairs.size() < 2) return;
  std::vector<HostArray> sources = inputs, targets = MakeOutputs(extents);
  ASSERT_EQ(loaded_->Run(kernel_, extents, params, Views(sources), Views(targets), pairs), 0);
  for (const auto& [input, output] : pairs) {
    SCOPED_TRACE(testing::Message() << "output " << output << " over input " << input);
    const auto in = static_cast<size_t>(input), out = static_cast<size_t>(output);
    HostArray result = want[out];
    const size_t used = want[out].bytes.size() - 64 - SizeOf(want[out].type);
    std::copy_n(sources[in].bytes.begin(), used, result.bytes.begin());
    EXPECT_EQ(Difference(result, want[out]), "");
  }
}

std::string Statements(const std::string& kernel, const std::string& schedule,
                       const std::string& target) {
  const CodegenAnswer answer = Serve({.kernel = "kernel v1 math 1\n" + kernel,
                                      .schedule = schedule,
                                      .target = target,
                                      .sections = {"stmt"}});
  EXPECT_EQ(answer.outcome, CodegenAnswer::Outcome::kOk) << answer.error;
  return answer.sections.empty() ? "" : answer.sections[0].second;
}

std::string StatementsOf(const std::string& expr, int lanes) {
  return Statements("dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = " + expr + "\n",
                    absl::StrCat("pointwise task=1024 step=", lanes));
}

std::vector<IsaLevel> RunnableLevels() {
  std::vector<IsaLevel> levels;
  for (const IsaLevel isa : {IsaLevel::kV3, IsaLevel::kV4}) {
    if (LevelOf(HostCpu()) >= isa) levels.push_back(isa);
  }
  return levels;
}

}  // namespace kiln
