// SPDX-License-Identifier: Apache-2.0
#include "ptx_emulator/lexer.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace kiln::ptx {
namespace {

bool InWord(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '.' ||
         c == '%';
}

class Lexer {
 public:
  explicit Lexer(absl::string_view text) : text_(text) {}

  std::vector<Token> Run() {
    while (SkipBlanks()) {
      const size_t from = at_;
      const Token::Type type = Advance();
      tokens_.push_back({type, text_.substr(from, at_ - from), line_});
    }
    tokens_.push_back({Token::Type::kEnd, "", line_});
    return std::move(tokens_);
  }

 private:
  char Peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }

  // Skips blanks and comments; false at the end of the text.
  bool SkipBlanks() {
    while (at_ < text_.size()) {
      if (Peek() == '\n') ++line_;
      if (absl::ascii_isspace(static_cast<unsigned char>(Peek()))) {
        ++at_;
      } else if (Peek() == '/' && Peek(1) == '/') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (Peek() == '/' && Peek(1) == '*') {
        const size_t end = std::min(text_.find("*/", at_ + 2), text_.size() - 2);
        line_ += static_cast<int>(std::count(text_.begin() + at_, text_.begin() + end, '\n'));
        at_ = end + 2;
      } else {
        return true;
      }
    }
    return false;
  }

  Token::Type Advance() {
    const char first = text_[at_++];
    if (first == '"') {
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') ++at_;
      if (Peek() == '"') ++at_;
      return Token::Type::kString;
    }
    if (!InWord(first)) return Token::Type::kSign;
    // "::" is part of a word: .shared::cta
    while (InWord(Peek()) || (Peek() == ':' && Peek(1) == ':')) at_ += Peek() == ':' ? 2 : 1;
    return absl::ascii_isdigit(static_cast<unsigned char>(first)) ? Token::Type::kNumber
                                                                  : Token::Type::kWord;
  }

  absl::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(absl::string_view text) { return Lexer(text).Run(); }

}  // namespace kiln::ptx
