// SPDX-License-Identifier: Apache-2.0
// Tune records that are forged under right checksums: whatever they say, the schedule that is
// chosen is one of the kernel's candidates, and a cached Program is judged without harm.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file_system.h"
#include "compiler/kernel_choice.h"
#include "compiler/tuner.h"
#include "kernel/text.h"
#include "schedule/device.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/fuzz/forked_cases.h"
#include "tests/fuzz/packages_fuzz_message.h"

namespace kiln {
namespace {

constexpr char kSoftmax[] =
    "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
    "s0 : f32 [a] = reduce max over b (in0[a, b])\n"
    "s1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))\n"
    "s2 : f32 [a] = reduce add over b (s1[a, b])\n"
    "out  0 f32 [a, b] dense = div(s1[a, b], s2[a])\n";

std::string Forged(std::string text, std::mt19937_64& random) {
  static const char* const kWords[] = {"winner ",
                                       "time 1 ",
                                       "time -1 ",
                                       "time 1e999 ",
                                       "rounds 99999999999999999999",
                                       "kiln tune 1",
                                       "row_reduction step=0",
                                       "row_reduction step=32 stored=99999",
                                       "pointwise",
                                       "staged in_place=7:7",
                                       "\n\n",
                                       " "};
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (uint64_t times = 1 + random() % 4; times > 0; --times) {
    std::string& line = lines[random() % lines.size()];
    switch (random() % 5) {
      case 0:
        line = kWords[random() % std::size(kWords)];
        break;
      case 1:
        absl::StrAppend(&line, kWords[random() % std::size(kWords)]);
        break;
      case 2:
        line = lines[random() % lines.size()];
        break;
      case 3:
        if (!line.empty()) line[random() % line.size()] = static_cast<char>(random());
        break;
      default:
        line = lines[random() % lines.size()];
        line = absl::StrCat("winner ", line.substr(std::min<size_t>(line.size(), random() % 9)));
    }
  }
  text = absl::StrJoin(lines, "\n");
  if (random() % 8 == 0) text.resize(random() % (text.size() + 1));
  return text;
}

TEST(TuneFuzz, ForgedRecordsChooseACandidateOrNothing) {
  const TempDir dir;
  StoreOptions settings;
  settings.directory = dir.File("cache");
  KILN_ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(RealFileSystem(), settings));
  const CompileOptions options;
  const Kernel kernel = *ParseKernel(kSoftmax);
  const SizeClass sizes{{64, 768}};
  const std::vector<Candidate> candidates = CandidatesFor(kernel, sizes, MachineOf(options));
  ASSERT_GT(candidates.size(), 1u);
  Measured measured{candidates[1].schedule.ToString(), 9, 0, "64,768", {}};
  for (const Candidate& candidate : candidates)
    measured.times.push_back({candidate.schedule.ToString(), candidate.ns});
  CacheKey key;
  {
    TuneRecords records(options, store.get(), true);
    records.KeepKernel(Print(kernel), sizes, measured);
    for (const CacheKey& used : records.Used()) {
      if (MeasuredOf(*store->Read(used)).has_value()) key = used;
    }
  }
  store->WaitUntilPruned();  // no thread from here on
  const Entry whole = *store->Read(key);
  const auto choose = [&] {
    const auto tuner = Tuner::Open(options, store.get());
    return tuner->Choose({&kernel, sizes, {}, {{64, 768}}}, candidates).ToString();
  };
  ASSERT_EQ(choose(), measured.winner) << "the honest record counts";

  const auto judge = [&](uint64_t seed) -> std::string {
    std::mt19937_64 random(seed);
    Entry entry = whole;
    for (Section& section : entry.sections) {
      if (section.tag == "tune") section.bytes = Forged(section.bytes, random);
    }
    if (const absl::Status done = store->Publish(entry); !done.ok()) return done.ToString();
    const std::string chosen = choose();
    program::Program program;
    program::KernelDef& def = *program.add_kernels();
    def.set_text(Print(kernel));
    SetChoice(candidates[0].schedule, sizes, def.add_choices());
    if (random() % 2 == 0)
      def.mutable_choices(0)->set_at_most(0, static_cast<int64_t>(ExpensiveNumber(random)));
    if (random() % 2 == 0)
      def.mutable_choices(0)->add_open(static_cast<int32_t>(ExpensiveNumber(random)));
    Tuner::Open(options, store.get())->IsStale(program, options);
    const bool offered = std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& c) {
      return c.schedule.ToString() == chosen;
    });
    return offered ? "" : absl::StrCat("chosen: ", chosen);
  };
  const uint64_t first = FuzzNumber("KILN_SEED", 1), count = FuzzNumber("KILN_FUZZ_ENTRIES", 1500);
  for (const FailedCase& failure :
       ForEachCase(first, count, {.memory_may_be_refused = true}, judge))
    ADD_FAILURE() << "KILN_SEED=" << failure.number << ": " << failure.what;
}

}  // namespace
}  // namespace kiln
