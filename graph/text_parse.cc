// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstring>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/name.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/op.h"
#include "graph/parse_sized.h"
#include "graph/rebuild.h"
#include "graph/tensors.h"
#include "graph/text.h"

namespace kiln {
namespace {

constexpr int64_t kMaxElements = int64_t{64} << 10;  // of a constant in text

struct TypedShape {
  DType type;
  Shape shape;
};

// One statement. Every function takes what it names off the front of the line.
class Line {
 public:
  explicit Line(absl::string_view text) : rest_(text) {}

  absl::string_view rest() const { return rest_; }
  void Skip() { rest_ = absl::StripLeadingAsciiWhitespace(rest_); }
  bool AtEnd() {
    Skip();
    return rest_.empty() || rest_[0] == '#';
  }
  bool Take(char c) {
    Skip();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool TakeWord(absl::string_view word) {
    Skip();
    if (!absl::StartsWith(rest_, word)) return false;
    const absl::string_view after = rest_.substr(word.size());
    if (!after.empty() &&
        (absl::ascii_isalnum(static_cast<unsigned char>(after[0])) || after[0] == '_'))
      return false;
    rest_ = after;
    return true;
  }
  absl::Status Wrong(absl::string_view what) const {
    if (rest_.empty())
      return absl::InvalidArgumentError(absl::StrCat(what, " at the end of the line"));
    return absl::InvalidArgumentError(absl::StrCat(what, " before \"", rest_.substr(0, 40), "\""));
  }
  absl::Status Expect(char c) {
    return Take(c) ? absl::OkStatus() : Wrong(absl::StrCat("no \"", std::string(1, c), "\""));
  }
  absl::StatusOr<std::string> Name() {
    Skip();
    std::string name;
    if (!TakeName(rest_, name)) return Wrong("no name");
    return name;
  }
  absl::StatusOr<DType> Type() {
    KILN_ASSIGN_OR_RETURN(const std::string name, Name());
    const std::optional<DType> type = ParseDType(name);
    if (!type) return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is no element type"));
    return *type;
  }
  // From "[" to its "]".
  absl::StatusOr<absl::string_view> Bracketed() {
    Skip();
    const size_t end = rest_.find(']');
    if (rest_.empty() || rest_[0] != '[' || end == absl::string_view::npos)
      return Wrong("no list in brackets");
    const absl::string_view list = rest_.substr(0, end + 1);
    rest_.remove_prefix(end + 1);
    return list;
  }
  absl::StatusOr<Shape> Dims() {
    KILN_ASSIGN_OR_RETURN(const absl::string_view list, Bracketed());
    return ParseShape(list);
  }
  absl::StatusOr<TypedShape> TypeAndShape() {
    KILN_ASSIGN_OR_RETURN(const DType type, Type());
    KILN_ASSIGN_OR_RETURN(Shape shape, Dims());
    return TypedShape{type, std::move(shape)};
  }
  absl::StatusOr<std::string> Quoted() {
    KILN_RETURN_IF_ERROR(Expect('"'));
    size_t end = 0;
    while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) return Wrong("no end of the quoted text");
    std::string text;
    if (!absl::CUnescape(rest_.substr(0, end), &text)) return Wrong("a bad escape");
    rest_.remove_prefix(end + 1);
    return text;
  }
  // A number's text: up to a comma, a bracket, a brace or a blank.
  absl::string_view Number() {
    Skip();
    const size_t end = std::min(rest_.find_first_of(",]} \t#"), rest_.size());
    const absl::string_view number = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return number;
  }

