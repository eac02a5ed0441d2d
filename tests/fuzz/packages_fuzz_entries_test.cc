// SPDX-License-Identifier: Apache-2.0
// Entries of a cache of which bytes are damaged, and entries that are forged: other contents, other
// tables or another index under right checksums. A damaged entry is a miss and is set aside; with
// a forged one in its cache, a model still compiles and runs.
//
//   KILN_FUZZ_ENTRIES    how many are forged
//   KILN_SEED            the first seed
//   KILN_FUZZ_DUMP       a folder: forged objects are written there, by seed
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/variants.h"
#include "compiler/warm_model.h"
#include "exec/cpu/elf_check.h"
#include "exec/cpu/elf_loader.h"
#include "graph/text.h"
#include "persistent_cache/pack.h"
#include "persistent_cache/store.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/fuzz/forked_cases.h"
#include "tests/fuzz/packages_fuzz_message.h"
#include "tests/fuzz/packages_fuzz_models.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSum = 32;
constexpr uint64_t kQuick = 1500;  // entries, unless more are asked for

void WriteFile(const std::string& path, absl::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Other bytes for those of an entry's file, with their checksum.
std::string Sealed(std::string file) {
  const Sha256Digest sum = Sha256(absl::string_view(file).substr(0, file.size() - kSum));
  std::memcpy(file.data() + file.size() - kSum, sum.data(), kSum);
  return file;
}

// A word of 4 or 8 bytes, at a multiple of its size below `end`.
void ChangeWord(std::string& bytes, size_t end, std::mt19937_64& random) {
  const size_t size = random() % 2 == 0 ? 4 : 8;
  const size_t at = random() % (end / size) * size;
  uint64_t value = ExpensiveNumber(random);
  uint64_t old = 0;
  std::memcpy(&old, bytes.data() + at, size);
  if (random() % 2 == 0) value = old + (random() % 3 - 1) * (uint64_t{1} << random() % 8);
  if (random() % 4 == 0) std::memcpy(&value, bytes.data() + random() % (end / size) * size, size);
  std::memcpy(bytes.data() + at, &value, size);
}

std::string ChangedMeta(const std::string& text, std::mt19937_64& random) {
  std::map<std::string, std::string> meta = ParseMeta(text);
  static const char* const kNames[] = {"expires",  "isa",    "scratch",   "wall_ms",
                                       "schedule", "launch", "kind",      "external0",
                                       "sha256",   "size",   "validation"};
  static const char* const kValues[] = {
      "",      "-1",      "9223372036854775807", "x",
      "1e300", "../../x", "0 0 0 0 0",           "9999999999999999999999"};
  meta[kNames[random() % std::size(kNames)]] = kValues[random() % std::size(kValues)];
  if (!meta.empty() && random() % 2 == 0)
    std::next(meta.begin(), static_cast<std::ptrdiff_t>(random() % meta.size()))->second =
        kValues[random() % std::size(kValues)];
  return FormatMeta(meta);
}

class EntriesFuzz : public testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kOff); }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  CompileOptions Options(bool read_only) const {
    CompileOptions options;
    options.compile_mode = CompileMode::kNever;
    options.cache.directory = dir_.File("cache");
    options.cache.read_only = read_only;
    options.threads = 1;
    return options;
  }
  absl::Status Start(size_t model, bool read_only, uint64_t seed) const {
    const CompileOptions options = Options(read_only);
    const auto service = std::make_shared<KernelService>(options);
    KILN_ASSIGN_OR_RETURN(const auto opened, WarmModel::Open(models_[model], options, service));
    KILN_ASSIGN_OR_RETURN(Model made, Compile(opened, options));
    std::mt19937_64 random(seed);
    // What the caller has is what the model takes, whatever a forged entry says.
    const std::vector<PortInfo>* const honest = model < ports_.size() ? &ports_[model] : nullptr;
    KILN_RETURN_IF_ERROR(RunAndRead(made, 2 + static_cast<int64_t>(seed % 2), random, honest,
                                    std::chrono::seconds(10)));  // it compiles
    opened->WaitUntilKept();
    return absl::OkStatus();
  }

  // A cache that has everything of some models.
  void MakeCache() {
    for (const std::string& text : FuzzGraphs()) {
      KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(text));
      ports_.push_back(PortInfosOf(graph, true));
      models_.push_back(dir_.File(absl::StrCat("m", models_.size(), ".graph")));
      WriteFile(models_.back(), text);
    }
    absl::SleepFor(absl::Milliseconds(200));  // what is known of new files is not kept
    for (size_t m = 0; m < models_.size(); ++m) {
      const std::map<std::string, std::string> before = files_;
      for (const uint64_t seed : {0, 1, 0, 1}) KILN_ASSERT_OK(Start(m, false, seed));
      for (const auto& file : fs::recursive_directory_iterator(dir_.File("cache/v1/e"))) {
        if (file.is_regular_file()) files_[file.path()] = Contents(file.path());
      }
      for (const auto& [path, bytes] : files_) {
        if (before.count(path) == 0) owned_.emplace_back(path, m);
      }
    }
    ASSERT_GE(owned_.size(), models_.size());
  }

  TempDir dir_;
  std::vector<std::string> models_;
  std::vector<std::vector<PortInfo>> ports_;           // of the models
  std::map<std::string, std::string> files_;           // of the cache, by path
  std::vector<std::pair<std::string, size_t>> owned_;  // and whose they are
};

