// SPDX-License-Identifier: Apache-2.0
// What a mistyped name was meant to be, for messages.
//
//   absl::StrCat("no verb \"", name, "\"", DidYouMean(name, {"run", "bench"}))
//   // rn: no verb "rn"; did you mean "run"?
#ifndef KILN_TOOLS_NEAREST_NAME_H_
#define KILN_TOOLS_NEAREST_NAME_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace kiln {

// The candidate with the fewest edits from `name`, the first of several: an edit inserts, drops or
// replaces a character, or exchanges two neighbours. "" where all need more than a third of the
// characters of the longer name, rounded: none in one character, one in two to four.
std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates);

// "; did you mean \"run\"?", or "" where no candidate is near.
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates);

}  // namespace kiln

#endif  // KILN_TOOLS_NEAREST_NAME_H_
