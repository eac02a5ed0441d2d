// SPDX-License-Identifier: Apache-2.0
// The example of docs/cache_format.md is what the code writes.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "persistent_cache/entry.h"

namespace kiln {
namespace {

// The bytes of all lines "0010  d2 00 ...  text" of the page.
std::string BytesOfDump() {
  std::ifstream page(KILN_TEST_DATA_DIR "/../../docs/cache_format.md");
  std::string bytes;
  for (std::string line; std::getline(page, line);) {
    if (line.size() < 54 || line.find_first_not_of("0123456789abcdef") != 4) continue;
    std::istringstream columns(line.substr(6, 47));
    for (std::string column; columns >> column;)
      bytes.push_back(static_cast<char>(std::stoi(column, nullptr, 16)));
  }
  return bytes;
}

TEST(FormatDoc, HexdumpIsAnEntry) {
  const Preimage preimage = Preimage().Add("k", "add");
  Entry entry;
  entry.key = preimage.Key();
  entry.Add("preimage", preimage.bytes(), true);
  entry.Add("meta", FormatMeta({{"wall_ms", "7"}}), true);
  EXPECT_EQ(BytesOfDump(), EncodeEntry(entry));
  EXPECT_TRUE(DecodeEntry(BytesOfDump()).ok());
}

}  // namespace
}  // namespace kiln
