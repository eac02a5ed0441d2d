// SPDX-License-Identifier: Apache-2.0
// Text of unknown origin, such as names of a model, for a terminal: control characters, which could
// move its cursor, clear it or make it answer, are shown as what they are.
//
//   Printable("x\x1b[2J")   // "x\\x1b[2J"
#ifndef KILN_BASE_PRINTABLE_H_
#define KILN_BASE_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// Line feeds and tabs stay; those of C0, DEL and, in UTF-8, C1 are \xNN.
std::string Printable(absl::string_view text);

}  // namespace kiln

#endif  // KILN_BASE_PRINTABLE_H_
