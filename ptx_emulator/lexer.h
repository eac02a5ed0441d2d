// SPDX-License-Identifier: Apache-2.0
// PTX text as tokens. A word has the dots of what it names: "ld.global.b32", ".reg", "%tid.x".
//
//   @!%p1 bra $L2;   ->   @  !  %p1  bra  $L2  ;
#ifndef KILN_PTX_EMULATOR_LEXER_H_
#define KILN_PTX_EMULATOR_LEXER_H_

#include <vector>

#include "absl/strings/string_view.h"

namespace kiln::ptx {

struct Token {
  enum class Type : char { kEnd, kWord, kNumber, kString, kSign };
  Type type = Type::kEnd;
  absl::string_view text;  // within the text that was given
  int line = 0;            // from 1

  bool Is(absl::string_view wanted) const { return type != Type::kString && text == wanted; }
};

// The last token is a kEnd. Bytes that PTX has no use for are signs of one byte each.
std::vector<Token> Tokenize(absl::string_view text);

}  // namespace kiln::ptx

#endif  // KILN_PTX_EMULATOR_LEXER_H_
