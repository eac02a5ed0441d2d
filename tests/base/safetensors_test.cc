// SPDX-License-Identifier: Apache-2.0
// The safetensors reader and writer against each other, against files that break every rule, and,
// where it is there (scripts/fetch_python), against the package of PyPI in both directions.
#include "base/safetensors.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/little_endian.h"
#include "base/publish_file.h"
#include "base/safetensors_header.h"
#include "base/tensor_bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/fault_injecting_file_system.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

using testing::HasSubstr;

constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                            DType::kI16, DType::kI32, DType::kI64, DType::kU8,   DType::kU16,
                            DType::kU32, DType::kU64, DType::kBool};

std::string Folder() {
  std::string folder = testing::TempDir() + "/safetensors.XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  return folder;
}

Tensor Numbered(DType type, std::vector<int64_t> shape) {
  Tensor tensor = Tensor::Allocate(type, std::move(shape));
  auto* const bytes = static_cast<unsigned char*>(tensor.data());
  for (int64_t i = 0; i < tensor.size_bytes(); ++i)
    bytes[i] = static_cast<unsigned char>(type == DType::kBool ? i % 2 : 1 + i * 7 % 120);
  return tensor;
}

std::map<std::string, Tensor> OfAllTypes() {
  std::map<std::string, Tensor> tensors;
  for (const DType type : kTypes)
    tensors.emplace(absl::StrCat("t.", Name(type)), Numbered(type, {2, 3}));
  tensors.emplace("scalar", Numbered(DType::kF32, {}));
  tensors.emplace("empty", Numbered(DType::kI64, {0, 5}));
  tensors.emplace("odd \"name\"\\ \n\xC3\xA4 \xF0\x9F\x98\x80", Numbered(DType::kU8, {3}));
  return tensors;
}

void ExpectEqual(const std::map<std::string, Tensor>& got,
                 const std::map<std::string, Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) {
    const auto found = got.find(name);
    ASSERT_NE(found, got.end()) << name;
    EXPECT_EQ(found->second.dtype(), tensor.dtype()) << name;
    EXPECT_EQ(found->second.shape(), tensor.shape()) << name;
    EXPECT_EQ(BytesOf(found->second), BytesOf(tensor)) << name;
  }
}

// A file of this header and data.
std::string File(const std::string& json, const std::string& data = "") {
  std::string bytes;
  AppendU64(bytes, json.size());
  return bytes + json + data;
}

