// SPDX-License-Identifier: Apache-2.0
// Packages from files, descriptors, memory and callbacks; signed and compressed ones; constants
// that are mapped.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/compile_script.h"
#include "compiler/package_writer.h"
#include "compiler/variants.h"
#include "exec/package/package.h"
#include "graph/text.h"
#include "kiln/package.h"
#include "persistent_cache/store.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/fuzz/package_parts.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

// The examples of RFC 8410 and of nobody.
constexpr char kPem[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
    "-----END PRIVATE KEY-----\n";

int64_t Rows(int64_t bytes) { return bytes / (256 * 4); }

// y = w[i], with a w of `bytes` bytes.
absl::StatusOr<std::string> PackageOfTable(int64_t bytes, const std::string& cache,
                                           const PackageWriteOptions& how = {}) {
  CompileOptions options;
  options.compile_mode = CompileMode::kNever;
  options.target = LowestTarget();
  KILN_ASSIGN_OR_RETURN(Graph graph, ParseGraph(absl::StrCat(
                                         "graph g\ninput i : i64 [n]\ninput w : f32 [", Rows(bytes),
                                         ", 256]\ny = gather(w, i) {axis = 0}\n", "output y\n")));
  KILN_ASSIGN_OR_RETURN(Compiled compiled, CompileGraph(graph, options));
  // The second input becomes a constant: no text holds so many elements.
  program::Program& program = compiled.variant.program;
  program.mutable_inputs()->RemoveLast();
  for (program::Buffer& buffer : *program.mutable_buffers()) {
    if (buffer.kind() != program::Buffer::INPUT || buffer.index() != 1) continue;
    buffer.set_kind(program::Buffer::CONSTANT);
    buffer.set_index(0);
  }
  program::Constant& constant = *program.add_constants();
  constant.set_dtype(static_cast<uint32_t>(DType::kF32));
  constant.add_shape(Rows(bytes));
  constant.add_shape(256);
  Tensor w = Tensor::Allocate(DType::kF32, {Rows(bytes), 256});
  for (int64_t k = 0; k < w.num_elements(); ++k)
    static_cast<float*>(w.data())[k] = static_cast<float>(k / 256 % 1000);
  compiled.variant.constants = {w};
  std::vector<PortInfo> inputs = PortInfosOf(graph, true);
  inputs.pop_back();
  PackageWriter writer(inputs, PortInfosOf(graph, false), options.math);
  KILN_RETURN_IF_ERROR(writer.Add(LowestTarget(), compiled.variant));
  StoreOptions store_options;
  store_options.directory = cache;
  KILN_ASSIGN_OR_RETURN(const auto store, Store::Open(RealFileSystem(), store_options));
  return writer.Encode(*store, how);
}

absl::StatusOr<float> Looked(Model& model, int64_t row) {
  Tensor i = Tensor::Allocate(DType::kI64, {1});
  *static_cast<int64_t*>(i.data()) = row;
  KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> y, model.Run({{"i", i}}));
  return static_cast<const float*>(y[0].data())[255];
}

