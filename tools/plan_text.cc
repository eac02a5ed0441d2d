// SPDX-License-Identifier: Apache-2.0
#include "tools/plan_text.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

// Takes pieces off the front of the text. What does not fit leaves it where it was.
class Cursor {
 public:
  explicit Cursor(absl::string_view text) : text_(text) {}

  bool Take(absl::string_view what) {
    if (!absl::StartsWith(Rest(), what)) return false;
    at_ += what.size();
    return true;
  }
  bool TakeNumber(int64_t& number) {
    size_t end = at_;
    while (end < text_.size() && absl::ascii_isdigit(static_cast<unsigned char>(text_[end]))) ++end;
    if (end == at_ || !absl::SimpleAtoi(text_.substr(at_, end - at_), &number)) return false;
    at_ = end;
    return true;
  }
  // Up to `end`, which is taken too, but not beyond the line.
  bool TakeTo(absl::string_view end, std::string& text) {
    const size_t found = text_.find(end, at_), line = text_.find('\n', at_);
    if (found == absl::string_view::npos || (line < found && end != "\n")) return false;
    text = std::string(text_.substr(at_, found - at_));
    at_ = found + end.size();
    return true;
  }
  absl::string_view Rest() const { return text_.substr(at_); }
  bool AtEnd() const { return at_ == text_.size(); }
  size_t at() const { return at_; }
  void MoveTo(size_t at) { at_ = at; }
  absl::string_view text() const { return text_; }

 private:
  absl::string_view text_;
  size_t at_ = 0;
};

// A quoted name, and then what `tail` takes: to the end of the line, with the beginning of the next
// behind it. The name ends at the first quote where that fits.
template <typename Tail>
bool TakeNamed(Cursor& cursor, std::string& name, const Tail& tail) {
  const size_t start = cursor.at();
  if (!cursor.Take("\"")) return false;
  const size_t begin = cursor.at();
  for (size_t quote = begin;; ++quote) {
    quote = cursor.text().find('"', quote);
    if (quote == absl::string_view::npos) break;
    cursor.MoveTo(quote + 1);
    if (tail()) {
      name = std::string(cursor.text().substr(begin, quote - begin));
      return true;
    }
  }
  cursor.MoveTo(start);
  return false;
}

// The text of an operand up to ", " or one of the ends, outside of brackets and backquotes.
absl::string_view OperandText(absl::string_view rest) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    if (c == '\n') return rest.substr(0, i);
    if (c == '`') quoted = !quoted;
    if (quoted) continue;
    depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
    const absl::string_view left = rest.substr(i);
    if (depth == 0 && (c == ';' || absl::StartsWith(left, ", ") || absl::StartsWith(left, " -> ")))
      return rest.substr(0, i);
  }
  return rest;
}

class Parser {
 public:
  explicit Parser(absl::string_view text) : cursor_(text) {}

  absl::StatusOr<PlanText> Parse() {
    std::string ignored;
    while (absl::StartsWith(cursor_.Rest(), "input \"")) {
      cursor_.Take("input ");
      const auto tail = [&] {
        return cursor_.Take(" [") && cursor_.TakeTo("\n", ignored) &&
               (absl::StartsWith(cursor_.Rest(), "input \"") ||
                absl::StartsWith(cursor_.Rest(), "arena "));
      };
      if (!TakeNamed(cursor_, ignored, tail)) return Wrong("a line of an input");
    }
    const bool head = cursor_.Take("arena ") && cursor_.TakeNumber(plan_.arena) &&
                      cursor_.Take(" bytes, lower bound ") &&
                      cursor_.TakeNumber(plan_.lower_bound) && cursor_.Take(", sum ") &&
                      cursor_.TakeNumber(plan_.sum) && cursor_.Take("; constants ") &&
                      cursor_.TakeNumber(plan_.constants) && cursor_.Take(" bytes; ") &&
                      cursor_.TakeTo("\n", ignored);
    if (!head) return Wrong("the line of the arena");
    while (cursor_.Take(absl::StrCat("b", plan_.buffers.size(), " "))) {
      if (!TakeBuffer()) return Wrong("a line of a buffer");
    }
    while (cursor_.Take(absl::StrCat(plan_.launches.size(), " "))) {
      if (!TakeLaunch()) return Wrong("a line of a launch");
    }
    if (!cursor_.AtEnd()) return Wrong("a line");
    if (!IsSound()) return Wrong("numbers of buffers and places");
    return std::move(plan_);
  }

 private:
  absl::Status Wrong(absl::string_view what) const {
    return absl::InternalError(absl::StrCat("text of a plan: byte ", cursor_.at(), ": expected ",
                                            what, "; please report it with the model"));
  }

  // Whether what follows the end of a line begins a line, or there is nothing.
  bool NextBegins(size_t buffers, size_t launches) const {
    return cursor_.AtEnd() || absl::StartsWith(cursor_.Rest(), absl::StrCat("b", buffers, " ")) ||
           absl::StartsWith(cursor_.Rest(), absl::StrCat(launches, " "));
  }