TEST_F(EntriesFuzz, DamageOfAnyByteIsAMissAndIsSetAside) {
  StoreOptions options;
  options.directory = dir_.File("store");
  KILN_ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(RealFileSystem(), options));
  const auto preimage = [](const char* name) { return Preimage().Add("kernel", name); };
  Entry kernel;
  kernel.key = preimage("code").Key();
  kernel.Add("preimage", preimage("code").bytes(), true);
  kernel.Add("meta", FormatMeta({{"isa", "avx2"}}), true);
  kernel.Add("note", "x", false);
  kernel.Add("elf", std::string(77, 'e'), true);
  KILN_ASSERT_OK(store->Publish(kernel));
  KILN_ASSERT_OK(store->PublishFailure(preimage("failure"), "it does not build", {}));
  KILN_ASSERT_OK(store->PublishBlob(preimage("blob"), std::string(100, 'b'), {}));
  std::mt19937_64 random(FuzzNumber("KILN_SEED", 1));
  for (const char* const name : {"code", "failure", "blob"}) {
    const Preimage at = preimage(name);
    const std::string path = store->layout().FileOf(at.Key());
    const std::string whole = Contents(path);
    const auto finds = [&] {
      if (std::string(name) == "blob")
        return store->FindBlob(at, [](const FileIdentity&) { return false; }).has_value();
      return store->Lookup(at).has_value();
    };
    ASSERT_TRUE(finds());
    for (size_t k = 0; k < whole.size(); ++k) {
      std::string damaged = whole;
      damaged[k] = static_cast<char>(damaged[k] ^ (1 + random() % 255));
      WriteFile(path, damaged);
      fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
      ASSERT_FALSE(finds()) << name << ": byte " << k << " of " << whole.size();
      // Another version may be another build's: it is left where it is.
      const bool version = k >= 8 && k < 12;
      ASSERT_TRUE(version || !fs::exists(path)) << name << ": byte " << k << " is not set aside";
    }
  }
}

TEST_F(EntriesFuzz, DamageOfAnyByteOfAPackIsFound) {
  std::vector<Entry> entries(2);
  for (Entry& entry : entries) {
    const Preimage preimage = Preimage().Add("kernel", &entry == entries.data() ? "a" : "b");
    entry.key = preimage.Key();
    entry.Add("preimage", preimage.bytes(), true);
    entry.Add("elf", std::string(33, 'e'), true);
  }
  KILN_ASSERT_OK_AND_ASSIGN(const std::string whole, EncodePack(entries, nullptr));
  PackTrust trust;
  trust.unsigned_too = true;
  const auto read = [&](const std::string& bytes) -> absl::Status {
    WriteFile(dir_.File("pack"), bytes);
    KILN_ASSIGN_OR_RETURN(const auto pack, Pack::Open(RealFileSystem(), dir_.File("pack"), trust));
    for (const Pack::Row& row : pack->rows())
      KILN_RETURN_IF_ERROR(pack->Read(row.key, nullptr).status());
    return absl::OkStatus();
  };
  KILN_ASSERT_OK(read(whole));
  for (size_t k = 0; k < whole.size(); ++k) {
    std::string damaged = whole;
    damaged[k] = static_cast<char>(damaged[k] ^ 0x10);
    ASSERT_FALSE(read(damaged).ok()) << "byte " << k << " of " << whole.size();
  }
}