absl::Status StatusOf(const std::string& bytes) {
  return ParseSafetensors(bytes, nullptr).status();
}

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Safetensors, ReadsWhatItWrites) {
  const std::string path = Folder() + "/m.safetensors";
  const std::map<std::string, Tensor> tensors = OfAllTypes();
  const std::map<std::string, std::string> metadata = {{"step", "7"}, {"quote\"", "line\nfeed"}};
  KILN_ASSERT_OK(WriteSafetensors(RealFileSystem(), path, tensors, metadata));
  KILN_ASSERT_OK_AND_ASSIGN(const Safetensors read, ReadSafetensors(RealFileSystem(), path));
  EXPECT_EQ(read.metadata, metadata);
  ExpectEqual(read.tensors, tensors);
  for (const auto& [name, tensor] : read.tensors)
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % SizeOf(tensor.dtype()), 0u) << name;
  EXPECT_EQ(read.Find("none"), nullptr);

  // Equal tensors are equal bytes, and no temporary file stays.
  const std::string first = ReadAll(path);
  KILN_ASSERT_OK(WriteSafetensors(RealFileSystem(), path, tensors, metadata));
  EXPECT_EQ(ReadAll(path), first);
  const std::filesystem::directory_iterator files(std::filesystem::path(path).parent_path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(Safetensors, WritersOfOneFileWaitForEachOther) {
  const std::string path = Folder() + "/m.safetensors";
  const auto write = [&](float value) {
    const Tensor x = Tensor::View(&value, DType::kF32, {});
    for (int k = 0; k < 50; ++k) {
      KILN_ASSERT_OK(WriteSafetensors(RealFileSystem(), path, {{"x", x}}));
      KILN_ASSERT_OK(ReadSafetensors(RealFileSystem(), path).status());
    }
  };
  std::thread one(write, 1), two(write, 2);
  one.join();
  two.join();
}

TEST(Safetensors, PermissionsOfAFileStay) {
  const std::string path = Folder() + "/m.safetensors";
  const std::map<std::string, Tensor> tensors = OfAllTypes();
  KILN_ASSERT_OK(WriteSafetensors(RealFileSystem(), path, tensors));
  for (const mode_t mode : {0600, 0666, 0640}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    KILN_ASSERT_OK(WriteSafetensors(RealFileSystem(), path, tensors));
    KILN_ASSERT_OK_AND_ASSIGN(const FileInfo info, RealFileSystem().Stat(path));
    EXPECT_EQ(info.mode, mode);
  }
}

// No file of the user's is in the way, and names may be as long as the system lets them.
TEST(Safetensors, OtherFilesStay) {
  const std::string folder = Folder(), path = folder + "/m.safetensors";
  const std::map<std::string, Tensor> tensors = OfAllTypes();
  std::ofstream(path + ".tmp") << "mine";
  for (const std::string& each : {path, folder + "/" + std::string(255, 'a')})
    KILN_ASSERT_OK(WriteSafetensors(RealFileSystem(), each, tensors));
  EXPECT_EQ(ReadAll(path + ".tmp"), "mine");
  const absl::Status none = WriteSafetensors(RealFileSystem(), folder + "/none/m", tensors);
  EXPECT_THAT(std::string(none.message()), testing::HasSubstr("/none/m\""));
}

TEST(Safetensors, WritesStridedTensorsDense) {
  const std::string path = Folder() + "/m.safetensors";
  const Tensor whole = Numbered(DType::kI16, {2, 3});
  const Tensor transposed = Tensor::View(whole.data(), DType::kI16, {3, 2}, {1, 3});
  KILN_ASSERT_OK(WriteSafetensors(RealFileSystem(), path, {{"x", transposed}}));
  KILN_ASSERT_OK_AND_ASSIGN(const Safetensors read, ReadSafetensors(RealFileSystem(), path));
  EXPECT_EQ(BytesOf(read.tensors.at("x")), BytesOf(transposed.Clone()));
}

TEST(Safetensors, ReadsUnalignedTensorsAndUnevenTruths) {
  const std::string json = R"({"b":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},)"
                           R"("x":{"dtype":"F64","shape":[1],"data_offsets":[3,11]}} )";
  const double value = 1.5;
  std::string bytes = File(json, std::string("\0\x02\xFF", 3));
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  KILN_ASSERT_OK_AND_ASSIGN(const Safetensors read, ParseSafetensors(bytes, nullptr));
  EXPECT_EQ(*static_cast<const double*>(read.tensors.at("x").data()), 1.5);
  EXPECT_EQ(BytesOf(read.tensors.at("b")), absl::string_view("\0\1\1", 3));
}

TEST(Safetensors, RefusesHostileHeaders) {
  const auto tensor = [](const std::string& rest) { return "{\"x\":{" + rest + "}}"; };
  const std::string plain = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  KILN_EXPECT_OK(StatusOf(File(tensor(plain), "abcd")));
  const struct {
    std::string bytes, error;
  } kCases[] = {
      {"", "has 0 bytes"},
      {std::string(7, '\0'), "has 7 bytes"},
      {std::string(8, '\0'), "byte 0: expected {"},
      {std::string(8, '\xFF'), "the limit is 100000000"},
      {File(tensor(plain), "abcd").substr(0, 20), "the file 12 behind its length"},
      {File(tensor(plain), "abc"), "ends at byte 4 of 3"},
      {File(tensor(plain), "abcde"), "the tensors end at byte 4 of 5"},
      {File("{}", "a"), "the tensors end at byte 0 of 1"},
      {File("[]"), "expected {"},
      {File("{}{}"), "bytes behind the last brace"},
      {File("{\"x\":1}"), "expected {"},
      {File("{\"x\""), "expected :"},
      {File("{\"x"), "a string without an end"},
      {File("{\"x\\"), "a string without an end"},
      {File("{\"\\ud800\":"), "half of a surrogate pair"},
      {File("{\"\\udc00\":"), "half of a surrogate pair"},
      {File("{\"\\q\":"), "an unknown escape"},
      {File("{\"\\u12g4\":"), "four hexadecimal digits"},
      {File("{\"\n\":"), "a control character"},
      {File("{\"\xC0\x80\":"), "no UTF-8"},
      {File("{\"x\":{" + plain + "},}", "abcd"), "expected \""},
      {File(tensor(plain + ",\"more\":1"), "abcd"), "key \"more\""},
      {File(tensor(plain + ",\"dtype\":\"F32\""), "abcd"), "key \"dtype\" stands twice"},
      {File("{\"x\":{" + plain + "},\"\\u0078\":{" + plain + "}}", "abcd"),
       "key \"x\" stands twice"},
      {File(tensor(R"("dtype":"F32","shape":[1])")), "has not all of"},
      {File(tensor(R"("dtype":"F33","shape":[1],"data_offsets":[0,4])"), "abcd"),
       "dtype \"F33\" is not supported"},
      {File(tensor(R"("dtype":32,"shape":[1],"data_offsets":[0,4])"), "abcd"), "expected \""},
      {File(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "abcd"), "say 8 bytes"},
      {File(tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), "abcd"), "a count"},
      {File(tensor(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), "abcd"), "expected ]"},
      {File(tensor(R"("dtype":"F32","shape":[01],"data_offsets":[0,4])"), "abcd"), "leading zero"},
      {File(tensor(R"("dtype":"F32","shape":[[[[1]]]],"data_offsets":[0,4])"), "abcd"), "a count"},
      {File(tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],)"
                   R"("data_offsets":[0,4])"),
            "abcd"),
       "more than 16 axes"},
      {File(tensor(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4])"), "abcd"),
       "more than 63 bits"},
      {File(tensor(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])")),
       "say -1 bytes"},
      {File(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), "abcd"),
       "begins at byte 4"},
      {File(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[1,5])"), "abcde"),
       "begins at byte 1, expected 0"},
      {File(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])"), "abcd"),
       "3 data_offsets"},
      // Two that overlap, and two with a gap.
      {File("{\"x\":{" + plain + "},\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
            "abcde"),
       "begins at byte 3, expected 4"},
      {File("{\"x\":{" + plain + "},\"y\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[5,6]}}",
            "abcdef"),
       "begins at byte 5, expected 4"},
      {File("{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}"), "expected \""},
      {File("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}"), "key \"a\" stands twice"},
  };
  for (const auto& hostile : kCases) {
    const absl::Status status = StatusOf(hostile.bytes);
    EXPECT_FALSE(status.ok()) << hostile.error;
    EXPECT_THAT(std::string(status.message()), HasSubstr(hostile.error));
  }
  EXPECT_EQ(StatusOf(File(std::string(1 << 20, '['))).code(), absl::StatusCode::kDataLoss);
}

