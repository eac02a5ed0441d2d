// SPDX-License-Identifier: Apache-2.0
#include "base/parse_message.h"

#include <gtest/gtest.h>

#include <new>
#include <string>

namespace kiln {
namespace {

// Counts messages that are half made when they are destroyed.
int half_made_destroyed = 0;

struct FakeMessage {
  FakeMessage() = default;
  FakeMessage(FakeMessage&&) = default;
  FakeMessage& operator=(FakeMessage&&) = default;
  ~FakeMessage() { half_made_destroyed += half_made ? 1 : 0; }

  bool ParseFromString(const std::string& bytes) {
    half_made = true;
    if (bytes == "no memory") throw std::bad_alloc();
    text = bytes;
    half_made = false;
    return bytes != "damaged";
  }

  std::string text;
  bool half_made = false;
};

TEST(ParseMessage, WhatIsHalfMadeIsNotDestroyed) {
  FakeMessage message;
  ASSERT_TRUE(ParseMessage("first", message));
  EXPECT_THROW(ParseMessage("no memory", message), std::bad_alloc);
  EXPECT_EQ(half_made_destroyed, 0);
  EXPECT_EQ(message.text, "first");
  EXPECT_FALSE(ParseMessage("damaged", message));
  EXPECT_EQ(message.text, "first");
  EXPECT_TRUE(ParseMessage("second", message));
  EXPECT_EQ(message.text, "second");
}

}  // namespace
}  // namespace kiln