class PackageSourceTest : public testing::Test {
 protected:
  void Make(int64_t bytes, const PackageWriteOptions& how = {}) {
    KILN_ASSERT_OK_AND_ASSIGN(bytes_, PackageOfTable(bytes, dir_.File("cache"), how));
    Write(bytes_);
  }
  void Write(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  absl::Status Works(const PackageSource& source, const PackageOptions& options = {}) {
    KILN_ASSIGN_OR_RETURN(Model model, LoadPackage(source, {.threads = 1}, options));
    KILN_ASSIGN_OR_RETURN(const float value, Looked(model, 77));
    return value == 77 ? absl::OkStatus() : absl::InternalError(absl::StrCat("77 is ", value));
  }

  TempDir dir_;
  const std::string path_ = dir_.File("m.kiln");
  std::string bytes_;
};

TEST_F(PackageSourceTest, FromEverywhere) {
  Make(3 << 20);
  KILN_EXPECT_OK(Works(PackageSource::File(path_)));
  KILN_EXPECT_OK(Works(PackageSource::File(path_), {.read = true}));
  const std::string link = dir_.File("current.kiln");
  ASSERT_EQ(symlink("m.kiln", link.c_str()), 0);
  KILN_EXPECT_OK(Works(PackageSource::File(link)));
  const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  lseek(descriptor, 5, SEEK_SET);
  KILN_EXPECT_OK(Works(PackageSource::Descriptor(descriptor)));
  EXPECT_EQ(lseek(descriptor, 0, SEEK_CUR), 5);
  EXPECT_EQ(close(descriptor), 0);
  EXPECT_FALSE(Works(PackageSource::Descriptor(descriptor)).ok());
  // At each alignment.
  std::vector<char> memory(bytes_.size() + 128);
  for (const size_t shift : {0, 1, 8, 64}) {
    std::memcpy(memory.data() + shift, bytes_.data(), bytes_.size());
    KILN_EXPECT_OK(
        Works(PackageSource::Memory(memory.data() + shift, bytes_.size(), nullptr, "memory")));
  }
}

// A reader that decrypts: no plain byte is on the disk.
TEST_F(PackageSourceTest, FromACallback) {
  Make(3 << 20);
  std::string secret = bytes_;
  for (size_t k = 0; k < secret.size(); ++k)
    secret[k] = static_cast<char>(secret[k] ^ static_cast<char>(k * 31 + 7));
  const auto size = static_cast<int64_t>(secret.size());
  const auto read = [&](int64_t offset, void* into, int64_t count) -> absl::Status {
    EXPECT_GE(offset, 0);
    EXPECT_LE(offset + count, size);
    for (int64_t k = offset; k < offset + count; ++k) {
      static_cast<char*>(into)[k - offset] =
          static_cast<char>(secret[static_cast<size_t>(k)] ^ static_cast<char>(k * 31 + 7));
    }
    return absl::OkStatus();
  };
  KILN_EXPECT_OK(Works(PackageSource::Reader(size, read)));
  const absl::Status plain =
      Works(PackageSource::Memory(secret.data(), secret.size(), nullptr, "secret"));
  EXPECT_TRUE(absl::IsDataLoss(plain)) << plain;
  const auto fails = [](int64_t, void*, int64_t) { return absl::UnavailableError("no key"); };
  EXPECT_TRUE(absl::IsUnavailable(Works(PackageSource::Reader(size, fails))));
  const auto throws = [](int64_t, void*, int64_t) -> absl::Status { throw 5; };
  EXPECT_TRUE(absl::IsInternal(Works(PackageSource::Reader(size, throws))));
  EXPECT_TRUE(absl::IsInvalidArgument(Works(PackageSource::Reader(-1, fails))));
  EXPECT_FALSE(Works(PackageSource::Reader(20, read)).ok());
}

// Larger than an entry of the cache may be, and in no page that is this process's own.
TEST_F(PackageSourceTest, LargeConstantsAreMapped) {
  constexpr int64_t kBytes = int64_t{260} << 20;
  Make(kBytes);
  bytes_.clear();
  bytes_.shrink_to_fit();
  KILN_ASSERT_OK_AND_ASSIGN(Model model, LoadPackage(path_, {.threads = 1}));
  KILN_ASSERT_OK_AND_ASSIGN(const float value, Looked(model, Rows(kBytes) - 1));
  EXPECT_EQ(value, static_cast<float>((Rows(kBytes) - 1) % 1000));
  std::istringstream maps(Contents("/proc/self/smaps"));
  bool here = false;
  int64_t resident = 0, copied = 0;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kib = 0;
    words >> name;
    if (name.find('-') != std::string::npos && name.back() != ':')
      here = line.find(path_) != std::string::npos;
    if (here && words >> kib) {
      if (name == "Rss:") resident += kib;
      if (name == "Anonymous:") copied += kib;
    }
  }
  EXPECT_GE(resident, kBytes / 2048);  // it was checked, so it was there
  EXPECT_EQ(copied, 0);
}

