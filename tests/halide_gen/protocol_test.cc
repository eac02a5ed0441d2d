// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/protocol.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/frames.h"

namespace kiln {
namespace {

class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe(ends_), 0); }
  ~Pipe() {
    close(ends_[0]);
    CloseWriter();
  }
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void Write(const std::string& bytes) {
    EXPECT_EQ(write(ends_[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void CloseWriter() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  int ends_[2] = {-1, -1};
};

CodegenAnswer SomeAnswer() {
  CodegenAnswer answer;
  answer.outcome = CodegenAnswer::Outcome::kTransient;
  answer.error = "late";
  answer.of_schedule = true;
  answer.schedule = "row_reduction step=8";
  answer.sections = {{"elf", std::string("\x7f\0ELF", 5)}, {"asm", ""}};
  answer.isa = "avx avx2";
  answer.scratch_bytes = uint64_t{1} << 40;
  answer.wall_ms = 17;
  return answer;
}

TEST(ProtocolTest, MessagesSurviveEncoding) {
  const auto hello = DecodeHello(Encode(CodegenHello{"id", "halide"}));
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(hello->build_id, "id");
  EXPECT_EQ(hello->compiler, "halide");
  const auto request =
      DecodeRequest(Encode(CodegenRequest{"k", "p", "t", {"elf", "stmt"}, 12, 34, "as", "dis"}));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->kernel, "k");
  EXPECT_EQ(request->schedule, "p");
  EXPECT_EQ(request->target, "t");
  EXPECT_EQ(request->sections, (std::vector<std::string>{"elf", "stmt"}));
  EXPECT_EQ(request->timeout_ms, 12u);
  EXPECT_EQ(request->cpu_ms, 34u);
  EXPECT_EQ(request->assembler, "as");
  EXPECT_EQ(request->disassembler, "dis");
  const CodegenAnswer want = SomeAnswer();
  const auto answer = DecodeAnswer(Encode(want));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->outcome, want.outcome);
  EXPECT_EQ(answer->error, want.error);
  EXPECT_EQ(answer->of_schedule, want.of_schedule);
  EXPECT_EQ(answer->schedule, want.schedule);
  EXPECT_EQ(answer->sections, want.sections);
  EXPECT_EQ(answer->isa, want.isa);
  EXPECT_EQ(answer->scratch_bytes, want.scratch_bytes);
  EXPECT_EQ(answer->wall_ms, want.wall_ms);
}

TEST(ProtocolTest, EveryTruncationAndBitFlipIsSafe) {
  const std::string whole = Encode(SomeAnswer());
  for (size_t size = 0; size < whole.size(); ++size) {
    static_cast<void>(DecodeAnswer(whole.substr(0, size)));
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[size] = static_cast<char>(flipped[size] ^ (1 << bit));
      static_cast<void>(DecodeAnswer(flipped));
    }
  }
  EXPECT_EQ(DecodeAnswer(whole.substr(0, whole.size() - 1)).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeAnswer(Encode(CodegenHello{"a", "b"})).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(ProtocolTest, FramesArriveWholeAndInOrder) {
  Pipe pipe;
  ASSERT_TRUE(WriteFrame(pipe.writer(), "one").ok());
  ASSERT_TRUE(WriteFrame(pipe.writer(), "").ok());
  pipe.CloseWriter();
  EXPECT_EQ(*ReadFrame(pipe.reader(), 1000), "one");
  EXPECT_EQ(*ReadFrame(pipe.reader(), 1000), "");
  EXPECT_EQ(ReadFrame(pipe.reader(), 1000).status().code(), absl::StatusCode::kNotFound);
}

TEST(ProtocolTest, ShortAndOversizedFramesAreDataLoss) {
  Pipe cut;
  cut.Write(std::string("\5\0\0\0abc", 7));
  cut.CloseWriter();
  EXPECT_EQ(ReadFrame(cut.reader(), 1000).status().code(), absl::StatusCode::kDataLoss);
  Pipe huge;
  huge.Write("\xff\xff\xff\xff");
  EXPECT_EQ(ReadFrame(huge.reader(), 1000).status().code(), absl::StatusCode::kDataLoss);
}

TEST(ProtocolTest, WaitingEndsAtTheDeadline) {
  Pipe silent;
  EXPECT_EQ(ReadFrame(silent.reader(), 20).status().code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace kiln
