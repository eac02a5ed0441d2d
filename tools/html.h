// SPDX-License-Identifier: Apache-2.0
// What pages of Kiln's have in common: one HTML file that loads nothing, light or dark as the
// reader's system is.
#ifndef KILN_TOOLS_HTML_H_
#define KILN_TOOLS_HTML_H_

#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// Text of anybody's, such as a name of a model's: markup is escaped, control characters are written
// as \xHH, and what is longer than 200 bytes ends in "...".
std::string HtmlEscaped(absl::string_view text);

// The beginning of a page, up to its title: styles, and a policy that nothing is loaded. Pictures
// have the classes that the styles name: c0 ... c7 are fills on which text can be read.
std::string HtmlHead(absl::string_view title);

}  // namespace kiln

#endif  // KILN_TOOLS_HTML_H_
