// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "kernel/text.h"

namespace kiln {
namespace {

constexpr int kMaxNesting = 500;

bool IsNameChar(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::optional<int32_t> NumberAfter(absl::string_view prefix, absl::string_view word) {
  if (word.size() <= prefix.size() || word.substr(0, prefix.size()) != prefix) return std::nullopt;
  int32_t value = 0;
  const char* end = word.data() + word.size();
  const std::from_chars_result read = std::from_chars(word.data() + prefix.size(), end, value);
  if (read.ec != std::errc() || read.ptr != end || value < 0) return std::nullopt;
  return value;
}

std::optional<ScalarOp> ParseOp(absl::string_view name) {
  for (int i = static_cast<int>(ScalarOp::kAdd); i < kNumScalarOps; ++i) {
    if (name == Info(static_cast<ScalarOp>(i)).name) return static_cast<ScalarOp>(i);
  }
  return std::nullopt;
}

// One line of the text, read left to right.
class LineParser {
 public:
  LineParser(Kernel& kernel, absl::string_view line, int number)
      : kernel_(kernel), line_(line), number_(number) {}

  absl::Status Parse() {
    const absl::string_view word = Word();
    if (word == "kernel") return Header();
    if (word == "dims" || word == "sizes") return DimNames(word == "dims");
    if (word == "in") return Input();
    if (word == "par") return Parameter();
    if (word == "out") return Output();
    if (const std::optional<int32_t> k = NumberAfter("s", word)) return StageLine(*k);
    return Error(
        absl::StrCat("no line starts with \"", word, "\"; use dims, sizes, in, par, sK or out"));
  }

 private:
  // ---- Lexical part.
  void Blanks() {
    while (pos_ < line_.size() && absl::ascii_isspace(static_cast<unsigned char>(line_[pos_])))
      ++pos_;
  }
  bool AtEnd() { return Blanks(), pos_ >= line_.size(); }
  char Peek() { return AtEnd() ? '\0' : line_[pos_]; }
  bool Accept(char c) {
    if (Peek() != c) return false;
    ++pos_;
    return true;
  }
  absl::string_view Word() {
    Blanks();
    const size_t start = pos_;
    while (pos_ < line_.size() && IsNameChar(line_[pos_])) ++pos_;
    return line_.substr(start, pos_ - start);
  }
  absl::Status Error(const std::string& what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", number_, ", column ", pos_ + 1, ": ", what));
  }
  absl::Status Expect(char c) {
    if (Accept(c)) return absl::OkStatus();
    const std::string found = AtEnd()
                                  ? "the end of the line"
                                  : absl::StrCat("\"", absl::string_view(&line_[pos_], 1), "\"");
    return Error(absl::StrCat("expected \"", absl::string_view(&c, 1), "\", found ", found));
  }
  absl::Status ExpectWord(absl::string_view want) {
    const absl::string_view word = Word();
    if (word == want) return absl::OkStatus();
    return Error(absl::StrCat("expected \"", want, "\", found \"", word, "\""));
  }
  absl::Status End() {
    if (AtEnd()) return absl::OkStatus();
    return Error(absl::StrCat("unexpected \"", line_.substr(pos_, 20),
                              "\" after the end of the line's meaning; remove it"));
  }
  template <typename Int>
  absl::StatusOr<Int> Integer() {
    Blanks();
    Int value = 0;
    const std::from_chars_result read =
        std::from_chars(line_.data() + pos_, line_.data() + line_.size(), value);
    if (read.ec != std::errc()) return Error("expected an integer that fits its type");
    pos_ = static_cast<size_t>(read.ptr - line_.data());
    return value;
  }
  absl::StatusOr<DType> Type() {
    const absl::string_view word = Word();
    const std::optional<DType> type = ParseDType(word);
    if (!type)
      return Error(absl::StrCat("\"", word, "\" is no element type; use f32, i64, bool, ..."));
    return *type;
  }
  absl::StatusOr<int32_t> DimName() {
    const absl::string_view word = Word();
    for (size_t i = 0; i < kernel_.dims.size(); ++i) {
      if (word == kernel_.dims[i].name) return static_cast<int32_t>(i);
    }
    return Error(absl::StrCat("\"", word, "\" is no dim of this kernel; name it in dims or sizes"));
  }
  absl::StatusOr<std::vector<int32_t>> DimList() {
    KILN_RETURN_IF_ERROR(Expect('['));
    std::vector<int32_t> dims;
    while (!Accept(']')) {
      if (!dims.empty()) KILN_RETURN_IF_ERROR(Expect(','));
      KILN_ASSIGN_OR_RETURN(const int32_t dim, DimName());
      dims.push_back(dim);
    }
    return dims;
  }
  absl::StatusOr<Layout> LayoutWord() {
    const absl::string_view word = Word();
    if (word == "dense") return Layout::kDense;
    if (word == "rows") return Layout::kRows;
    if (word == "strided") return Layout::kStrided;
    return Error(absl::StrCat("\"", word, "\" is no layout; use dense, rows or strided"));
  }
  absl::Status Numbered(size_t expected) {
    KILN_ASSIGN_OR_RETURN(const int64_t k, Integer<int64_t>());
    if (k == static_cast<int64_t>(expected)) return absl::OkStatus();
    return Error(
        absl::StrCat("number ", k, ", expected ", expected, "; number lines of a kind from 0"));
  }

  // ---- Lines.
  absl::Status Header() {
    KILN_RETURN_IF_ERROR(ExpectWord("v1"));
    KILN_RETURN_IF_ERROR(ExpectWord("math"));
    KILN_ASSIGN_OR_RETURN(kernel_.math, Integer<int>());
    return End();
  }
  absl::Status DimNames(bool iterated) {
    while (!AtEnd()) {
      const absl::string_view name = Word();
      if (name.empty()) return Error("expected a name");
      if (kernel_.dims.size() >= 64) return Error("more than 64 dims; merge some");
      kernel_.dims.push_back({std::string(name), iterated});
    }
    return absl::OkStatus();
  }
  absl::Status Input() {
    KILN_RETURN_IF_ERROR(Numbered(kernel_.inputs.size()));
    KernelInput input;
    KILN_ASSIGN_OR_RETURN(input.type, Type());
    KILN_ASSIGN_OR_RETURN(input.dims, DimList());
    KILN_ASSIGN_OR_RETURN(input.layout, LayoutWord());
    kernel_.inputs.push_back(std::move(input));
    return End();
  }
  absl::Status Parameter() {
    KILN_RETURN_IF_ERROR(Numbered(kernel_.params.size()));
    KILN_ASSIGN_OR_RETURN(const DType type, Type());
    kernel_.params.push_back(type);
    return End();
  }
  absl::Status StageLine(int32_t k) {
    if (static_cast<size_t>(k) != kernel_.stages.size()) {
      return Error(absl::StrCat("stage s", k, ", expected s", kernel_.stages.size(),
                                "; number stages from 0"));
    }
    Stage stage;
    KILN_RETURN_IF_ERROR(Expect(':'));
    KILN_ASSIGN_OR_RETURN(stage.type, Type());
    KILN_ASSIGN_OR_RETURN(stage.dims, DimList());
    KILN_RETURN_IF_ERROR(Expect('='));
    const size_t start = (Blanks(), pos_);
    if (Word() == "reduce") {
      KILN_RETURN_IF_ERROR(Reduction(stage));
    } else {
      pos_ = start;
      KILN_ASSIGN_OR_RETURN(stage.expr, Expression());
    }
    kernel_.stages.push_back(std::move(stage));
    return End();
  }
  absl::Status Reduction(Stage& stage) {
    stage.kind = Stage::Kind::kReduce;
    const absl::string_view name = Word();
    bool known = false;
    for (int i = 0; i <= static_cast<int>(ReduceOp::kOr); ++i) {
      if (name != Name(static_cast<ReduceOp>(i))) continue;
      stage.op = static_cast<ReduceOp>(i);
      known = true;
    }
    if (!known)
      return Error(absl::StrCat("\"", name, "\" is no reduction; use add, mul, max, min, and, or"));
    KILN_RETURN_IF_ERROR(ExpectWord("over"));
    while (Peek() != '(' && !AtEnd()) {
      KILN_ASSIGN_OR_RETURN(const int32_t dim, DimName());
      stage.over.push_back(dim);
    }
    KILN_RETURN_IF_ERROR(Expect('('));
    KILN_ASSIGN_OR_RETURN(stage.expr, Expression());
    return Expect(')');
  }
  absl::Status Output() {
    KILN_RETURN_IF_ERROR(Numbered(kernel_.outputs.size()));
    KernelOutput output;
    KILN_ASSIGN_OR_RETURN(output.type, Type());
    KILN_ASSIGN_OR_RETURN(output.dims, DimList());
    KILN_ASSIGN_OR_RETURN(output.layout, LayoutWord());
    KILN_RETURN_IF_ERROR(Expect('='));
    KILN_ASSIGN_OR_RETURN(output.expr, Expression());
    kernel_.outputs.push_back(std::move(output));
    return End();
  }

  // ---- Expressions.
  absl::StatusOr<ScalarExpr> Expression() {
    ScalarExpr expr;
    KILN_ASSIGN_OR_RETURN(const Ex root, Node(expr));
    expr.set_root(root.id);
    return expr;
  }

  absl::StatusOr<Ex> Node(ScalarExpr& expr) {
    if (depth_ >= kMaxNesting)
      return Error(absl::StrCat("nested deeper than ", kMaxNesting, "; split it into stages"));
    ++depth_;
    absl::StatusOr<Ex> node = NodeBody(expr);
    --depth_;
    return node;
  }

  absl::StatusOr<Ex> NodeBody(ScalarExpr& expr) {
    const char first = Peek();
    if (first == '-' || first == '.' || absl::ascii_isdigit(static_cast<unsigned char>(first)))
      return Value(expr, DType::kF32);
    const size_t start = (Blanks(), pos_);
    const absl::string_view word = Word();
    if (word == "inf" || word == "nan") {
      pos_ = start;
      return Value(expr, DType::kF32);
    }
    if (const std::optional<DType> type = ParseDType(word)) {
      KILN_RETURN_IF_ERROR(Expect(':'));
      return Value(expr, *type);
    }
    if (const std::optional<int32_t> k = NumberAfter("in", word))
      return ReadOf(expr, ReadSource::kInput, *k);
    if (const std::optional<int32_t> k = NumberAfter("s", word))
      return ReadOf(expr, ReadSource::kStage, *k);
    if (const std::optional<int32_t> k = NumberAfter("par", word)) {
      if (static_cast<size_t>(*k) >= kernel_.params.size())
        return Error(absl::StrCat("par", *k, " is not declared above"));
      return Param(expr, kernel_.params[static_cast<size_t>(*k)], *k);
    }
    if (word == "index" || word == "extent") {
      KILN_RETURN_IF_ERROR(Expect('('));
      KILN_ASSIGN_OR_RETURN(const int32_t dim, DimName());
      KILN_RETURN_IF_ERROR(Expect(')'));
      return word == "index" ? Coordinate(expr, dim) : Extent(expr, dim);
    }
    const std::optional<ScalarOp> op = ParseOp(word);
    if (!op) return Error(absl::StrCat("\"", word, "\" is no operation; check its spelling"));
    return Call(expr, *op);
  }

  absl::StatusOr<Ex> Call(ScalarExpr& expr, ScalarOp op) {
    DType to = DType::kF32;
    const bool typed =
        op == ScalarOp::kCast || op == ScalarOp::kBitcast || op == ScalarOp::kRoundTo;
    if (typed) {
      KILN_RETURN_IF_ERROR(Expect('<'));
      KILN_ASSIGN_OR_RETURN(to, Type());
      KILN_RETURN_IF_ERROR(Expect('>'));
    }
    std::vector<IndexExpr> index;
    if (op == ScalarOp::kAddAt) {
      KILN_ASSIGN_OR_RETURN(index, Indices(expr));
    }
    KILN_RETURN_IF_ERROR(Expect('('));
    Ex args[3];
    for (int i = 0; i < Info(op).arity; ++i) {
      if (i > 0) KILN_RETURN_IF_ERROR(Expect(','));
      KILN_ASSIGN_OR_RETURN(args[i], Node(expr));
    }
    KILN_RETURN_IF_ERROR(Expect(')'));
    if (op == ScalarOp::kRoundTo) return RoundTo(args[0], to);
    if (op == ScalarOp::kAddAt) return AddAt(args[0], std::move(index));
    if (typed) {  // not Cast(): what is written is kept, even a cast to the same type
      ExprNode node;
      node.op = op;
      node.type = to;
      node.args[0] = args[0].id;
      return Ex{&expr, expr.Add(std::move(node))};
    }
    if (Info(op).arity == 1) return Apply(op, args[0]);
    if (Info(op).arity == 2) return Apply(op, args[0], args[1]);
    return Apply(op, args[0], args[1], args[2]);
  }

  absl::StatusOr<Ex> ReadOf(ScalarExpr& expr, ReadSource source, int32_t k) {
    const bool input = source == ReadSource::kInput;
    const size_t known = input ? kernel_.inputs.size() : kernel_.stages.size();
    if (static_cast<size_t>(k) >= known) {
      return Error(
          absl::StrCat(input ? "in" : "s", k, " is not declared above; only ", known, " are"));
    }
    const auto at = static_cast<size_t>(k);
    const DType type = input ? ComputeType(kernel_.inputs[at].type) : kernel_.stages[at].type;
    KILN_ASSIGN_OR_RETURN(std::vector<IndexExpr> index, Indices(expr));
    return Read(expr, type, source, k, std::move(index));
  }

  absl::StatusOr<std::vector<IndexExpr>> Indices(ScalarExpr& expr) {
    std::vector<IndexExpr> index;
    KILN_RETURN_IF_ERROR(Expect('['));
    while (!Accept(']')) {
      if (!index.empty()) KILN_RETURN_IF_ERROR(Expect(','));
      if (index.size() >= 64) return Error("more than 64 indices");
      KILN_ASSIGN_OR_RETURN(IndexExpr one, Index(expr));
      index.push_back(std::move(one));
    }
    return index;
  }

  absl::StatusOr<Ex> Value(ScalarExpr& expr, DType type) {
    if (IsSigned(type)) {
      KILN_ASSIGN_OR_RETURN(const int64_t value, Integer<int64_t>());
      const Ex literal = LiteralBits(expr, type, static_cast<uint64_t>(value));
      if (static_cast<int64_t>(expr.node(literal.id).imm) != value)
        return Error(absl::StrCat(value, " does not fit ", Name(type)));
      return literal;
    }
    if (!IsFloat(type)) {
      KILN_ASSIGN_OR_RETURN(const uint64_t value, Integer<uint64_t>());
      const Ex literal = LiteralBits(expr, type, value);
      if (expr.node(literal.id).imm != value)
        return Error(absl::StrCat(value, " does not fit ", Name(type)));
      return literal;
    }
    if (type == DType::kF64) {
      KILN_ASSIGN_OR_RETURN(const double value, FloatValue<double>());
      return LiteralBits(expr, type, std::bit_cast<uint64_t>(value));
    }
    if (type != DType::kF32)
      return Error(absl::StrCat("literals of type ", Name(type), " do not exist; use f32"));
    KILN_ASSIGN_OR_RETURN(const float value, FloatValue<float>());
    return LiteralBits(expr, type, std::bit_cast<uint32_t>(value));
  }

  template <typename Float>
  absl::StatusOr<Float> FloatValue() {
    const bool negative = Accept('-');
    const bool hex = line_.substr(pos_, 2) == "0x";
    if (hex) pos_ += 2;
    if (pos_ < line_.size() && line_[pos_] == '-')
      return Error("a second sign in a number; remove it");
    Float value = 0;
    const std::from_chars_result read =
        std::from_chars(line_.data() + pos_, line_.data() + line_.size(), value,
                        hex ? std::chars_format::hex : std::chars_format::general);
    if (read.ec != std::errc())
      return Error("expected a number within the range of its type, inf or nan");
    pos_ = static_cast<size_t>(read.ptr - line_.data());
    return negative ? -value : value;
  }

  // ---- Indices.
  absl::StatusOr<IndexExpr> Index(ScalarExpr& expr) {
    if (Accept('[')) {
      KILN_ASSIGN_OR_RETURN(const Ex load, Node(expr));
      KILN_RETURN_IF_ERROR(Expect(']'));
      return IndexExpr::Load(load.id);
    }
    return Quotient(0);
  }

  absl::StatusOr<IndexExpr> Quotient(int parens) {
    IndexExpr index;
    if (Accept('(')) {
      if (parens >= 4) return Error("too many parentheses in an index; write ((sum)/C)%C");
      KILN_ASSIGN_OR_RETURN(index, Quotient(parens + 1));
      KILN_RETURN_IF_ERROR(Expect(')'));
    } else {
      KILN_ASSIGN_OR_RETURN(index, Sum());
    }
    if (Accept('/')) {
      if (index.div != 1 || index.mod != 0)
        return Error("an index divides once, before the remainder; write ((sum)/C)%C");
      KILN_ASSIGN_OR_RETURN(index.div, Positive());
    }
    if (Accept('%')) {
      if (index.mod != 0) return Error("an index takes one remainder; write ((sum)/C)%C");
      KILN_ASSIGN_OR_RETURN(index.mod, Positive());
    }
    return index;
  }

  absl::StatusOr<int64_t> Positive() {
    KILN_ASSIGN_OR_RETURN(const int64_t value, Integer<int64_t>());
    if (value < 1) return Error(absl::StrCat("divisor ", value, "; it must be at least 1"));
    return value;
  }

  absl::StatusOr<IndexExpr> Sum() {
    IndexExpr index;
    bool first = true;
    while (first || Peek() == '+' || Peek() == '-') {
      const int64_t sign = Accept('-') ? -1 : 1;
      if (!first && sign > 0) Accept('+');
      first = false;
      int64_t factor = 1;
      const bool number = absl::ascii_isdigit(static_cast<unsigned char>(Peek()));
      if (number) {
        KILN_ASSIGN_OR_RETURN(factor, Integer<int64_t>());
      }
      factor *= sign;
      if (number && !Accept('*')) {
        if (__builtin_add_overflow(index.offset, factor, &index.offset))
          return Error("index offset overflows");
        continue;
      }
      const bool extent = Accept('|');
      KILN_ASSIGN_OR_RETURN(const int32_t dim, DimName());
      if (extent) KILN_RETURN_IF_ERROR(Expect('|'));
      index.terms.push_back({dim, extent, factor});
    }
    return Sorted(std::move(index));
  }

  absl::StatusOr<IndexExpr> Sorted(IndexExpr index) const {
    const auto key = [](const IndexExpr::Term& t) { return std::pair(t.extent, t.dim); };
    std::stable_sort(
        index.terms.begin(), index.terms.end(),
        [&](const IndexExpr::Term& a, const IndexExpr::Term& b) { return key(a) < key(b); });
    std::vector<IndexExpr::Term> merged;
    for (const IndexExpr::Term& term : index.terms) {
      if (merged.empty() || key(merged.back()) != key(term)) {
        merged.push_back(term);
      } else if (__builtin_add_overflow(merged.back().coef, term.coef, &merged.back().coef)) {
        return Error("index factor overflows");
      }
    }
    std::erase_if(merged, [](const IndexExpr::Term& term) { return term.coef == 0; });
    index.terms = std::move(merged);
    return index;
  }

  Kernel& kernel_;
  absl::string_view line_;
  int number_;
  size_t pos_ = 0;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<Kernel> ParseKernel(absl::string_view text) {
  Kernel kernel;
  bool header = false;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    const bool is_header = absl::StripLeadingAsciiWhitespace(line).substr(0, 7) == "kernel ";
    if (is_header == header) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", number,
          ", column 1: ", header ? "a second \"kernel\" line" : "no \"kernel v1 math N\" before it",
          "; start the text with exactly one"));
    }
    header = true;
    KILN_RETURN_IF_ERROR(LineParser(kernel, line, number).Parse());
  }
  if (!header)
    return absl::InvalidArgumentError(
        "line 1, column 1: the text is empty; start it with \"kernel v1 math N\"");
  KILN_RETURN_IF_ERROR(Verify(kernel));
  return kernel;
}

}  // namespace kiln
