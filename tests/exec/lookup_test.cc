// SPDX-License-Identifier: Apache-2.0
// Table lookups: each of this processor's loops against the plain one, and the operator by rows.
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/tensor.h"
#include "exec/library/library.h"
#include "exec/library/lookup_rows.h"
#include "gtest/gtest.h"

namespace kiln::library {
namespace {

// 3 tables; no two of their elements that are near are equal.
std::vector<uint8_t> Tables() {
  std::vector<uint8_t> tables(3 * 256);
  for (size_t i = 0; i < tables.size(); ++i)
    tables[i] = static_cast<uint8_t>(i * 167 + i / 256 * 31);
  return tables;
}

std::vector<uint8_t> Bytes(size_t n) {
  std::vector<uint8_t> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>(i * 101 + i / 256);
  return bytes;
}

TEST(LookupRows, AllGiveTheSameAndNoMore) {
  const std::vector<uint8_t> table = Tables();
  for (const LookupRow row : LookupRows()) {
    for (const size_t n : {0u, 1u, 31u, 32u, 33u, 63u, 64u, 65u, 256u, 1000u}) {
      const std::vector<uint8_t> x = Bytes(n);
      std::vector<uint8_t> y(n + 64, 7);
      row(x.data(), table.data(), y.data(), static_cast<int64_t>(n));
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(y[i], table[x[i]]) << i << " of " << n;
      for (size_t i = n; i < y.size(); ++i) ASSERT_EQ(y[i], 7) << "behind " << n;
    }
  }
}

Operand Of(std::vector<int64_t> shape, DType type = DType::kU8) {
  std::vector<int64_t> strides = DenseStrides(shape);
  return {true, type, std::move(shape), std::move(strides)};
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeFor(const std::vector<int64_t>& shape,
                                                   const std::vector<int64_t>& table) {
  Request request;
  request.attributes["axis"] = {1};
  request.inputs = {Of(shape), Of(table)};
  request.outputs = {Of(shape)};
  return Make(*Find("lookup"), request, *Session::Create(nullptr));
}

TEST(Lookup, TakesTheRowOfTheChannel) {
  for (const int64_t rows : {1, 3}) {
    const std::vector<int64_t> shape = {2, 3, 9000};  // more than a part of the work
    const auto lookup = MakeFor(shape, {rows, 256});
    ASSERT_TRUE(lookup.ok()) << lookup.status();
    const std::vector<uint8_t> x = Bytes(2 * 3 * 9000), tables = Tables();
    std::vector<uint8_t> y(x.size());
    const std::array<void*, 2> inputs = {const_cast<uint8_t*>(x.data()),
                                         const_cast<uint8_t*>(tables.data())};
    void* output = y.data();
    ASSERT_TRUE((*lookup)->Run({.inputs = inputs.data(), .outputs = &output}).ok());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t row = rows == 1 ? 0 : i / 9000 % 3;
      ASSERT_EQ(y[i], tables[row * 256 + x[i]]) << i;
    }
  }
}

TEST(Lookup, RefusesATableThatDoesNotFit) {
  EXPECT_FALSE(MakeFor({2, 3, 8}, {2, 256}).ok());
  EXPECT_FALSE(MakeFor({2, 3, 8}, {3, 255}).ok());
}

}  // namespace
}  // namespace kiln::library
