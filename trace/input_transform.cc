// SPDX-License-Identifier: Apache-2.0
#include "trace/input_transform.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"

namespace kiln::tracing {
namespace {

constexpr int kMaxDepth = 100;  // of the call stack

class Parser {
 public:
  Parser(absl::string_view text, ValueId data, GraphBuilder& builder)
      : text_(text), data_(data), builder_(builder) {}

  absl::StatusOr<ValueId> Parse() {
    KILN_ASSIGN_OR_RETURN(const ValueId value, Sum());
    Skip();
    if (at_ < text_.size()) return Wrong("expected an operator or its end");
    KILN_RETURN_IF_ERROR(Annotate(builder_.status(), Subject()));
    return value;
  }

 private:
  std::string Subject() const { return absl::StrCat("input_transform \"", text_, "\""); }
  absl::Status Wrong(absl::string_view what) const {
    const std::string rest(text_.substr(at_, 12));
    return Invalid(Subject(), ": ", what, rest.empty() ? "" : " at \"", rest,
                   rest.empty() ? ", and it ends" : "\"");
  }
  void Skip() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  }
  bool Take(absl::string_view token) {
    Skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  // A '*' that begins no "**".
  bool TakeTimes() {
    Skip();
    return text_.substr(at_, 2) != "**" && Take("*");
  }
  std::string TakeName() {
    const size_t begin = at_;
    while (at_ < text_.size() && (absl::ascii_isalnum(text_[at_]) || text_[at_] == '_')) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  absl::StatusOr<ValueId> Sum() {
    KILN_ASSIGN_OR_RETURN(ValueId left, Product());
    for (;;) {
      const char* const op = Take("+") ? "add" : Take("-") ? "sub" : nullptr;
      if (op == nullptr) return left;
      KILN_ASSIGN_OR_RETURN(const ValueId right, Product());
      left = builder_.Op(op, {left, right});
    }
  }
  absl::StatusOr<ValueId> Product() {
    KILN_ASSIGN_OR_RETURN(ValueId left, Sign());
    for (;;) {
      const char* const op = TakeTimes() ? "mul" : Take("/") ? "div" : Take("%") ? "mod" : nullptr;
      if (op == nullptr) return left;
      KILN_ASSIGN_OR_RETURN(const ValueId right, Sign());
      left = builder_.Op(op, {left, right});
    }
  }
  absl::StatusOr<ValueId> Sign() {
    if (++depth_ > kMaxDepth) return Wrong("it is nested too deeply");
    absl::StatusOr<ValueId> value;
    if (Take("-")) {
      KILN_ASSIGN_OR_RETURN(const ValueId of, Sign());
      value = builder_.Op("neg", {of});
    } else {
      value = Power();
    }
    --depth_;
    return value;
  }
  absl::StatusOr<ValueId> Power() {
    KILN_ASSIGN_OR_RETURN(const ValueId base, Atom());
    if (!Take("**")) return base;
    KILN_ASSIGN_OR_RETURN(const ValueId exponent, Sign());
    return builder_.Op("pow", {base, exponent});
  }
  absl::StatusOr<ValueId> Atom() {
    if (Take("(")) {
      KILN_ASSIGN_OR_RETURN(const ValueId value, Sum());
      if (!Take(")")) return Wrong("expected \")\"");
      return value;
    }
    if (at_ < text_.size() && (absl::ascii_isdigit(text_[at_]) || text_[at_] == '.'))
      return Number();
    const std::string name = TakeName();
    if (name.empty()) return Wrong("expected a number, data, an operator's name or \"(\"");
    if (Take("(")) return Call(name);
    if (name != "data") return Wrong(absl::StrCat("there is data, and no \"", name, "\""));
    return data_;
  }
  absl::StatusOr<ValueId> Number() {
    const size_t begin = at_;
    const auto is_part = [&] {
      const char c = text_[at_], before = absl::ascii_tolower(text_[at_ == 0 ? 0 : at_ - 1]);
      return absl::ascii_isalnum(c) || c == '.' || ((c == '+' || c == '-') && before == 'e');
    };
    while (at_ < text_.size() && is_part()) ++at_;
    double number = 0;
    if (!absl::SimpleAtod(text_.substr(begin, at_ - begin), &number)) {
      at_ = begin;
      return Wrong("expected a number");
    }
    return builder_.Scalar(builder_.type(data_), number);
  }
  absl::StatusOr<ValueId> Call(const std::string& op) {
    std::vector<ValueId> operands;
    do {
      KILN_ASSIGN_OR_RETURN(operands.emplace_back(), Sum());
    } while (Take(","));
    if (!Take(")")) return Wrong("expected \",\" or \")\"");
    return builder_.Op(op, std::move(operands));
  }

  const absl::string_view text_;
  const ValueId data_;
  GraphBuilder& builder_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<ValueId> AddTransform(absl::string_view text, ValueId data, GraphBuilder& builder) {
  return Parser(text, data, builder).Parse();
}

}  // namespace kiln::tracing
