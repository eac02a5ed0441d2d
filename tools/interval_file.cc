// SPDX-License-Identifier: Apache-2.0
#include "tools/interval_file.h"

#include <array>
#include <cerrno>
#include <fstream>
#include <unordered_map>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr size_t kMostFileBytes = size_t{64} << 20;
constexpr size_t kPiece = size_t{1} << 16;  // read at a time
constexpr size_t kMostShown = 40;           // bytes of what stands in a file

enum Column : size_t { kId, kLower, kUpper, kSize, kOffset, kColumns };
constexpr const char* kNames[kColumns] = {"id", "lower", "upper", "size", "offset"};
constexpr char kHead[] = "columns are id, lower, upper and size, and offset, which is not read";

std::string Shown(absl::string_view text) {
  const bool cut = text.size() > kMostShown;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMostShown)), cut ? "...\"" : "\"");
}

template <typename... Parts>
absl::Status At(size_t line, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", parts...));
}

class Parser {
 public:
  absl::StatusOr<IntervalFile> Parse(absl::string_view text) {
    absl::ConsumePrefix(&text, "\xEF\xBB\xBF");  // of UTF-8
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      ++line_;
      absl::ConsumeSuffix(&line, "\r");
      if (absl::StripAsciiWhitespace(line).empty()) continue;
      if (line.size() > kMostLineBytes) {
        return absl::ResourceExhaustedError(absl::StrCat("line ", line_, ": has ", line.size(),
                                                         " bytes; there may be ", kMostLineBytes));
      }
      KILN_RETURN_IF_ERROR(cells_in_line_ == 0 ? Head(line) : Row(line));
    }
    if (cells_in_line_ == 0)
      return absl::InvalidArgumentError(
          "is empty; the first line names the columns id,lower,upper,size");
    return std::move(file_);
  }

 private:
  absl::Status Head(absl::string_view line) {
    column_at_.fill(kNowhere);
    for (absl::string_view cell : absl::StrSplit(line, ',')) {
      cell = absl::StripAsciiWhitespace(cell);
      size_t column = 0;
      while (column < kColumns && cell != kNames[column]) ++column;
      if (column == kColumns) return At(line_, "there is no column ", Shown(cell), "; ", kHead);
      if (column_at_[column] != kNowhere)
        return At(line_, "column ", Shown(cell), " comes twice; ", kHead);
      column_at_[column] = cells_in_line_++;
    }
    for (size_t column = 0; column < kOffset; ++column) {
      if (column_at_[column] == kNowhere)
        return At(line_, "has no column \"", kNames[column], "\"; ", kHead);
    }
    return absl::OkStatus();
  }

  absl::Status Row(absl::string_view line) {
    const std::vector<absl::string_view> cells = absl::StrSplit(line, ',');
    if (cells.size() != cells_in_line_) {
      return At(line_, "has ", cells.size(), " values, and the head ", cells_in_line_,
                " columns: ", Shown(line));
    }
    if (file_.ids.size() == kMostIntervals) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "line ", line_, ": is one interval too many; there may be ", kMostIntervals));
    }
    Interval interval;
    KILN_ASSIGN_OR_RETURN(interval.lower, Number(cells, kLower));
    KILN_ASSIGN_OR_RETURN(interval.upper, Number(cells, kUpper));
    KILN_ASSIGN_OR_RETURN(interval.size, Number(cells, kSize));
    if (interval.lower >= interval.upper) {
      return At(line_, "lives from ", interval.lower, " to before ", interval.upper,
                "; lower must be less than upper");
    }
    if (interval.size < 0) return At(line_, "has size ", interval.size, "; it may not be negative");
    std::string id(absl::StripAsciiWhitespace(cells[column_at_[kId]]));
    const auto [first, fresh] = line_of_.emplace(id, line_);
    if (!fresh) return At(line_, "has the id of line ", first->second, ", ", Shown(id));
    file_.ids.push_back(std::move(id));
    file_.intervals.push_back(interval);
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Number(const std::vector<absl::string_view>& cells, Column column) const {
    const absl::string_view cell = absl::StripAsciiWhitespace(cells[column_at_[column]]);
    int64_t number = 0;
    if (absl::SimpleAtoi(cell, &number)) return number;
    return At(line_, kNames[column], " is ", Shown(cell), "; it must be an integer of 64 bits");
  }

  static constexpr size_t kNowhere = ~size_t{0};
  size_t line_ = 0, cells_in_line_ = 0;
  std::array<size_t, kColumns> column_at_{};
  std::unordered_map<std::string, size_t> line_of_;  // of an id
  IntervalFile file_;
};

}  // namespace

absl::StatusOr<IntervalFile> ParseIntervals(absl::string_view text) { return Parser().Parse(text); }

absl::StatusOr<IntervalFile> ReadIntervals(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text, some(kPiece, '\0');
  while (in && text.size() <= kMostFileBytes) {
    in.read(some.data(), static_cast<std::streamsize>(some.size()));
    text.append(some, 0, static_cast<size_t>(in.gcount()));
  }
  if (!in.is_open() || in.bad()) return ErrnoStatus(errno, path, in.is_open() ? "read" : "open");
  if (text.size() > kMostFileBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "\"", path, "\": has more than ", kMostFileBytes >> 20, " MiB, the most that is read"));
  }
  absl::StatusOr<IntervalFile> file = ParseIntervals(text);
  if (!file.ok()) return Annotate(file.status(), absl::StrCat("\"", path, "\""));
  return file;
}

std::string PrintIntervals(const IntervalFile& file, const std::vector<int64_t>& offsets) {
  std::string text = "id,lower,upper,size,offset\n";
  for (size_t i = 0; i < offsets.size(); ++i) {
    const Interval& interval = file.intervals[i];
    absl::StrAppend(&text, file.ids[i], ",", interval.lower, ",", interval.upper, ",",
                    interval.size, ",", offsets[i], "\n");
  }
  return text;
}

}  // namespace kiln
