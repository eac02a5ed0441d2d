// SPDX-License-Identifier: Apache-2.0
// Packages with kernels of a GPU that are forged: other texts, machine code, launch recipes and
// programs under right checksums. They are refused, or run on the emulated GPU to whatever end, and
// never end, exhaust or hold up the process.
//
//   KILN_FUZZ_PACKAGES   how many are forged
//   KILN_SEED            the first seed
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "compiler/compile_graph.h"
#include "compiler/kernel_service.h"
#include "compiler/package_writer.h"
#include "compiler/precompile.h"
#include "compiler/variants.h"
#include "exec/package/package.h"
#include "graph/text.h"
#include "ptx_emulator/control.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/fuzz/forked_cases.h"
#include "tests/fuzz/package_parts.h"
#include "tests/fuzz/packages_fuzz_message.h"
#include "tests/fuzz/packages_fuzz_models.h"

namespace kiln {
namespace {

// Rows, columns and all; kernels with scratch, with shared memory and with conditions.
constexpr char kGraph[] =
    "graph g\ninput x : f32 [n, 36]\ninput i : i64 [n]\nconst half : f32 [] = 0.5\n"
    "s = softmax(x) {axis = 1}\nt = transpose(s) {perm = [1, 0]}\n"
    "c = cumulative(x) {axis = 0}\nm = reduce_max(c) {axes = [0, 1], keepdims = 0}\n"
    "h = mul(x, half)\ng = gather(h, i) {axis = 0}\n"
    "output t\noutput m\noutput g\n";

// The package of the graph for sm_80; its kernels have code.
absl::StatusOr<std::string> MadeForAGpu(const std::string& cache) {
  CompileOptions options;
  options.threads = 1;
  options.cache.directory = cache;
  KILN_ASSIGN_OR_RETURN(const Graph graph, ParseGraph(kGraph));
  PackageWriter writer(PortInfosOf(graph, true), PortInfosOf(graph, false), MathMode::kStrict);
  absl::Status status;
  const auto add = [&](const CompileOptions& own, const Variant& variant) {
    status.Update(writer.Add(*own.target, variant));
  };
  KILN_ASSIGN_OR_RETURN(const auto jobs,
                        KernelsOf(graph, options, {*Target::Parse("cuda-sm80")}, {}, add));
  KILN_RETURN_IF_ERROR(status);
  KernelService service(options);
  Precompile(service, jobs, 1, [](const KernelJob&, const KernelDone&) {});
  return writer.Encode(*service.store());
}

class DevicePackagesFuzz : public testing::Test {
 protected:
  using Random = std::mt19937_64;

  void SetUp() override {
    SetLogLevel(LogLevel::kOff);
    KILN_ASSERT_OK_AND_ASSIGN(package_, MadeForAGpu(dir_.File("cache")));
    parts_ = TakeApart(package_);
    for (size_t k = 0; k < parts_.entries.size(); ++k)
      if (parts_.entries[k].Find("launch") != nullptr) kernels_.push_back(k);
    ASSERT_GE(kernels_.size(), 4u);
  }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  // A new driver, and the package on its device.
  absl::Status LoadAndRun(const std::string& package, bool& loaded) const {
    kiln_ptx_config config;
    kiln_ptx_default_config(&config);
    config.warp_instructions = 200'000;
    config.strict = 1;
    kiln_ptx_configure(&config);
    const std::string path = dir_.File("m.kiln");
    std::ofstream(path, std::ios::binary | std::ios::trunc) << package;
    RunOptions options;
    KILN_ASSIGN_OR_RETURN(options.runtime,
                          Runtime::Create({.threads = 1, .device = "cuda-emulated"}));
    options.threads = 1;
    KILN_ASSIGN_OR_RETURN(Model model, LoadPackage(path, options));
    loaded = true;
    Random random(1);
    // Places are below 5.
    for (const int64_t extent : {5, 40}) KILN_RETURN_IF_ERROR(RunAndRead(model, extent, random));
    return absl::OkStatus();
  }

  static std::string& Of(Entry& entry, const char* tag) {
    for (Section& section : entry.sections)
      if (section.tag == tag) return section.bytes;
    entry.Add(tag, "", false);
    return entry.sections.back().bytes;
  }

  // One of the words of a line becomes another.
  static std::string OtherWord(const std::string& line, Random& random) {
    std::vector<std::string> words = absl::StrSplit(line, ' ');
    std::string& word = words[random() % words.size()];
    static const char* const kWords[] = {
        "in0", "in1",     "out0",    "out7",    "scratch0", "(",
        ")",   "extent0", "extent9", "(/ 1 0)", "(% 7 0)",  "(align out0)",
        "0",   "-1",      "",        "param",   "i64"};
    word = random() % 2 == 0 ? kWords[random() % std::size(kWords)]
                             : absl::StrCat(static_cast<int64_t>(ExpensiveNumber(random)));
    return absl::StrJoin(words, " ");
  }