 private:
  absl::string_view rest_;
};

absl::Status BadNumber(absl::string_view text, absl::string_view kind) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no ", kind));
}

absl::StatusOr<int64_t> Int(absl::string_view text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return BadNumber(text, "integer");
  return value;
}

template <typename T>
absl::StatusOr<T> Float(absl::string_view text) {
  if (text == "nan") return std::numeric_limits<T>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<T>::infinity();
  if (text == "-inf") return -std::numeric_limits<T>::infinity();
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    return BadNumber(text, "number");
  return value;
}

absl::Status StoreElement(Tensor& tensor, int64_t i, absl::string_view text) {
  if (tensor.dtype() == DType::kF64) {
    KILN_ASSIGN_OR_RETURN(const double value, Float<double>(text));
    WriteFloat(tensor, i, value);
  } else if (IsFloat(tensor.dtype())) {
    KILN_ASSIGN_OR_RETURN(const float value, Float<float>(text));
    WriteFloat(tensor, i, value);
  } else if (tensor.dtype() == DType::kU64) {
    uint64_t value = 0;
    if (!absl::SimpleAtoi(text, &value)) return BadNumber(text, "integer");
    WriteInt(tensor, i, static_cast<int64_t>(value));
  } else {
    KILN_ASSIGN_OR_RETURN(const int64_t value, Int(text));
    WriteInt(tensor, i, value);
    if (ReadInt(tensor, i) != value) return BadNumber(text, Name(tensor.dtype()));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Elements(Line& line, const TypedShape& typed) {
  const std::optional<std::vector<int64_t>> extents = Constant(typed.shape);
  if (!extents)
    return absl::InvalidArgumentError(
        absl::StrCat("a constant cannot have the shape ", ToString(typed.shape)));
  const int64_t bytes = CheckedBytes(typed.type, *extents);
  if (bytes < 0 || bytes > kMaxElements * 8) {
    return absl::InvalidArgumentError(
        absl::StrCat("a constant of shape ", ToString(typed.shape), " is too large for text"));
  }
  Tensor tensor = Tensor::Allocate(typed.type, *extents);
  if (line.Take('#')) {
    return absl::InvalidArgumentError(
        "the elements are not in the text, only their digest; start from the model itself");
  }
  if (line.TakeWord("base64")) {
    KILN_ASSIGN_OR_RETURN(const std::string quoted, line.Quoted());
    std::string raw;
    if (!absl::Base64Unescape(quoted, &raw) || static_cast<int64_t>(raw.size()) != bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("base64 text of ", raw.size(), " bytes; the constant has ", bytes));
    }
    std::memcpy(tensor.data(), raw.data(), raw.size());
    return tensor;
  }
  if (tensor.rank() == 0) {
    KILN_RETURN_IF_ERROR(StoreElement(tensor, 0, line.Number()));
    return tensor;
  }
  KILN_RETURN_IF_ERROR(line.Expect('['));
  const int64_t n = tensor.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    if (i > 0) KILN_RETURN_IF_ERROR(line.Expect(','));
    KILN_RETURN_IF_ERROR(StoreElement(tensor, i, line.Number()));
  }
  KILN_RETURN_IF_ERROR(line.Expect(']'));
  return tensor;
}

template <typename T, typename Read>
absl::StatusOr<AttrValue> List(Line& line, Read&& read) {
  std::vector<T> values;
  KILN_RETURN_IF_ERROR(line.Expect('['));
  if (line.Take(']')) return values;
  do {
    KILN_ASSIGN_OR_RETURN(values.emplace_back(), read(line.Number()));
  } while (line.Take(','));
  KILN_RETURN_IF_ERROR(line.Expect(']'));
  return values;
}

absl::StatusOr<AttrValue> Attribute(Line& line, AttrKind kind,
                                    const std::map<std::string, Body>& bodies,
                                    const std::map<std::string, Dim>& sizes) {
  switch (kind) {
    case AttrKind::kInt: {
      KILN_ASSIGN_OR_RETURN(const int64_t value, Int(line.Number()));
      return value;
    }
    case AttrKind::kFloat: {
      KILN_ASSIGN_OR_RETURN(const double value, Float<double>(line.Number()));
      return value;
    }
    case AttrKind::kString: {
      KILN_ASSIGN_OR_RETURN(std::string value, line.Quoted());
      return value;
    }
    case AttrKind::kInts:
      return List<int64_t>(line, Int);
    case AttrKind::kFloats:
      return List<double>(line, Float<double>);
    case AttrKind::kType: {
      KILN_ASSIGN_OR_RETURN(const DType value, line.Type());
      return value;
    }
    case AttrKind::kDims: {
      KILN_ASSIGN_OR_RETURN(const Shape value, line.Dims());
      return DimsValue(Substituted(value, sizes));
    }
    case AttrKind::kGraph: {
      KILN_ASSIGN_OR_RETURN(const std::string name, line.Name());
      const auto found = bodies.find(name);
      if (found != bodies.end()) return found->second;
      return absl::InvalidArgumentError(absl::StrCat("there is no body \"", name, "\" above"));
    }
    case AttrKind::kCustom:
      return absl::InvalidArgumentError("a custom op has no text; build the graph in C++");
    case AttrKind::kTensor:
      break;
  }
  KILN_ASSIGN_OR_RETURN(const TypedShape typed, line.TypeAndShape());
  KILN_RETURN_IF_ERROR(line.Expect('='));
  KILN_ASSIGN_OR_RETURN(Tensor value, Elements(line, typed));
  return value;
}

class GraphParser {
 public:
  explicit GraphParser(const ParseSizes& sizes) : sizes_(sizes) {}

