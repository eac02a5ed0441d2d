// SPDX-License-Identifier: Apache-2.0
#include "tools/depfile.h"

#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr absl::string_view kEndsNames("\n\r;|\0", 5);

// As gcc's -MD: a backslash counts only before a blank, "#" or ":", where it is doubled. Names may
// be a model's own choice: of one with ";" the rest would be a recipe, and nothing can quote that.
absl::StatusOr<std::string> Quoted(const std::string& name) {
  std::string out;
  size_t backslashes = 0;
  for (const char c : name) {
    if (absl::StrContains(kEndsNames, c)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--depfile: the file \"", absl::CEscape(name),
          "\" has a line's end, \";\" or \"|\" in its name, which make cannot read; rename it"));
    }
    if (absl::StrContains(" \t#:", c)) out += std::string(backslashes + 1, '\\');
    if (c == '$') out += '$';
    out += c;
    backslashes = c == '\\' ? backslashes + 1 : 0;
  }
  return out;
}

}  // namespace

absl::StatusOr<std::string> DepfileText(const std::string& target,
                                        const std::vector<std::string>& files) {
  KILN_ASSIGN_OR_RETURN(std::string text, Quoted(target));
  text += ":";
  std::set<std::string> known;
  for (const std::string& file : files) {
    if (!known.insert(file).second) continue;
    KILN_ASSIGN_OR_RETURN(const std::string quoted, Quoted(file));
    absl::StrAppend(&text, " \\\n  ", quoted);
  }
  return text + "\n";
}

}  // namespace kiln
