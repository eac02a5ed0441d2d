// SPDX-License-Identifier: Apache-2.0
// Names in text forms: bare where they look like an identifier, else between backquotes.
//
//   PrintName("seq_len") is seq_len;  PrintName("x:0") is `x:0`
// A backquote, a backslash or a control character is \xHH.
#ifndef KILN_BASE_NAME_H_
#define KILN_BASE_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// True for [A-Za-z_][A-Za-z0-9_.]*.
bool IsBareName(absl::string_view name);

std::string PrintName(absl::string_view name);

// Takes a name, bare or quoted, off the front of `rest`. False, with `rest` unchanged, if there is
// none.
bool TakeName(absl::string_view& rest, std::string& name);

}  // namespace kiln

#endif  // KILN_BASE_NAME_H_