  ParsedGraph Parse(absl::string_view text) {
    Text lines{text};
    ParsedGraph parsed;
    absl::Status status = Statements(lines);
    if (status.ok() && !named_)
      status = absl::InvalidArgumentError("line 1: no statement \"graph NAME\"");
    if (status.ok()) {
      status = Verify(graph_);
      by_rule_ = !status.ok();
    }
    parsed.rule_failed = by_rule_;
    parsed.status = std::move(status);
    parsed.graph = std::move(graph_);
    return parsed;
  }

 private:
  // What is left to read, and the number of the line before it.
  struct Text {
    absl::string_view rest;
    int number = 0;
  };

  // Up to the end of the text, or of this body.
  absl::Status Statements(Text& text) {
    while (!text.rest.empty()) {
      ++text.number;
      const size_t end = text.rest.find('\n');
      Line line(text.rest.substr(0, end));
      text.rest = end == absl::string_view::npos ? absl::string_view() : text.rest.substr(end + 1);
      if (line.AtEnd()) continue;
      const std::string subject = absl::StrCat("line ", text.number);
      if (Line ahead = line; depth_ > 0 && ahead.TakeWord("end") && ahead.AtEnd()) {
        closed_ = true;
        const absl::Status status = Verify(graph_);
        by_rule_ = !status.ok();
        return Annotate(status, subject);
      }
      if (Line ahead = line; named_ && ahead.TakeWord("body") && !IsValue(ahead)) {
        const absl::StatusOr<std::string> name = ahead.Name();
        if (!name.ok()) return Annotate(name.status(), subject);
        KILN_RETURN_IF_ERROR(BodyBlock(*name, text, subject));
        continue;
      }
      KILN_RETURN_IF_ERROR(Annotate(Statement(line), subject));
    }
    return absl::OkStatus();
  }

  absl::Status BodyBlock(const std::string& name, Text& text, const std::string& subject) {
    constexpr int kMaxDepth = 32;
    GraphParser inner({sizes_.symbols, {}});
    inner.named_ = true;
    inner.depth_ = depth_ + 1;
    inner.graph_.name = name;
    if (inner.depth_ > kMaxDepth)
      return absl::InvalidArgumentError(absl::StrCat(subject, ": bodies nest too deep"));
    const absl::Status status = inner.Statements(text);
    by_rule_ = inner.by_rule_;
    KILN_RETURN_IF_ERROR(status);
    if (!inner.closed_)
      return absl::InvalidArgumentError(
          absl::StrCat(subject, ": body \"", name, "\" has no \"end\""));
    if (bodies_.emplace(name, std::make_shared<const Graph>(std::move(inner.graph_))).second)
      return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(subject, ": body \"", name, "\" is defined twice"));
  }

  static bool IsValue(Line line) { return line.Take(':') || line.Take(',') || line.Take('='); }

  absl::Status Statement(Line& line) {
    KILN_RETURN_IF_ERROR(Dispatch(line));
    return line.AtEnd() ? absl::OkStatus() : line.Wrong("something unexpected");
  }

  absl::Status Dispatch(Line& line) {
    if (!named_) {
      if (!line.TakeWord("graph")) return line.Wrong("no \"graph NAME\"");
      named_ = true;
      KILN_ASSIGN_OR_RETURN(graph_.name, line.Name());
      return absl::OkStatus();
    }
    // A value may be called like a keyword: then ":", "," or "=" follows.
    Line ahead = line;
    if (ahead.TakeWord("input") && !IsValue(ahead)) return Input(line = ahead);
    if (ahead = line; ahead.TakeWord("const") && !IsValue(ahead))
      return ConstantValue(line = ahead);
    if (ahead = line; ahead.TakeWord("output") && !IsValue(ahead)) return Output(line = ahead);
    if (ahead = line; ahead.TakeWord("guard") && !IsValue(ahead)) return GuardLine(line = ahead);
    if (ahead = line; ahead.TakeWord("premise") && !IsValue(ahead))
      return PremiseLine(line = ahead);
    return NodeLine(line);
  }