TEST_F(PackageSourceTest, ConstantsLieOnPagesAndLines) {
  Make(3 << 20);
  KILN_ASSERT_OK_AND_ASSIGN(const auto package, Package::OpenToLookAt(PackageSource::File(path_)));
  ASSERT_EQ(package->stored().blobs_size(), 1);
  EXPECT_EQ(package->stored().blobs(0).offset() % 4096, 0);
}

TEST_F(PackageSourceTest, CutShortAnywhereIsRefused) {
  Make(1 << 20);
  for (size_t n = 0; n < bytes_.size(); n += 1 + bytes_.size() / 97) {
    Write(bytes_.substr(0, n));
    const absl::Status status = Works(PackageSource::File(path_));
    EXPECT_TRUE(absl::IsDataLoss(status)) << n << ": " << status;
  }
}

TEST_F(PackageSourceTest, ASignatureIsDemandedOrNot) {
  KILN_ASSERT_OK_AND_ASSIGN(const SigningKey key, SigningKey::FromPem(kPem));
  const PackageOptions demanding{.signers = {{{key.public_key(), "us"}}}};
  PackageOptions others;
  others.signers = {{PublicKey{1}, "them"}};
  PackageOptions nobody;
  nobody.signers.emplace();
  Make(3 << 20);
  KILN_EXPECT_OK(Works(PackageSource::File(path_)));
  absl::Status status = Works(PackageSource::File(path_), demanding);
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("not signed"));

  Make(3 << 20, {.key = &key});
  KILN_EXPECT_OK(Works(PackageSource::File(path_)));
  KILN_EXPECT_OK(Works(PackageSource::File(path_), demanding));
  EXPECT_TRUE(absl::IsPermissionDenied(Works(PackageSource::File(path_), others)));
  EXPECT_TRUE(absl::IsPermissionDenied(Works(PackageSource::File(path_), nobody)));

  // Constants are under it, by their SHA-256.
  std::string forged = bytes_;
  forged[1 << 20] ^= 1;
  Write(forged);
  status = Works(PackageSource::File(path_), demanding);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("another SHA-256"));

  // Whoever makes all sums anew has no signature.
  PackageParts parts = TakeApart(bytes_);
  parts.area[1 << 20] ^= 1;
  std::string anew = PutTogether(parts);
  Write(anew);
  KILN_EXPECT_OK(Works(PackageSource::File(path_)));
  EXPECT_TRUE(absl::IsPermissionDenied(Works(PackageSource::File(path_), demanding)));
  // Nor has who takes that of the honest one: key and signature end the pack.
  const size_t at = anew.size() - static_cast<size_t>(kPackageFooterBytes) - 96;
  anew.replace(at, 96, bytes_.substr(bytes_.size() - kPackageFooterBytes - 96, 96));
  const size_t pack = parts.area.size();
  anew = anew.substr(0, anew.size() - kPackageFooterBytes);
  anew += PackageFooter(anew.substr(pack), static_cast<int64_t>(pack));
  Write(anew);
  status = Works(PackageSource::File(path_), demanding);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("signature"));
}

TEST_F(PackageSourceTest, CompressedOnesGiveTheSame) {
  Make(3 << 20);
  const size_t plain = bytes_.size();
  Make(3 << 20, {.compress = true});
  EXPECT_LT(bytes_.size(), plain / 4);
  KILN_EXPECT_OK(Works(PackageSource::File(path_)));
  KILN_EXPECT_OK(Works(PackageSource::File(path_), {.read = true}));
  const std::string again = bytes_;
  Make(3 << 20, {.compress = true});
  EXPECT_TRUE(bytes_ == again);
}

}  // namespace
}  // namespace kiln