  static std::string OtherRecipe(std::string text, const std::string& other, Random& random) {
    std::vector<std::string> lines = absl::StrSplit(text, '\n');
    const std::vector<std::string> others = absl::StrSplit(other, '\n');
    const size_t at = random() % lines.size();
    const auto where = lines.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 5) {
      case 0:
        lines.erase(where);
        break;
      case 1:
        lines.insert(where, lines[random() % lines.size()]);
        break;
      case 2:
        *where = others[random() % others.size()];
        break;
      default:
        *where = OtherWord(*where, random);
    }
    return absl::StrJoin(lines, "\n");
  }

  static std::string OtherPtx(std::string text, Random& random) {
    const size_t at = random() % text.size(), length = random() % 40;
    switch (random() % 5) {
      case 0:
        return text.substr(0, at);
      case 1:
        return text.erase(at, length);
      case 2:
        return text.insert(at, text.substr(random() % text.size(), length));
      case 3:  // arguments are other and more of them
        return absl::StrReplaceAll(
            text,
            {{".param .u32",
              random() % 2 == 0 ? ".param .u64" : ".param .align 8 .b8 q[4000],\n.param .u32"}});
      default:
        text[at] = "0123456789.,;{}[]%$@!-"[random() % 22];
        return text;
    }
  }

  // The header of a cubin, and anything.
  static std::string AnyCubin(Random& random) {
    std::string bytes(64 + random() % 4000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    constexpr char kHead[] =
        "\x7f"
        "ELF\2\1\1";
    return bytes.replace(0, 7, kHead, 7);
  }

  std::string Forge(Random& random, std::string& what) const {
    PackageParts parts = parts_;
    for (size_t times = 1 + random() % 2; times > 0; --times) {
      Entry& entry = parts.entries[kernels_[random() % kernels_.size()]];
      const Entry& other = parts_.entries[kernels_[random() % kernels_.size()]];
      const uint64_t way = random() % 8;
      if (way < 4) {
        std::string& recipe = Of(entry, "launch");
        recipe = OtherRecipe(recipe, *other.Find("launch"), random);
        absl::StrAppend(&what, "the recipe is\n", recipe);
      } else if (way < 6) {
        Of(entry, "ptx") = OtherPtx(Of(entry, "ptx"), random);
        absl::StrAppend(&what, "other PTX; ");
      } else if (way == 6) {
        Of(entry, random() % 2 == 0 ? "ptx" : "launch") =
            random() % 2 == 0 ? *other.Find("ptx") : *other.Find("launch");
        if (random() % 2 == 0) Of(entry, "cubin") = AnyCubin(random);
        absl::StrAppend(&what, "sections of another; ");
      } else {
        std::string& description = parts.section("package");
        FuzzMessage message = ParseFuzzMessage(PackageMessage(), description);
        absl::StrAppend(&what, Mutate(message, random), "; ");
        description = Serialize(message);
      }
    }
    return PutTogether(std::move(parts));
  }

  const TempDir dir_;
  std::string package_;
  PackageParts parts_;
  std::vector<size_t> kernels_;  // entries with code
};

TEST_F(DevicePackagesFuzz, ForgedOnesAreRefusedOrRun) {
  const uint64_t first = FuzzNumber("KILN_SEED", 1), count = FuzzNumber("KILN_FUZZ_PACKAGES", 150);
  SharedCount loaded, ran;
  const auto judge = [&](uint64_t seed) -> std::string {
    Random random(seed);
    std::string what;
    bool has_loaded = false;
    const bool honest = seed == first;
    const absl::Status status = LoadAndRun(honest ? package_ : Forge(random, what), has_loaded);
    if (has_loaded) loaded.Add();
    if (status.ok()) ran.Add();
    return honest && !status.ok() ? status.ToString() : "";
  };
  for (const FailedCase& failure : ForEachCase(
           first, count, {.bytes = int64_t{2} << 30, .memory_may_be_refused = true}, judge)) {
    Random random(failure.number);
    std::string what;
    Forge(random, what);
    ADD_FAILURE() << "KILN_SEED=" << failure.number << ": " << failure.what << "\n  " << what;
  }
  std::cout << count << " packages, " << loaded.value() << " loaded, " << ran.value() << " ran\n";
  EXPECT_GT(10 * loaded.value(), count);  // else the judge looks at little
}

}  // namespace
}  // namespace kiln