  absl::Status Define(const std::string& name, ValueId id) {
    if (ids_.emplace(name, id).second) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is defined twice"));
  }

  absl::StatusOr<ValueId> Lookup(const std::string& name) {
    const auto found = ids_.find(name);
    if (found != ids_.end()) return found->second;
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is not defined above"));
  }

  absl::Status Input(Line& line) {
    KILN_ASSIGN_OR_RETURN(const std::string name, line.Name());
    KILN_RETURN_IF_ERROR(line.Expect(':'));
    KILN_ASSIGN_OR_RETURN(TypedShape typed, line.TypeAndShape());
    for (const Dim& dim : typed.shape) {
      if (dim.is_error() || (dim.constant() && *dim.constant() < 0)) {
        return absl::InvalidArgumentError(
            absl::StrCat("input \"", name, "\" has the shape ", ToString(typed.shape)));
      }
    }
    const size_t number = graph_.inputs().size();
    Shape sized = number < sizes_.inputs.size() ? sizes_.inputs[number]
                                                : Substituted(typed.shape, sizes_.symbols);
    const bool under_guards = sizes_.under_guards && !(sized == typed.shape);
    ValueId id = graph_.AddInput(name, typed.type, under_guards ? std::move(typed.shape) : sized);
    if (line.Take('=')) {
      KILN_ASSIGN_OR_RETURN(const Shape elements, line.Dims());
      graph_.mutable_value(id).shape_content = Substituted(elements, sizes_.symbols);
    }
    if (under_guards) {
      KILN_ASSIGN_OR_RETURN(id, Sized(id, std::move(sized)));
    }
    return Define(name, id);
  }

  // An input with symbols, under the numbers that guards say these are.
  absl::StatusOr<ValueId> Sized(ValueId input, Shape shape) {
    std::set<std::string> symbols;
    for (const Dim& dim : graph_.value(input).shape) dim.CollectSymbols(symbols);
    for (const std::string& symbol : symbols) {
      const auto size = sizes_.symbols.find(symbol);
      if (size == sizes_.symbols.end()) continue;
      graph_.AddGuard(Guard::Same(Dim::Symbol(symbol), size->second));
    }
    const std::string name = graph_.value(input).name;
    KILN_ASSIGN_OR_RETURN(
        const std::vector<ValueId> sized,
        graph_.AddNode(*FindOp("reshape"), {input},
                       {{"shape", DimsValue(shape)}, {"allowzero", int64_t{1}}}, name, {name}));
    return sized[0];
  }

