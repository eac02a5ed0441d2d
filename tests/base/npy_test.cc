// SPDX-License-Identifier: Apache-2.0
#include "base/npy.h"

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/in_child.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

// A version 1.0 file with this header, as it stands, and these element bytes.
std::string File(absl::string_view header, absl::string_view elements) {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes.push_back(static_cast<char>(header.size() & 255));
  bytes.push_back(static_cast<char>(header.size() >> 8));
  return absl::StrCat(bytes, header, elements);
}

std::string Elements(const Tensor& t) {
  return std::string(static_cast<const char*>(t.data()), static_cast<size_t>(t.size_bytes()));
}

// numpy.save(f, numpy.array([[1.5, -2.0]], dtype=numpy.float32)) of NumPy 2.4, byte for byte.
std::string NumPysFile() {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }";
  header.resize(117, ' ');
  return File(header + "\n", absl::string_view("\0\0\xc0\x3f\0\0\0\xc0", 8));
}

TEST(NpyTest, ReadsAndWritesWhatNumPyWrites) {
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor t, ParseNpy(NumPysFile()));
  EXPECT_EQ(t.dtype(), DType::kF32);
  EXPECT_THAT(t.shape(), ElementsAre(1, 2));
  EXPECT_EQ(static_cast<const float*>(t.data())[0], 1.5f);
  EXPECT_EQ(static_cast<const float*>(t.data())[1], -2.0f);
  EXPECT_EQ(NpyBytes(t), NumPysFile());
}

TEST(NpyTest, EveryTypeAndRankReadsBack) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto type = static_cast<DType>(i);
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{}, {3}, {0}, {2, 0, 3}, {2, 3, 4, 1, 2}}) {
      const Tensor t = Tensor::Allocate(type, shape);
      if (t.size_bytes() > 0) std::memset(t.data(), 1, static_cast<size_t>(t.size_bytes()));
      KILN_ASSERT_OK_AND_ASSIGN(const Tensor back, ParseNpy(NpyBytes(t)));
      EXPECT_EQ(back.dtype(), type == DType::kBF16 ? DType::kU16 : type);
      EXPECT_EQ(back.shape(), shape);
      EXPECT_EQ(Elements(back), Elements(t));
    }
  }
}

// numpy.save of numpy.asfortranarray(numpy.arange(24).reshape(2, 3, 4)).
TEST(NpyTest, FortranOrderIsReadIntoRows) {
  const auto file = [](const std::string& descr, const std::string& shape, absl::string_view data) {
    return File(
        absl::StrCat("{'descr': '", descr, "', 'fortran_order': True, 'shape': ", shape, "}"),
        data);
  };
  std::string bytes, wide;  // element [i, j, k] = 12 i + 4 j + k, i fastest
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) {
        bytes.push_back(static_cast<char>(12 * i + 4 * j + k));
        wide.append({static_cast<char>(12 * i + 4 * j + k), 0, 0, 0, 0, 0, 0, 1});
      }
    }
  }
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor t, ParseNpy(file("|u1", "(2, 3, 4)", bytes)));
  EXPECT_THAT(t.shape(), ElementsAre(2, 3, 4));
  for (int i = 0; i < 24; ++i) EXPECT_EQ(static_cast<const uint8_t*>(t.data())[i], i);
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor u, ParseNpy(file("<i8", "(2, 3, 4)", wide)));
  for (int i = 0; i < 24; ++i)
    EXPECT_EQ(static_cast<const int64_t*>(u.data())[i], (int64_t{1} << 56) + i);
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor none, ParseNpy(file("<f4", "(2, 0, 3)", "")));
  EXPECT_THAT(none.shape(), ElementsAre(2, 0, 3));
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor flag, ParseNpy(file("|b1", "(1, 2)", "\x02\x01")));
  EXPECT_EQ(Elements(flag), "\x01\x01");
}

TEST(NpyTest, ElementsStartAtAMultipleOf64) {
  for (int rank = 0; rank < 40; ++rank) {
    const Tensor t =
        Tensor::Allocate(DType::kI8, std::vector<int64_t>(static_cast<size_t>(rank), 1));
    EXPECT_EQ((NpyBytes(t).size() - 1) % 64, 0u) << rank;
  }
}