TEST(Safetensors, ManyTensorsAreALimit) {
  std::string json = "{";
  for (size_t i = 0; i <= kMaxSafetensors; ++i)
    absl::StrAppend(&json, i == 0 ? "" : ",", "\"", i,
                    "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
  EXPECT_EQ(StatusOf(File(json + "}")).code(), absl::StatusCode::kResourceExhausted);
}

// A mutation is refused, or gives tensors that lie within the file; under AddressSanitizer, reading
// all their bytes shows it.
TEST(Safetensors, MutationsAreRefusedOrRead) {
  const std::string path = Folder() + "/m.safetensors";
  KILN_ASSERT_OK(WriteSafetensors(RealFileSystem(), path, OfAllTypes(), {{"step", "7"}}));
  const std::string original = ReadAll(path);
  std::mt19937 random(1);
  int refused = 0;
  constexpr int kMutations = 3000;
  for (int i = 0; i < kMutations; ++i) {
    std::string bytes = original;
    for (unsigned edits = 1 + random() % 3; edits-- > 0;) {
      const size_t at = random() % bytes.size();
      constexpr absl::string_view kLikely = "0123456789\"{}[],:\\ ";
      if (random() % 3 == 0) {
        bytes.erase(at, 1 + random() % 8);
      } else if (random() % 2 == 0) {
        bytes[at] = kLikely[random() % kLikely.size()];
      } else {
        bytes.insert(at, 1, static_cast<char>(random()));
      }
      if (bytes.empty()) bytes = "x";
    }
    const absl::StatusOr<Safetensors> read = ParseSafetensors(bytes, nullptr);
    if (!read.ok()) {
      ++refused;
      continue;
    }
    int64_t sum = 0;
    for (const auto& [name, tensor] : read->tensors) {
      for (const char byte : BytesOf(tensor)) sum += byte;
    }
    EXPECT_GE(sum, INT64_MIN);
  }
  EXPECT_GT(refused, kMutations / 3);
  EXPECT_LT(refused, kMutations);
}

TEST(Safetensors, AFailedWriteLeavesTheFile) {
  const std::string path = Folder() + "/m.safetensors";
  const std::map<std::string, Tensor> old = {{"x", Numbered(DType::kF32, {4})}};
  KILN_ASSERT_OK(WriteSafetensors(RealFileSystem(), path, old));
  for (const std::string& name : {std::string("\xFF"), std::string("__metadata__")}) {
    const absl::Status status = WriteSafetensors(RealFileSystem(), path, {{name, old.at("x")}});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(WriteSafetensors(RealFileSystem(), path + "/no/folder", old).ok());
  KILN_ASSERT_OK_AND_ASSIGN(const Safetensors read, ReadSafetensors(RealFileSystem(), path));
  ExpectEqual(read.tensors, old);
  EXPECT_EQ(ReadSafetensors(RealFileSystem(), path + ".none").status().code(),
            absl::StatusCode::kNotFound);
}

// Writes files of step 1, 2, ... and tells when each is there, until it is killed.
[[noreturn]] void WriteForEver(const std::string& path, int told) {
  for (int64_t step = 1;; ++step) {
    Tensor tensor = Tensor::Allocate(DType::kI64, {1 << 14});
    std::fill_n(static_cast<int64_t*>(tensor.data()), tensor.num_elements(), step);
    if (!WriteSafetensors(RealFileSystem(), path, {{"x", tensor}}).ok()) _exit(1);
    if (write(told, &step, sizeof(step)) != sizeof(step)) _exit(1);
  }
}

// KILN_KILLED_CHECKPOINTS writers are killed at random moments.
// As with a file that is opened to be written: the name stays a link, and what it leads to is new,
// there or not, beside the link or not.
TEST(Safetensors, WritesAndReadsWhereLinksLead) {
  const TempDir dir;
  const std::map<std::string, Tensor> one = {{"a", Numbered(DType::kF32, {1})}};
  for (const bool relative : {false, true}) {
    const std::string folder = dir.File(relative ? "r" : "a"), file = folder + "/run.1";
    std::filesystem::create_directory(folder);
    const std::string link = dir.File(relative ? "latest.r" : "latest.a"), again = link + ".again";
    std::filesystem::create_symlink(relative ? "r/run.1" : file, link);
    std::filesystem::create_symlink(link, again);
    for (int round = 0; round < 2; ++round) {  // a link to nothing yet, then to a file
      KILN_ASSERT_OK(WriteSafetensors(RealFileSystem(), again, one));
      EXPECT_TRUE(std::filesystem::is_symlink(again) && std::filesystem::is_symlink(link));
      for (const std::string& path : {file, link, again}) {
        KILN_ASSERT_OK_AND_ASSIGN(const Safetensors read, ReadSafetensors(RealFileSystem(), path));
        EXPECT_EQ(read.tensors.size(), 1u) << path;
      }
    }
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1) << "a file left";
  }
}

TEST(Safetensors, WritesOverNoDeviceDirectoryOrCircle) {
  const TempDir dir;
  std::filesystem::create_symlink(dir.File("b"), dir.File("a"));
  std::filesystem::create_symlink(dir.File("a"), dir.File("b"));
  std::filesystem::create_symlink("/dev/null", dir.File("null"));
  for (const auto& [path, why] :
       {std::pair(dir.File("a"), "leads nowhere by links"), std::pair(dir.path(), "is a directory"),
        std::pair(dir.File("null"), "is no regular file")}) {
    EXPECT_THAT(WriteSafetensors(RealFileSystem(), path, {}),
                StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr(why)));
    EXPECT_EQ(CheckPublishable(RealFileSystem(), path).code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(Safetensors, AKilledWriterLeavesTheLastFileOrTheNext) {
  const char* const asked = std::getenv("KILN_KILLED_CHECKPOINTS");
  const int kills = asked == nullptr ? 25 : std::atoi(asked);
  const std::string path = Folder() + "/m.safetensors";
  std::mt19937 random(1);
  int with_file = 0;
  for (int i = 0; i < kills; ++i) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t writer = fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) WriteForEver(path, ends[1]);
    close(ends[1]);
    // Some steps, and then some part of the next one.
    int64_t last = 0, step = 0;
    for (unsigned wanted = random() % 3;
         wanted-- > 0 && read(ends[0], &step, sizeof(step)) == sizeof(step);)
      last = step;
    usleep(random() % 20'000);
    kill(writer, SIGKILL);
    while (read(ends[0], &step, sizeof(step)) == sizeof(step)) last = step;
    int status = 0;
    ASSERT_EQ(waitpid(writer, &status, 0), writer);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    close(ends[0]);

    const absl::StatusOr<Safetensors> read = ReadSafetensors(RealFileSystem(), path);
    if (!read.ok()) {
      ASSERT_TRUE(absl::IsNotFound(read.status()) && last == 0 && with_file == 0) << read.status();
      continue;
    }
    ++with_file;
    const auto* const x = static_cast<const int64_t*>(read->tensors.at("x").data());
    if (last == 0) continue;  // of an earlier writer, or this one's first
    EXPECT_TRUE(x[0] == last || x[0] == last + 1) << x[0] << " after " << last;
    EXPECT_TRUE(std::all_of(x, x + (1 << 14), [&](int64_t value) { return value == x[0]; }));
  }
  EXPECT_GT(with_file, 0);
}

TEST(Safetensors, AgreesWithThePackage) {
  const char* const more = std::getenv("PYTHONPATH");
  const std::string python =
      absl::StrCat("PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=", more == nullptr ? "" : more, ":",
                   KILN_SOURCE_DIR, "/.deps/python python3 ");
  if (std::system((python + "-c 'import safetensors.numpy' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no package safetensors; scripts/fetch_python installs it";
  const std::string folder = Folder();
  const std::map<std::string, Tensor> tensors = OfAllTypes();
  const std::map<std::string, std::string> metadata = {{"step", "7"}, {"\xC3\xA4\"", "\\ \n"}};
  const std::string ours = folder + "/ours.safetensors", theirs = folder + "/theirs.safetensors";
  KILN_ASSERT_OK(WriteSafetensors(RealFileSystem(), ours, tensors, metadata));
  // The script reads our file with the package, looks at every byte and writes it anew.
  const std::string script = absl::StrCat(python, KILN_SOURCE_DIR, "/tests/base/safetensors.py ");
  ASSERT_EQ(std::system(absl::StrCat(script, ours, " ", theirs).c_str()), 0);
  KILN_ASSERT_OK_AND_ASSIGN(const Safetensors read, ReadSafetensors(RealFileSystem(), theirs));
  EXPECT_EQ(read.metadata, metadata);
  ExpectEqual(read.tensors, tensors);
}

}  // namespace
}  // namespace kiln