  absl::Status ConstantValue(Line& line) {
    KILN_ASSIGN_OR_RETURN(const std::string name, line.Name());
    KILN_RETURN_IF_ERROR(line.Expect(':'));
    KILN_ASSIGN_OR_RETURN(const TypedShape typed, line.TypeAndShape());
    KILN_RETURN_IF_ERROR(line.Expect('='));
    absl::StatusOr<Tensor> tensor = Elements(line, typed);
    if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat("constant \"", name, "\""));
    return Define(name, graph_.AddConstant(name, *std::move(tensor)));
  }

  absl::Status Output(Line& line) {
    KILN_ASSIGN_OR_RETURN(const std::string name, line.Name());
    std::string value = name;
    if (line.Take('=')) {
      KILN_ASSIGN_OR_RETURN(value, line.Name());
    }
    KILN_ASSIGN_OR_RETURN(const ValueId id, Lookup(value));
    graph_.AddOutput(id, name);
    return absl::OkStatus();
  }

  absl::Status GuardLine(Line& line) {
    KILN_ASSIGN_OR_RETURN(Guard guard, Guard::Parse(line.rest()));
    line = Line("");
    // What was assumed of symbols that are numbers here is found again.
    if (sizes_.symbols.empty() || guard.kind == Guard::Kind::kValue)
      graph_.AddGuard(std::move(guard));
    return absl::OkStatus();
  }

  absl::Status PremiseLine(Line& line) {
    KILN_ASSIGN_OR_RETURN(graph_.premises.emplace_back(), Guard::Parse(line.rest()));
    line = Line("");
    return CheckPremises(graph_, sizes_.symbols);
  }

  absl::StatusOr<Attrs> Attributes(Line& line, const OpDef& op) {
    Attrs attrs;
    if (!line.Take('{') || line.Take('}')) return attrs;
    do {
      KILN_ASSIGN_OR_RETURN(const std::string name, line.Name());
      const AttrSpec* spec = nullptr;
      for (const AttrSpec& s : op.attrs) {
        if (name == s.name) spec = &s;
      }
      if (spec == nullptr)
        return absl::InvalidArgumentError(
            absl::StrCat("op \"", op.name, "\" has no attribute \"", name, "\""));
      if (attrs.count(name) > 0)
        return absl::InvalidArgumentError(absl::StrCat("attribute \"", name, "\" is set twice"));
      KILN_RETURN_IF_ERROR(line.Expect('='));
      KILN_ASSIGN_OR_RETURN(attrs[name], Attribute(line, spec->kind, bodies_, sizes_.symbols));
    } while (line.Take(','));
    KILN_RETURN_IF_ERROR(line.Expect('}'));
    return attrs;
  }

  absl::Status NodeLine(Line& line) {
    std::vector<std::string> outputs;
    std::vector<std::optional<TypedShape>> given;
    do {
      KILN_ASSIGN_OR_RETURN(outputs.emplace_back(), line.Name());
      given.emplace_back();
      if (!line.Take(':')) continue;
      KILN_ASSIGN_OR_RETURN(given.back(), line.TypeAndShape());
    } while (line.Take(','));
    KILN_RETURN_IF_ERROR(line.Expect('='));
    KILN_ASSIGN_OR_RETURN(const std::string op_name, line.Name());
    const OpDef* op = FindOp(op_name);
    if (op == nullptr)
      return absl::InvalidArgumentError(
          absl::StrCat("there is no op \"", op_name, "\"; see \"kiln ops\""));

    std::vector<ValueId> inputs;
    KILN_RETURN_IF_ERROR(line.Expect('('));
    if (!line.Take(')')) {
      do {
        line.Skip();
        const bool quoted = absl::StartsWith(line.rest(), "`");
        KILN_ASSIGN_OR_RETURN(const std::string name, line.Name());
        inputs.emplace_back();
        if (name == "_" && !quoted) continue;
        KILN_ASSIGN_OR_RETURN(inputs.back(), Lookup(name));
      } while (line.Take(','));
      KILN_RETURN_IF_ERROR(line.Expect(')'));
    }
    KILN_ASSIGN_OR_RETURN(Attrs attrs, Attributes(line, *op));
    std::string node_name = outputs[0];
    line.Skip();
    if (absl::StartsWith(line.rest(), "\"")) {
      KILN_ASSIGN_OR_RETURN(node_name, line.Quoted());
    }
    absl::StatusOr<std::vector<ValueId>> added =
        graph_.AddNode(*op, std::move(inputs), std::move(attrs), node_name, outputs);
    by_rule_ = !added.ok();
    KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> ids, std::move(added));
    if (ids.size() != outputs.size()) {
      return absl::InvalidArgumentError(absl::StrCat("op \"", op_name, "\" gives ", ids.size(),
                                                     " outputs, the line names ", outputs.size()));
    }
    return DefineOutputs(outputs, given, ids);
  }

  absl::Status DefineOutputs(const std::vector<std::string>& names,
                             const std::vector<std::optional<TypedShape>>& given,
                             const std::vector<ValueId>& ids) {
    for (size_t k = 0; k < ids.size(); ++k) {
      KILN_RETURN_IF_ERROR(Define(names[k], ids[k]));
      if (!given[k]) continue;
      Value& value = graph_.mutable_value(ids[k]);
      if (value.type != given[k]->type) {
        return absl::InvalidArgumentError(absl::StrCat("\"", names[k], "\" is said to be ",
                                                       Name(given[k]->type), "; it is ",
                                                       Name(value.type)));
      }
      value.shape = Substituted(given[k]->shape,
                                sizes_.symbols);  // an equal form under the guards; Verify compares
    }
    return absl::OkStatus();
  }

  const ParseSizes sizes_;
  Graph graph_;
  bool by_rule_ = false;  // what went wrong is what a node's rule says
  bool named_ = false;
  int depth_ = 0;        // of bodies around this one
  bool closed_ = false;  // a body: its end was read
  std::map<std::string, Body> bodies_;
  std::map<std::string, ValueId> ids_;
};

}  // namespace

ParsedGraph ParseSized(absl::string_view text, const ParseSizes& sizes) {
  return GraphParser(sizes).Parse(text);
}

}  // namespace kiln
