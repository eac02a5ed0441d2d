// SPDX-License-Identifier: Apache-2.0
#include "tools/terminal_text.h"

#include <fcntl.h>
#include <stdlib.h>

#include <sstream>

#include "base/descriptor.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

constexpr char kNames[] =
    "x\x1b]0;title\x07\x1b[2J\tgr\xc3\xbc\xc3\x9f\xc2\x9b"
    "31m\r\x7f\n";

TEST(TerminalText, ShowsWhatWouldMoveTheCursor) {
  const Descriptor terminal(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(terminal);
  std::ostringstream stream;
  {
    const TerminalText text(stream, terminal.get());
    stream << kNames << '\x1b' << std::flush;
  }
  stream << "\x1b";
  EXPECT_EQ(stream.str(),
            "x\\x1b]0;title\\x07\\x1b[2J\tgr\xc3\xbc\xc3\x9f\\x9b31m\\x0d\\x7f\n\\x1b\x1b");
}

TEST(TerminalText, LeavesFilesAndPipesAlone) {
  const Descriptor none(open("/dev/null", O_RDWR | O_CLOEXEC));
  std::ostringstream stream;
  const TerminalText text(stream, none.get());
  stream << kNames;
  EXPECT_EQ(stream.str(), kNames);
}

}  // namespace
}  // namespace kiln