  bool TakeBuffer() {
    PlanText::Buffer buffer;
    const auto self = static_cast<int64_t>(plan_.buffers.size());
    int64_t index = 0;
    if (!cursor_.TakeTo(" ", buffer.kind)) return false;
    if (cursor_.TakeNumber(index) && !cursor_.Take(" ")) return false;
    const auto tail = [&] {
      buffer.root = self;
      buffer.arena_offset = -1;
      buffer.lane_step = 0;
      int64_t at = 0;
      if (!cursor_.Take(" ") || !cursor_.TakeNumber(buffer.bytes) || !cursor_.Take(" bytes"))
        return false;
      if (cursor_.Take(" in the arena at ")) {
        if (!cursor_.TakeNumber(buffer.arena_offset)) return false;
        if (cursor_.Take(", lanes ") &&
            (!cursor_.TakeNumber(buffer.lane_step) || !cursor_.Take(" apart")))
          return false;
      } else if (cursor_.Take(" in the arena of the device at ")) {
        if (!cursor_.TakeNumber(at)) return false;  // not of the arena that is told here
      } else if (cursor_.Take(" in b")) {
        if (!cursor_.TakeNumber(buffer.root) || !cursor_.Take(" at ") || !cursor_.TakeNumber(at))
          return false;
      }
      return cursor_.Take("\n") && NextBegins(plan_.buffers.size() + 1, 0);
    };
    if (!TakeNamed(cursor_, buffer.name, tail)) return false;
    plan_.buffers.push_back(std::move(buffer));
    return true;
  }

  bool TakeRef(std::vector<PlanText::Ref>& refs) {
    absl::string_view text = OperandText(cursor_.Rest());
    cursor_.MoveTo(cursor_.at() + text.size());
    PlanText::Ref& ref = refs.emplace_back();
    if (text == "absent") return true;
    Cursor own(text);
    if (!own.Take("b") || !own.TakeNumber(ref.buffer) || !own.Take(" ")) return false;
    const size_t open = own.Rest().find('[');
    if (open == absl::string_view::npos) return false;
    const std::optional<DType> type = ParseDType(own.Rest().substr(0, open));
    // "[n, 64] strides [1, n] at 8": the shape ends at its own bracket.
    absl::string_view shape = own.Rest().substr(open);
    bool quoted = false;
    size_t end = 0;
    while (end < shape.size() && (quoted || shape[end] != ']')) quoted ^= shape[end++] == '`';
    const absl::StatusOr<Shape> dims = ParseShape(shape.substr(0, end + 1));
    if (!type || !dims.ok()) return false;
    ref.type = *type;
    ref.shape = *dims;
    return true;
  }

  bool TakeRefs(std::vector<PlanText::Ref>& refs, absl::string_view end) {
    refs.clear();
    if (cursor_.Take(end)) return true;
    do {
      if (!TakeRef(refs)) return false;
    } while (cursor_.Take(", "));
    return cursor_.Take(end);
  }

  bool TakeLaunch() {
    PlanText::Launch launch;
    std::string before;
    if (!cursor_.TakeTo("\"", before) || before.empty()) return false;
    cursor_.MoveTo(cursor_.at() - 1);
    absl::string_view what = absl::StripAsciiWhitespace(before);
    const size_t blank = what.find(' ');
    launch.what = std::string(what.substr(0, blank));
    if (blank != absl::string_view::npos) launch.op = std::string(what.substr(blank + 1));
    const auto tail = [&] {
      launch.parts = launch.lanes = 1;
      launch.scratch_offset = -1;
      if (!cursor_.Take(": ") || !TakeRefs(launch.inputs, " -> ") ||
          !TakeRefs(launch.outputs, "; ") || !cursor_.TakeNumber(launch.bytes) ||
          !cursor_.Take(" bytes"))
        return false;
      if (cursor_.Take(" in ") && (!cursor_.TakeNumber(launch.parts) || !cursor_.Take(" parts")))
        return false;
      if (cursor_.Take(" on ") && (!cursor_.TakeNumber(launch.lanes) || !cursor_.Take(" lanes")))
        return false;
      if (cursor_.Take(", scratch at ") && !cursor_.TakeNumber(launch.scratch_offset)) return false;
      return cursor_.Take("\n") &&
             (cursor_.AtEnd() ||
              absl::StartsWith(cursor_.Rest(), absl::StrCat(plan_.launches.size() + 1, " ")));
    };
    if (!TakeNamed(cursor_, launch.name, tail)) return false;
    plan_.launches.push_back(std::move(launch));
    return true;
  }

  bool IsSound() const {
    const auto count = static_cast<int64_t>(plan_.buffers.size());
    for (const PlanText::Buffer& buffer : plan_.buffers) {
      if (buffer.root < 0 || buffer.root >= count) return false;
      if (buffer.arena_offset > plan_.arena ||
          (buffer.arena_offset >= 0 && buffer.bytes > plan_.arena))
        return false;
    }
    for (const PlanText::Launch& launch : plan_.launches) {
      for (const std::vector<PlanText::Ref>* refs : {&launch.inputs, &launch.outputs})
        for (const PlanText::Ref& ref : *refs)
          if (ref.buffer >= count) return false;
    }
    return true;
  }

  Cursor cursor_;
  PlanText plan_;
};

}  // namespace

absl::StatusOr<PlanText> ParsePlanText(absl::string_view text) { return Parser(text).Parse(); }

}  // namespace kiln
