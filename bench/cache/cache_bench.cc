// SPDX-License-Identifier: Apache-2.0
// What the kernel cache costs, each row beside what the same bytes cost without it.
//
//   cache_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only
//
// Files lie in $TMPDIR. Entries of the directory of 10,000 have 4 KiB of code, the warm hit 64 KiB.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/sha256.h"
#include "persistent_cache/store.h"

namespace kiln {
namespace {

constexpr int kMany = 10'000;

Preimage PreimageOf(int k) {
  return Preimage()
      .Add("kernel", absl::StrCat("kernel ", k, std::string(1500, ' ')))
      .Add("target", "x86-64-v3");
}

Entry EntryOf(int k, size_t bytes) {
  Entry entry;
  entry.key = PreimageOf(k).Key();
  entry.Add("preimage", PreimageOf(k).bytes(), true);
  entry.Add("meta", FormatMeta({{"target", "x86-64-v3"}, {"wall_ms", absl::StrCat(k % 900)}}),
            true);
  std::string code(bytes, '\0');
  for (size_t at = 0; at < bytes; ++at) code[at] = static_cast<char>(at * 2654435761u >> 13);
  entry.Add("elf", std::move(code), true);
  return entry;
}

// A directory that goes with the object.
class Folder {
 public:
  Folder() {
    const char* const tmp = std::getenv("TMPDIR");
    path_ = absl::StrCat(tmp != nullptr ? tmp : "/tmp", "/kiln-bench-XXXXXX");
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  StoreOptions Options(bool read_only = false) const {
    StoreOptions options;
    options.directory = path_ + "/cache";
    options.read_only = read_only;
    return options;
  }
  std::unique_ptr<Store> Open(bool read_only = false) const {
    return *Store::Open(RealFileSystem(), Options(read_only));
  }
  // Without the waits for the disk that publishing has.
  void Fill(int count, size_t bytes, int hours_old) const {
    const StoreLayout layout = Open()->layout();
    for (int k = 0; k < count; ++k) {
      const Entry entry = EntryOf(k, bytes);
      std::filesystem::create_directories(layout.ShardOf(entry.key));
      chmod(layout.ShardOf(entry.key).c_str(), 0700);
      const std::string path = layout.FileOf(entry.key);
      std::ofstream(path, std::ios::binary) << EncodeEntry(entry);
      chmod(path.c_str(), 0600);
      const timespec times[2] = {{0, UTIME_OMIT}, {time(nullptr) - 3600 * hours_old - k % 60, 0}};
      utimensat(AT_FDCWD, path.c_str(), times, 0);
    }
  }

 private:
  std::string path_;
};

const Folder& ManyEntries() {
  static const Folder* const folder = [] {
    auto* made = new Folder;
    made->Fill(kMany, 4096, 0);
    std::atexit([] { delete &ManyEntries(); });
    return made;
  }();
  return *folder;
}

void BM_ReadAndChecksum64K(benchmark::State& state) {
  const Folder folder;
  folder.Fill(1, 64 << 10, 0);
  const std::string path = folder.Open()->layout().FileOf(PreimageOf(0).Key());
  for (auto _ : state) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info {};
    fstat(fd, &info);
    std::string bytes(static_cast<size_t>(info.st_size), '\0');
    if (read(fd, bytes.data(), bytes.size()) != info.st_size) state.SkipWithError("short read");
    close(fd);
    benchmark::DoNotOptimize(Sha256(bytes));
  }
}
BENCHMARK(BM_ReadAndChecksum64K);

void BM_WarmHit64K(benchmark::State& state) {
  const Folder folder;
  folder.Fill(1, 64 << 10, 0);
  const auto store = folder.Open();
  const Preimage preimage = PreimageOf(0);
  for (auto _ : state) benchmark::DoNotOptimize(store->Lookup(preimage));
}
BENCHMARK(BM_WarmHit64K);

void BM_OpenOfAnAbsentFile(benchmark::State& state) {
  const Folder folder;
  const std::string path = folder.Open()->layout().FileOf(PreimageOf(1).Key());
  for (auto _ : state) benchmark::DoNotOptimize(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}
BENCHMARK(BM_OpenOfAnAbsentFile);

void BM_Miss(benchmark::State& state) {
  const Folder folder;
  const auto store = folder.Open();
  const Preimage preimage = PreimageOf(1);
  for (auto _ : state) benchmark::DoNotOptimize(store->Lookup(preimage));
}
BENCHMARK(BM_Miss);

void BM_OpenStore(benchmark::State& state) {
  const Folder& folder = ManyEntries();
  for (auto _ : state) benchmark::DoNotOptimize(folder.Open());
}
BENCHMARK(BM_OpenStore)->Unit(benchmark::kMicrosecond);

void BM_StatsOf10000(benchmark::State& state) {
  const auto store = ManyEntries().Open();
  for (auto _ : state) {
    benchmark::DoNotOptimize(store->List());
    benchmark::DoNotOptimize(store->Statistics());
  }
}
BENCHMARK(BM_StatsOf10000)->Unit(benchmark::kMillisecond);

// Bytes a second of entries of the usual sizes.
void BM_Verify(benchmark::State& state) {
  const Folder folder;
  const int count = 256;
  folder.Fill(count, static_cast<size_t>(state.range(0)), 0);
  const auto store = folder.Open(/*read_only=*/true);
  int64_t bytes = 0;
  for (auto _ : state) {
    for (int k = 0; k < count; ++k) {
      const absl::StatusOr<Entry> entry = store->Read(PreimageOf(k).Key());
      if (!entry.ok()) state.SkipWithError("damaged");
      bytes += state.range(0);
    }
  }
  state.SetBytesProcessed(bytes);
}
BENCHMARK(BM_Verify)->Arg(16 << 10)->Arg(64 << 10)->Arg(1 << 20);

void BM_Prune10000(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    auto folder = std::make_unique<Folder>();
    folder->Fill(kMany, 4096, 5);
    const auto store = folder->Open();
    state.ResumeTiming();
    const auto report = store->Prune(1, /*dry_run=*/false);
    state.PauseTiming();
    if (!report.ok() || report->evicted.size() != kMany) state.SkipWithError("not pruned");
    folder.reset();
    state.ResumeTiming();
  }
}
BENCHMARK(BM_Prune10000)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  kiln::SetLogLevel(kiln::LogLevel::kOff);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