TEST(NpyTest, BFloat16IsWrittenAsItsBits) {
  uint16_t bits[2] = {0x3f80, 0x7fc0};
  const Tensor t = Tensor::View(bits, DType::kBF16, {2});
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor back, ParseNpy(NpyBytes(t)));
  EXPECT_EQ(back.dtype(), DType::kU16);
  const Tensor as_bf16 = BitsAsBFloat16(back);
  EXPECT_EQ(as_bf16.dtype(), DType::kBF16);
  EXPECT_EQ(as_bf16.data(), back.data());
  EXPECT_EQ(Elements(as_bf16), Elements(t));
}

TEST(NpyTest, StridedTensorsAreWrittenRowMajor) {
  uint8_t data[4] = {1, 2, 3, 4};
  const Tensor transposed = Tensor::View(data, DType::kU8, {2, 2}, {1, 2});
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor back, ParseNpy(NpyBytes(transposed)));
  EXPECT_EQ(Elements(back), "\x01\x03\x02\x04");
}

TEST(NpyTest, BoolElementsBecomeZeroOrOne) {
  const std::string file = File("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }\n",
                                absl::string_view("\0\x01\xff", 3));
  EXPECT_EQ(Elements(ParseNpy(file).value()), absl::string_view("\0\x01\x01", 3));
}

TEST(NpyTest, ReadsOtherWritersHeaders) {
  // Keys in another order, no padding, double quotes, native byte order, a Python 2 long.
  EXPECT_THAT(ParseNpy(File("{\"shape\":(2L,),\"descr\":\"=i2\",\"fortran_order\":False}", "abcd")),
              IsOk());
  // A one-dimensional array is in both orders.
  EXPECT_THAT(ParseNpy(File("{'descr': '|i1', 'fortran_order': True, 'shape': (2,)}", "ab")),
              IsOk());
  // Version 2: four bytes of length.
  const std::string header = "{'descr': '|i1', 'fortran_order': False, 'shape': ()}";
  std::string v2("\x93NUMPY\x02\x00", 8);
  v2.append({static_cast<char>(header.size()), 0, 0, 0});
  EXPECT_THAT(ParseNpy(v2 + header + "x"), IsOk());
}

struct BadFile {
  std::string name;
  std::string bytes;
  StatusCode code;
  std::string message;
};

class NpyBadFileTest : public testing::TestWithParam<BadFile> {};

TEST_P(NpyBadFileTest, IsRefusedWithAReason) {
  EXPECT_THAT(ParseNpy(GetParam().bytes), StatusIs(GetParam().code, HasSubstr(GetParam().message)));
}

std::string WithShape(absl::string_view shape) {
  return File(absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': ", shape, "}"),
              "12345678");
}

