// SPDX-License-Identifier: Apache-2.0
#include "kernel/launch_recipe.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace kiln {

enum class LaunchExpr::Op : uint8_t {
  kNumber,
  kExtent,
  kStride,
  kAlign,
  kNot,  // from here on with operands
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,
  kMin,
  kMax,
  kEq,
  kNe,
  kLt,
  kLe,
  kAnd,
  kOr,
};

namespace {

constexpr absl::string_view kFirstLine = "kiln launch 1";
constexpr int kMostNested = 200;       // correctness: the parser recurses
constexpr size_t kMostHeld = 64;       // correctness: values that an evaluation has at once
constexpr int64_t kMostAligned = 256;  // correctness
// Of a text from anywhere: what is read of it takes some times its bytes. Those that kernels have
// are of some kilobytes and, at most, two dozen launches.
constexpr size_t kMostBytes = 1 << 20;
constexpr size_t kMostLaunches = 256;
constexpr size_t kMostShown = 80;

constexpr const char* kOperators[] = {"not", "+",  "-",  "*", "/",  "%",   "min",
                                      "max", "==", "!=", "<", "<=", "and", "or"};

absl::Status Wrong(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("launch: \"", what.substr(0, kMostShown),
                                          what.size() > kMostShown ? "..." : "",
                                          "\" is not understood"));
}

bool ParseNumber(absl::string_view text, int32_t& number) {
  return absl::SimpleAtoi(text, &number) && number >= 0;
}

std::optional<LaunchOperand> ParseOperand(absl::string_view text) {
  using Kind = LaunchOperand::Kind;
  LaunchOperand operand;
  operand.kind = absl::ConsumePrefix(&text, "in")    ? Kind::kInput
                 : absl::ConsumePrefix(&text, "out") ? Kind::kOutput
                                                     : Kind::kScratch;
  if (operand.kind == Kind::kScratch && !absl::ConsumePrefix(&text, "scratch")) return {};
  if (!ParseNumber(text, operand.number)) return {};
  return operand;
}

std::string OperandText(LaunchOperand operand) {
  using Kind = LaunchOperand::Kind;
  const char* const kind = operand.kind == Kind::kInput    ? "in"
                           : operand.kind == Kind::kOutput ? "out"
                                                           : "scratch";
  return absl::StrCat(kind, operand.number);
}