TEST_F(EntriesFuzz, ForgedOnesInACacheAreMisses) {
  MakeCache();
  const uint64_t first = FuzzNumber("KILN_SEED", 1),
                 count = FuzzNumber("KILN_FUZZ_ENTRIES", kQuick);
  const auto forge = [this](uint64_t seed, std::string& path, size_t& model, std::string& changes) {
    std::mt19937_64 random(seed);
    std::tie(path, model) = owned_[random() % owned_.size()];
    std::string file = files_.at(path);
    Entry entry = *DecodeEntry(file);
    const Section& picked = entry.sections[random() % entry.sections.size()];
    const std::string tag =
        entry.Find("program") != nullptr && random() % 4 != 0 ? "program" : picked.tag;
    if (random() % 6 == 0) {
      changes = "a word of the table";
      ChangeWord(file, 56 + 40 * entry.sections.size(), random);
      return Sealed(std::move(file));
    }
    for (Section& section : entry.sections) {
      if (section.tag != tag) continue;
      if (tag == "program") {
        FuzzMessage message = ParseFuzzMessage(StoredModelMessage(), section.bytes);
        const size_t times = 1 + (random() % 3) * (random() % 2);
        // Forged alike in its ports and Programs, it would be another model's.
        for (size_t i = 0; i < times; ++i)
          absl::StrAppend(&changes, Mutate(message, random, /*everywhere=*/false), "; ");
        section.bytes = Serialize(message);
      } else if (tag == "meta") {
        section.bytes = ChangedMeta(section.bytes, random);
        absl::StrAppend(&changes, "meta: ", section.bytes);
      } else {
        absl::StrAppend(&changes, tag, " cut");
        section.bytes.resize(random() % (section.bytes.size() + 1));
      }
    }
    return EncodeEntry(entry);
  };
  const auto judge = [&](uint64_t seed) -> std::string {
    std::string path, changes;
    size_t model = 0;
    for (const auto& [known, whole] : files_) WriteFile(known, whole);
    const std::string bytes = forge(seed, path, model, changes);
    WriteFile(path, bytes);
    const absl::Status status = Start(model, /*read_only=*/true, seed);
    // Several changes may forge ports and Program alike, as those of another model.
    const size_t count = static_cast<size_t>(std::count(changes.begin(), changes.end(), ';'));
    const bool other_model = count > 1 && (absl::StartsWith(status.message(), "input \"") ||
                                           absl::StrContains(status.message(), "; the model has "));
    return status.ok() || other_model ? "" : status.ToString();
  };
  for (const FailedCase& failure :
       ForEachCase(first, count, {.memory_may_be_refused = true}, judge)) {
    std::string path, changes;
    size_t model = 0;
    forge(failure.number, path, model, changes);
    ADD_FAILURE() << "KILN_SEED=" << failure.number << ", model " << model << ": " << failure.what
                  << "\n  " << changes;
  }
}

// Of what is refused nothing is asked, and what is accepted is loaded; its code does not run.
TEST_F(EntriesFuzz, ForgedObjectsAreRefusedOrLoad) {
  const std::string object = Contents(std::string(TEST_KERNEL_DIR) + "/test_kernel_1.so");
  ASSERT_TRUE(LoadElf(object).ok());
  const auto judge = [&](uint64_t seed) -> std::string {
    std::mt19937_64 random(seed);
    std::string forged = object;
    const size_t times = 1 + random() % 3;
    for (size_t i = 0; i < times; ++i) ChangeWord(forged, forged.size(), random);
    if (random() % 16 == 0) forged.resize(random() % forged.size());
    if (const char* const folder = std::getenv("KILN_FUZZ_DUMP"); folder != nullptr)
      WriteFile(absl::StrCat(folder, "/", seed, ".so"), forged);
    if (CheckKernelElf(forged).ok()) LoadElf(forged).status().IgnoreError();
    return "";
  };
  const uint64_t first = FuzzNumber("KILN_SEED", 1),
                 count = FuzzNumber("KILN_FUZZ_ENTRIES", kQuick);
  for (const FailedCase& failure :
       ForEachCase(first, 5 * count, {.memory_may_be_refused = true}, judge))
    ADD_FAILURE() << "KILN_SEED=" << failure.number << ": " << failure.what;
}

TEST_F(EntriesFuzz, ForgedPacksAreRefusedOrRead) {
  std::vector<Entry> entries(3);
  for (Entry& entry : entries) {
    const Preimage preimage = Preimage().Add("kernel", absl::StrCat(&entry - entries.data()));
    entry.key = preimage.Key();
    entry.Add("preimage", preimage.bytes(), true);
    entry.Add("elf", std::string(33, 'e'), true);
  }
  KILN_ASSERT_OK_AND_ASSIGN(const std::string whole, EncodePack(entries, nullptr));
  constexpr size_t kHead = 32, kRow = 80, kTrailer = 128;
  const auto judge = [&](uint64_t seed) -> std::string {
    std::mt19937_64 random(seed);
    std::string forged = whole;
    std::string head = forged.substr(0, kHead);
    std::string index = forged.substr(forged.size() - kTrailer - 3 * kRow, 3 * kRow);
    if (random() % 3 == 0) ChangeWord(head, head.size(), random);
    ChangeWord(index, index.size(), random);
    const Sha256Digest sum = Sha256(absl::StrCat(head, index));
    forged.replace(0, kHead, head);
    forged.replace(forged.size() - kTrailer - index.size(), index.size(), index);
    std::memcpy(forged.data() + forged.size() - kTrailer, sum.data(), sum.size());
    const std::string path = dir_.File("pack");
    WriteFile(path, forged);
    PackTrust trust;
    trust.unsigned_too = true;
    const auto pack = Pack::Open(RealFileSystem(), path, trust);
    if (!pack.ok()) return "";
    for (const Pack::Row& row : (*pack)->rows())
      (*pack)->Read(row.key, nullptr).status().IgnoreError();
    return "";
  };
  const uint64_t first = FuzzNumber("KILN_SEED", 1),
                 count = FuzzNumber("KILN_FUZZ_ENTRIES", kQuick);
  for (const FailedCase& failure :
       ForEachCase(first, count, {.memory_may_be_refused = true}, judge))
    ADD_FAILURE() << "KILN_SEED=" << failure.number << ": " << failure.what;
}

}  // namespace
}  // namespace kiln