INSTANTIATE_TEST_SUITE_P(
    All, NpyBadFileTest,
    testing::Values(
        BadFile{"Empty", "", StatusCode::kDataLoss, "not a .npy file"},
        BadFile{"Zip", "PK\x03\x04 an .npz file", StatusCode::kDataLoss, "not a .npy file"},
        BadFile{"OnlyMagic", "\x93NUMPY", StatusCode::kDataLoss, "the file ends in it"},
        BadFile{"CutInHeader", NumPysFile().substr(0, 40), StatusCode::kDataLoss,
                "the file ends in it"},
        BadFile{"CutInElements", NumPysFile().substr(0, 135), StatusCode::kDataLoss,
                "shape [1, 2] of f32 needs 8 bytes, the file has 7"},
        BadFile{"TooLong", NumPysFile() + "x", StatusCode::kDataLoss,
                "needs 8 bytes, the file has 9"},
        BadFile{"Version9", std::string("\x93NUMPY\x09\x00\x00\x00\x00\x00", 12),
                StatusCode::kUnimplemented, "version 9"},
        BadFile{"BigEndian", File("{'descr': '>f4', 'fortran_order': False, 'shape': ()}", "1234"),
                StatusCode::kUnimplemented, "big-endian"},
        BadFile{"Complex",
                File("{'descr': '<c8', 'fortran_order': False, 'shape': ()}", "12345678"),
                StatusCode::kUnimplemented, "element type \"<c8\" is not supported"},
        BadFile{"Objects", File("{'descr': '|O', 'fortran_order': False, 'shape': ()}", "12345678"),
                StatusCode::kUnimplemented, "\"|O\""},
        BadFile{"Records",
                File("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "1234"),
                StatusCode::kUnimplemented, "records"},
        BadFile{"NegativeExtent", WithShape("(-1, 2)"), StatusCode::kDataLoss, "no number"},
        BadFile{"HugeExtent", WithShape("(99999999999999999999,)"), StatusCode::kDataLoss,
                "no number"},
        BadFile{"HugeProduct", WithShape("(4611686018427387904, 4611686018427387904)"),
                StatusCode::kDataLoss, "more elements than can be addressed"},
        BadFile{"HugeAndEmpty", WithShape("(0, 4611686018427387904, 4611686018427387904)"),
                StatusCode::kDataLoss, "more elements than can be addressed"},
        BadFile{"NumberForTuple", WithShape("2"), StatusCode::kDataLoss, "no tuple"},
        BadFile{"OpenTuple", WithShape("(2"), StatusCode::kDataLoss, "\"shape\""},
        BadFile{"MissingKey", File("{'descr': '<f4', 'shape': ()}", "1234"), StatusCode::kDataLoss,
                "missing"},
        BadFile{"RepeatedKey", File("{'shape': (), 'shape': (), 'descr': '<f4'}", "1234"),
                StatusCode::kDataLoss, "unexpected key \"shape\""},
        BadFile{"Garbage", File("import os", ""), StatusCode::kDataLoss,
                "does not start with \"{\""}),
    [](const auto& info) { return info.param.name; });

TEST(NpyTest, FilesReadBackAndErrorsNameThem) {
  const TempDir dir;
  const std::string path = dir.File("a.npy");
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor t, ParseNpy(NumPysFile()));
  KILN_ASSERT_OK(WriteNpy(path, t));
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor back, ReadNpy(path));
  EXPECT_EQ(Elements(back), Elements(t));
  EXPECT_EQ(RealFileSystem().ReadFile(path, 1000).value(), NumPysFile());

  EXPECT_THAT(ReadNpy(dir.File("no")), StatusIs(StatusCode::kNotFound, HasSubstr(dir.File("no"))));
  EXPECT_THAT(ReadNpy(dir.path()), StatusIs(StatusCode::kUnavailable, HasSubstr("Is a directory")));
  EXPECT_THAT(WriteNpy(dir.File("no/a.npy"), t), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(ReadNpy("/dev/null"),
              StatusIs(StatusCode::kDataLoss, HasSubstr("\"/dev/null\": not a")));
}

TEST(NpyTest, ReportsAFullDisk) {
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor t, ParseNpy(NumPysFile()));
  EXPECT_THAT(WriteNpy("/dev/full", t),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("No space left on device")));
}

// A device has no end, and a file may be longer than memory: what the header says is read.
TEST(NpyTest, WhatHasNoEndIsNotReadToIt) {
  EXPECT_TRUE(absl::IsDataLoss(ReadNpy("/dev/zero").status()));
  const TempDir dir;
  const std::string path = dir.File("long.npy");
  const Tensor two = Tensor::Allocate(DType::kF32, {2});
  KILN_ASSERT_OK(WriteNpy(path, two));
  ASSERT_EQ(truncate(path.c_str(), off_t{1} << 36), 0);
  EXPECT_THAT(std::string(ReadNpy(path).status().message()),
              testing::HasSubstr("needs 8 bytes, the file has"));
}

TEST(NpyTest, AFileThatMayNotGrowIsAnError) {
  const TempDir dir;
  EXPECT_EQ(InChild(
                [&] {
                  if (!LimitFiles(100)) return 1;
                  const Tensor two = Tensor::Allocate(DType::kF32, {2});
                  return absl::IsResourceExhausted(WriteNpy(dir.File("x.npy"), two)) ? 0 : 2;
                },
                10),
            0);
}

}  // namespace
}  // namespace kiln