// Rounded down; b is neither 0 nor -1.
int64_t FloorDiv(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
int64_t FloorMod(int64_t a, int64_t b) {
  const int64_t rest = a % b;
  return rest != 0 && (a < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace

// Words of a term, with parentheses as words of their own.
class LaunchExprParser {
 public:
  explicit LaunchExprParser(absl::string_view text) {
    std::string spaced;
    for (const char c : text) {
      if (c == '(' || c == ')') {
        absl::StrAppend(&spaced, " ", std::string(1, c), " ");
      } else {
        spaced.push_back(c);
      }
    }
    words_ = absl::StrSplit(spaced, ' ', absl::SkipEmpty());
  }

  absl::StatusOr<LaunchExpr> One() {
    LaunchExpr expr;
    KILN_RETURN_IF_ERROR(Term(0, expr.terms_));
    size_t held = 0;
    for (const LaunchExpr::Term& term : expr.terms_) {
      if (term.op < Op::kNot) ++held;
      if (term.op > Op::kNot) --held;
      if (held > kMostHeld) return Wrong("a term with more operands than are taken");
    }
    return expr;
  }
  bool done() const { return next_ == words_.size(); }

 private:
  using Op = LaunchExpr::Op;
  using Terms = std::vector<LaunchExpr::Term>;

  std::string Word() { return next_ < words_.size() ? words_[next_++] : ""; }

  absl::Status Term(int depth, Terms& terms) {
    const std::string word = Word();
    absl::string_view rest = word;
    LaunchExpr::Term term;
    if (absl::SimpleAtoi(word, &term.number)) {
      terms.push_back(term);
      return absl::OkStatus();
    }
    if (int32_t dim = 0; absl::ConsumePrefix(&rest, "extent") && ParseNumber(rest, dim)) {
      term.op = Op::kExtent;
      term.number = dim;
      terms.push_back(term);
      return absl::OkStatus();
    }
    if (word != "(" || depth > kMostNested) return Wrong(word);
    KILN_RETURN_IF_ERROR(Call(Word(), depth, terms));
    const std::string end = Word();
    return end == ")" ? absl::OkStatus() : Wrong(end);
  }

  absl::Status Call(const std::string& name, int depth, Terms& terms) {
    LaunchExpr::Term term;
    if (name == "align" || name == "stride") {
      const std::optional<LaunchOperand> operand = ParseOperand(Word());
      if (!operand) return Wrong(name);
      term.op = name == "align" ? Op::kAlign : Op::kStride;
      term.operand = *operand;
      if (int32_t axis = 0; term.op == Op::kStride) {
        if (!ParseNumber(Word(), axis)) return Wrong(name);
        term.number = axis;
      }
      terms.push_back(term);
      return absl::OkStatus();
    }
    const auto* const found = std::find(std::begin(kOperators), std::end(kOperators), name);
    if (found == std::end(kOperators)) return Wrong(name);
    term.op = static_cast<Op>(static_cast<int>(Op::kNot) + (found - std::begin(kOperators)));
    KILN_RETURN_IF_ERROR(Term(depth + 1, terms));
    if (term.op != Op::kNot) KILN_RETURN_IF_ERROR(Term(depth + 1, terms));
    terms.push_back(term);
    return absl::OkStatus();
  }

  std::vector<std::string> words_;
  size_t next_ = 0;
};

absl::StatusOr<LaunchExpr> LaunchExpr::Parse(absl::string_view text) {
  LaunchExprParser parser(text);
  KILN_ASSIGN_OR_RETURN(LaunchExpr expr, parser.One());
  if (!parser.done()) return Wrong(text);
  return expr;
}

std::string LaunchExpr::ToString() const {
  std::vector<std::string> stack;
  for (const Term& term : terms_) {
    if (term.op == Op::kNumber) {
      stack.push_back(absl::StrCat(term.number));
    } else if (term.op == Op::kExtent) {
      stack.push_back(absl::StrCat("extent", term.number));
    } else if (term.op == Op::kAlign) {
      stack.push_back(absl::StrCat("(align ", OperandText(term.operand), ")"));
    } else if (term.op == Op::kStride) {
      stack.push_back(absl::StrCat("(stride ", OperandText(term.operand), " ", term.number, ")"));
    } else {
      const char* const name = kOperators[static_cast<int>(term.op) - static_cast<int>(Op::kNot)];
      const std::string b = std::move(stack.back());
      if (term.op == Op::kNot) {
        stack.back() = absl::StrCat("(not ", b, ")");
        continue;
      }
      stack.pop_back();
      stack.back() = absl::StrCat("(", name, " ", stack.back(), " ", b, ")");
    }
  }
  return stack.empty() ? "0" : stack.back();
}

absl::StatusOr<int64_t> LaunchExpr::Apply(Op op, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (op) {
    case Op::kAdd:
      return static_cast<int64_t>(ua + ub);
    case Op::kSub:
      return static_cast<int64_t>(ua - ub);
    case Op::kMul:
      return static_cast<int64_t>(ua * ub);
    case Op::kDiv:
    case Op::kMod:
      if (b == 0) return absl::InvalidArgumentError("launch: a division by zero");
      if (b == -1) return op == Op::kDiv ? static_cast<int64_t>(-ua) : 0;
      return op == Op::kDiv ? FloorDiv(a, b) : FloorMod(a, b);
    case Op::kMin:
      return std::min(a, b);
    case Op::kMax:
      return std::max(a, b);
    case Op::kEq:
      return a == b;
    case Op::kNe:
      return a != b;
    case Op::kLt:
      return a < b;
    case Op::kLe:
      return a <= b;
    case Op::kAnd:
      return a != 0 && b != 0;
    case Op::kOr:
      return a != 0 || b != 0;
    default:
      return absl::InternalError("launch: no operator");
  }
}

int64_t AlignmentOf(int64_t address) {
  const int64_t lowest = address & -address;
  return lowest == 0 ? kMostAligned : std::min(lowest, kMostAligned);
}

bool LaunchExpr::asks_addresses() const {
  return std::any_of(terms_.begin(), terms_.end(),
                     [](const Term& term) { return term.op == Op::kAlign; });
}

absl::StatusOr<int64_t> LaunchExpr::Evaluate(const LaunchFacts& facts) const {
  std::array<int64_t, kMostHeld> stack;
  size_t held = 0;
  for (const Term& term : terms_) {
    int64_t value = term.number;
    if (term.op == Op::kExtent) {
      KILN_ASSIGN_OR_RETURN(value, facts.Extent(term.number));
    } else if (term.op == Op::kStride) {
      KILN_ASSIGN_OR_RETURN(value, facts.Stride(term.operand, term.number));
    } else if (term.op == Op::kAlign) {
      KILN_ASSIGN_OR_RETURN(const int64_t address, facts.Address(term.operand));
      value = AlignmentOf(address);
    } else if (term.op == Op::kNot) {
      stack[held - 1] = stack[held - 1] == 0;
      continue;
    } else if (term.op != Op::kNumber) {
      --held;
      KILN_ASSIGN_OR_RETURN(stack[held - 1], Apply(term.op, stack[held - 1], stack[held]));
      continue;
    }
    stack[held++] = value;
  }
  return held == 0 ? 0 : stack[0];
}

std::optional<int64_t> LaunchExpr::Constant() const {
  class NoFacts final : public LaunchFacts {
    static absl::Status Varies() { return absl::InvalidArgumentError("launch: varies"); }
    absl::StatusOr<int64_t> Extent(int64_t) const override { return Varies(); }
    absl::StatusOr<int64_t> Stride(LaunchOperand, int64_t) const override { return Varies(); }
    absl::StatusOr<int64_t> Address(LaunchOperand) const override { return Varies(); }
  };
  const absl::StatusOr<int64_t> value = Evaluate(NoFacts());
  return value.ok() ? std::optional<int64_t>(*value) : std::nullopt;
}

namespace {

absl::Status ParseExprs(absl::string_view text, std::array<LaunchExpr, 3>& exprs) {
  LaunchExprParser parser(text);
  for (LaunchExpr& expr : exprs) {
    KILN_ASSIGN_OR_RETURN(expr, parser.One());
  }
  return parser.done() ? absl::OkStatus() : Wrong(text);
}

absl::Status ParseArgument(absl::string_view text, std::vector<LaunchArgument>& arguments) {
  using Kind = LaunchArgument::Kind;
  LaunchArgument& argument = arguments.emplace_back();
  if (absl::ConsumePrefix(&text, "buffer ")) {
    const std::optional<LaunchOperand> operand = ParseOperand(text);
    if (!operand) return Wrong(text);
    argument.kind = Kind::kBuffer;
    argument.operand = *operand;
    return absl::OkStatus();
  }
  if (absl::ConsumePrefix(&text, "param ")) {
    argument.kind = Kind::kParam;
    return ParseNumber(text, argument.param) ? absl::OkStatus() : Wrong(text);
  }
  argument.kind = absl::ConsumePrefix(&text, "i32 ") ? Kind::kInt32 : Kind::kInt64;
  if (argument.kind == Kind::kInt64 && !absl::ConsumePrefix(&text, "i64 ")) return Wrong(text);
  KILN_ASSIGN_OR_RETURN(argument.value, LaunchExpr::Parse(text));
  return absl::OkStatus();
}

absl::Status ParseLine(absl::string_view line, LaunchRecipe& recipe) {
  if (absl::ConsumePrefix(&line, "scratch ")) {
    KILN_ASSIGN_OR_RETURN(recipe.scratch_bytes.emplace_back(), LaunchExpr::Parse(line));
    return absl::OkStatus();
  }
  if (absl::ConsumePrefix(&line, "launch ")) {
    recipe.launches.emplace_back().entry = std::string(line);
    return absl::OkStatus();
  }
  if (recipe.launches.empty()) return Wrong(line);
  DeviceLaunch& launch = recipe.launches.back();
  if (absl::ConsumePrefix(&line, "when ") && launch.when.empty()) {
    KILN_ASSIGN_OR_RETURN(launch.when.emplace_back(), LaunchExpr::Parse(line));
    return absl::OkStatus();
  }
  if (absl::ConsumePrefix(&line, "grid ")) return ParseExprs(line, launch.grid);
  if (absl::ConsumePrefix(&line, "block ")) return ParseExprs(line, launch.block);
  if (absl::ConsumePrefix(&line, "arg ")) return ParseArgument(line, launch.arguments);
  if (!absl::ConsumePrefix(&line, "shared ")) return Wrong(line);
  KILN_ASSIGN_OR_RETURN(launch.shared_bytes, LaunchExpr::Parse(line));
  return absl::OkStatus();
}

std::string ArgumentText(const LaunchArgument& argument) {
  switch (argument.kind) {
    case LaunchArgument::Kind::kBuffer:
      return absl::StrCat("buffer ", OperandText(argument.operand));
    case LaunchArgument::Kind::kParam:
      return absl::StrCat("param ", argument.param);
    case LaunchArgument::Kind::kInt32:
      return absl::StrCat("i32 ", argument.value.ToString());
    case LaunchArgument::Kind::kInt64:
      return absl::StrCat("i64 ", argument.value.ToString());
  }
  return "";
}

std::string Joined(const std::array<LaunchExpr, 3>& exprs) {
  return absl::StrJoin(exprs, " ", [](std::string* out, const LaunchExpr& expr) {
    absl::StrAppend(out, expr.ToString());
  });
}

}  // namespace

absl::StatusOr<LaunchRecipe> LaunchRecipe::Parse(absl::string_view text) {
  if (text.size() > kMostBytes) {
    return absl::DataLossError(
        absl::StrCat("launch: has ", text.size(), " bytes, at most ", kMostBytes, " are read"));
  }
  LaunchRecipe recipe;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (++number == 1 && line != kFirstLine) return Wrong(line);
    if (number == 1 || line.empty()) continue;
    if (const absl::Status status = ParseLine(line, recipe); !status.ok())
      return absl::DataLossError(absl::StrCat("line ", number, ": ", status.message()));
    if (recipe.launches.size() > kMostLaunches) {
      return absl::DataLossError(
          absl::StrCat("line ", number, ": has more than ", kMostLaunches, " launches"));
    }
  }
  return recipe;
}

bool LaunchRecipe::asks_addresses() const {
  const auto any = [](const auto& exprs) {
    return std::any_of(exprs.begin(), exprs.end(),
                       [](const LaunchExpr& expr) { return expr.asks_addresses(); });
  };
  return any(scratch_bytes) ||
         std::any_of(launches.begin(), launches.end(), [&](const DeviceLaunch& launch) {
           return any(launch.when) || any(launch.grid) || any(launch.block) ||
                  launch.shared_bytes.asks_addresses() ||
                  std::any_of(launch.arguments.begin(), launch.arguments.end(),
                              [](const LaunchArgument& argument) {
                                return argument.value.asks_addresses();
                              });
         });
}

std::string LaunchRecipe::ToString() const {
  std::string text = absl::StrCat(kFirstLine, "\n");
  for (const LaunchExpr& bytes : scratch_bytes)
    absl::StrAppend(&text, "scratch ", bytes.ToString(), "\n");
  for (const DeviceLaunch& launch : launches) {
    absl::StrAppend(&text, "launch ", launch.entry, "\n");
    for (const LaunchExpr& when : launch.when)
      absl::StrAppend(&text, "when ", when.ToString(), "\n");
    absl::StrAppend(&text, "grid ", Joined(launch.grid), "\nblock ", Joined(launch.block),
                    "\nshared ", launch.shared_bytes.ToString(), "\n");
    for (const LaunchArgument& argument : launch.arguments)
      absl::StrAppend(&text, "arg ", ArgumentText(argument), "\n");
  }
  return text;
}

}  // namespace kiln
