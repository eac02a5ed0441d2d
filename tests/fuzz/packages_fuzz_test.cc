// SPDX-License-Identifier: Apache-2.0
// Packages of which bytes are damaged, and packages that are forged: other contents under right
// checksums. Damage is always found; a forged package is refused or runs, and never ends,
// exhausts or holds up the process.
//
//   KILN_FUZZ_PACKAGES   how many are forged
//   KILN_SEED            the first seed
//   KILN_FUZZ_DUMP       a folder: the package of the first seed is written there and not run
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "exec/package/package.h"
#include "persistent_cache/pack.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/fuzz/forked_cases.h"
#include "tests/fuzz/package_parts.h"
#include "tests/fuzz/packages_fuzz_message.h"
#include "tests/fuzz/packages_fuzz_models.h"

namespace kiln {
namespace {

class PackagesFuzz : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kOff);
    for (const std::string& text : FuzzGraphs()) {
      KILN_ASSERT_OK_AND_ASSIGN(packages_.emplace_back(), PackageOf(text, dir_.File("cache")));
      parts_.push_back(TakeApart(packages_.back()));
    }
  }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  void Write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  // Runs with two sets of inputs, so that all variants are used, and reads the test cases.
  absl::Status LoadAndRun() const {
    KILN_ASSIGN_OR_RETURN(Model model, LoadPackage(path_, {.threads = 1}));
    std::mt19937_64 random(1);
    for (const int64_t extent : {2, 3}) KILN_RETURN_IF_ERROR(RunAndRead(model, extent, random));
    return ReadTests().status();
  }

  absl::StatusOr<std::vector<TestCase>> ReadTests() const {
    KILN_ASSIGN_OR_RETURN(const std::shared_ptr<Package> package,
                          Package::Open(PackageSource::File(path_)));
    return package->TestCases();
  }

  // Of the file.
  static bool NamesAPart(absl::string_view message) {
    for (const char* part :
         {"head: ", "footer: ", "description: ", "constants: ", "index", "entry", "pack: "}) {
      if (absl::StrContains(message, part)) return true;
    }
    return false;
  }

  // A package with one to three changes; what they are.
  std::string Forge(std::mt19937_64& random, std::string& changes) const {
    PackageParts parts = parts_[random() % parts_.size()];
    std::string& description = parts.section("package");
    FuzzMessage message = ParseFuzzMessage(PackageMessage(), description);
    const size_t count = 1 + (random() % 3) * (random() % 2);
    for (size_t i = 0; i < count; ++i) absl::StrAppend(&changes, Mutate(message, random), "; ");
    description = Serialize(message);
    return PutTogether(std::move(parts));
  }

  TempDir dir_;
  const std::string path_ = dir_.File("m.kiln");
  std::vector<std::string> packages_;
  std::vector<PackageParts> parts_;
};

TEST_F(PackagesFuzz, HonestOnesRun) {
  for (const std::string& package : packages_) {
    Write(package);
    KILN_ASSERT_OK_AND_ASSIGN(Model model, LoadPackage(path_, {.threads = 1}));
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<TestCase> tests, ReadTests());
    EXPECT_EQ(tests.size(), 1u);
    std::mt19937_64 random(1);
    for (const int64_t extent : {1, 2, 3}) KILN_EXPECT_OK(RunAndRead(model, extent, random));
  }
}

TEST_F(PackagesFuzz, DamageOfAnyByteIsFound) {
  std::mt19937_64 random(FuzzNumber("KILN_SEED", 1));
  for (const std::string& package : packages_) {
    const bool all = &package == &packages_.back();  // the smallest
    for (size_t k = 0; k < (all ? package.size() : 300); ++k) {
      const size_t at = all ? k : random() % package.size();
      std::string damaged = package;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 + random() % 255));
      Write(damaged);
      const absl::Status status = LoadAndRun();
      ASSERT_TRUE(absl::IsDataLoss(status))
          << "byte " << at << " of " << package.size() << ": " << status;
      ASSERT_TRUE(NamesAPart(status.message())) << "byte " << at << ": " << status;
    }
  }
}

TEST_F(PackagesFuzz, ForgedOnesAreRefusedOrRun) {
  const uint64_t first = FuzzNumber("KILN_SEED", 1), count = FuzzNumber("KILN_FUZZ_PACKAGES", 3000);
  if (const char* const folder = std::getenv("KILN_FUZZ_DUMP"); folder != nullptr) {
    std::mt19937_64 random(first);
    std::string changes;
    std::ofstream(absl::StrCat(folder, "/", first, ".kiln"), std::ios::binary)
        << Forge(random, changes);
    GTEST_SKIP() << "seed " << first << ": " << changes;
  }
  SharedCount loaded, ran;
  const auto judge = [&](uint64_t seed) -> std::string {
    std::mt19937_64 random(seed);
    std::string changes;
    Write(Forge(random, changes));
    absl::StatusOr<Model> model = LoadPackage(path_, {.threads = 1});
    if (!model.ok()) {
      const bool named = NamesAPart(model.status().message());
      return named || absl::IsResourceExhausted(model.status()) ? "" : model.status().ToString();
    }
    loaded.Add();
    // The tests of a package that loads are read, or are no test cases: what is there is looked at.
    const absl::StatusOr<std::vector<TestCase>> tests = ReadTests();
    if (!tests.ok()) return absl::IsDataLoss(tests.status()) ? "" : tests.status().ToString();
    for (const TestCase& test : *tests) {
      for (const Tensor& input : test.inputs) DigestOf(input);
    }
    static constexpr int64_t kExtents[] = {3, 3, 2, 1, 0, 5};
    if (RunAndRead(*model, kExtents[random() % std::size(kExtents)], random).ok()) ran.Add();
    return "";
  };
  for (const FailedCase& failure :
       ForEachCase(first, count, {.memory_may_be_refused = true}, judge)) {
    std::mt19937_64 random(failure.number);
    std::string changes;
    Forge(random, changes);
    ADD_FAILURE() << "KILN_SEED=" << failure.number << ": " << failure.what << "\n  " << changes;
  }
  std::cout << count << " packages, " << loaded.value() << " loaded, " << ran.value() << " ran\n";
  EXPECT_GT(10 * ran.value(), count);  // else the judge looks at little
}

}  // namespace
}  // namespace kiln
