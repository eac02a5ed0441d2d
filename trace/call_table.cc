// SPDX-License-Identifier: Apache-2.0
#include "trace/call_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/graph.h"
#include "graph/text.h"
#include "trace/number.h"

namespace kiln::tracing {
namespace {

void AppendText(Words& words, absl::string_view text) {
  words.push_back(text.size());
  for (size_t i = 0; i < text.size(); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min(sizeof(word), text.size() - i));
    words.push_back(word);
  }
}

void AppendAttribute(Words& words, const Attribute& a) {
  AppendText(words, a.name);
  words.push_back(static_cast<uint64_t>(a.kind));
  switch (a.kind) {
    case Attribute::Kind::kAbsent:
      break;
    case Attribute::Kind::kInt:
      words.push_back(static_cast<uint64_t>(a.integer));
      break;
    case Attribute::Kind::kFloat:
      words.push_back(std::bit_cast<uint64_t>(a.number));
      break;
    case Attribute::Kind::kString:
      AppendText(words, a.text);
      break;
    case Attribute::Kind::kInts:
      words.push_back(a.size);
      for (size_t i = 0; i < a.size; ++i) words.push_back(static_cast<uint64_t>(a.ints[i]));
      break;
    case Attribute::Kind::kType:
      words.push_back(static_cast<uint64_t>(a.type));
      break;
  }
}

bool Same(const Attribute& a, const Attribute& b) {
  if (a.kind != b.kind || std::strcmp(a.name, b.name) != 0) return false;
  switch (a.kind) {
    case Attribute::Kind::kAbsent:
      return true;
    case Attribute::Kind::kInt:
      return a.integer == b.integer;
    case Attribute::Kind::kFloat:
      return std::bit_cast<uint64_t>(a.number) == std::bit_cast<uint64_t>(b.number);
    case Attribute::Kind::kString:
      return a.text == b.text;
    case Attribute::Kind::kInts:
      return std::equal(a.ints, a.ints + a.size, b.ints, b.ints + b.size);
    case Attribute::Kind::kType:
      return a.type == b.type;
  }
  return false;
}

// Of texts and lists: to where the signature has them.
void PointTo(const AttrValue& value, Attribute& a) {
  if (const auto* text = std::get_if<std::string>(&value)) a.text = *text;
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    a.ints = list->data();
    a.size = list->size();
  }
}

AttrValue ValueOf(const Attribute& a) {
  switch (a.kind) {
    case Attribute::Kind::kFloat:
      return a.number;
    case Attribute::Kind::kString:
      return std::string(a.text);
    case Attribute::Kind::kInts:
      return std::vector<int64_t>(a.ints, a.ints + a.size);
    case Attribute::Kind::kType:
      return a.type;
    default:
      return a.integer;
  }
}

// Attributes of the signature, and how they were given: with the names of the operator's record,
// and the values that the signature has. A name that is none of them is not in `given`, which then
// has too few.
void SetAttributes(CallSignature& signature, std::span<const Attribute> attributes) {
  for (const Attribute& attribute : attributes)
    if (attribute.kind != Attribute::Kind::kAbsent)
      signature.attrs[attribute.name] = ValueOf(attribute);
  for (const Attribute& attribute : attributes) {
    for (const AttrSpec& spec : signature.op->attrs) {
      if (absl::string_view(spec.name) != attribute.name) continue;
      Attribute& given = signature.given.emplace_back(attribute);
      given.name = spec.name;
      if (const auto value = signature.attrs.find(spec.name); value != signature.attrs.end())
        PointTo(value->second, given);
    }
  }
}

// One node with operands of these types, in a graph of its own.
absl::StatusOr<Graph> GraphOf(const CallSignature& signature,
                              std::span<const ValueType* const> operands) {
  Graph graph;
  std::vector<ValueId> inputs;
  for (size_t k = 0; k < operands.size(); ++k) {
    const ValueType* const type = operands[k];
    if (type == nullptr) {
      inputs.emplace_back();
    } else if (static_cast<int64_t>(k) == signature.op->constant_input) {
      // Any: types of results do not depend on it.
      Tensor one = Tensor::Allocate(type->type, type->shape());
      std::memset(one.data(), 0, static_cast<size_t>(one.size_bytes()));
      inputs.push_back(graph.AddConstant("", std::move(one)));
    } else {
      inputs.push_back(graph.AddInput("", type->type, ToShape(type->shape())));
    }
  }
  KILN_RETURN_IF_ERROR(graph
                           .AddNode(*signature.op, std::move(inputs), signature.attrs, "",
                                    std::vector<std::string>(signature.num_results))
                           .status());
  return graph;
}

}  // namespace

bool CallSignature::HasBeenGiven(std::span<const Attribute> attributes) const {
  for (size_t k = 0; k < given.size(); ++k)
    if (!Same(attributes[k], given[k])) return false;
  return true;
}

std::string CallSignature::ToString() const {
  std::string text = op->name;
  std::vector<std::string> parts;
  for (const auto& [name, value] : attrs) {
    std::string part = absl::StrCat(name, " = ");
    if (const auto* i = std::get_if<int64_t>(&value)) absl::StrAppend(&part, *i);
    if (const auto* d = std::get_if<double>(&value)) absl::StrAppend(&part, tracing::ToString(*d));
    if (const auto* s = std::get_if<std::string>(&value)) absl::StrAppend(&part, "\"", *s, "\"");
    if (const auto* t = std::get_if<DType>(&value)) absl::StrAppend(&part, Name(*t));
    if (const auto* v = std::get_if<std::vector<int64_t>>(&value))
      absl::StrAppend(&part, kiln::ToString(ToShape(*v)));
    parts.push_back(std::move(part));
  }
  for (size_t i = 0; i < parts.size(); ++i) absl::StrAppend(&text, i == 0 ? " {" : ", ", parts[i]);
  if (!parts.empty()) text += "}";
  return text;
}

absl::StatusOr<const CallSignature*> CallTable::GetOrAdd(const OpDef& op,
                                                         std::span<const Attribute> attributes,
                                                         size_t num_results,
                                                         const CallSignature* likely) {
  const CallSignature*& recent = RecentOf(op);
  const CallSignature* const known[] = {recent, likely};
  for (const CallSignature* const signature : known)
    if (signature != nullptr && signature->Is(op, attributes, num_results)) return signature;
  key_.clear();
  key_.push_back(std::bit_cast<uintptr_t>(&op));
  key_.push_back(num_results);
  for (const Attribute& attribute : attributes) {
    if (attribute.kind == Attribute::Kind::kType && !IsDType(attribute.type)) {
      return Invalid("op \"", op.name, "\", attribute \"", attribute.name, "\": is ",
                     static_cast<int>(attribute.type), ", expected an element type (kiln::DType)");
    }
    AppendAttribute(key_, attribute);
  }
  if (const auto found = by_words_.find(WordsView(key_)); found != by_words_.end())
    return recent = found->second;
  if (free_.empty()) {
    last_.emplace_back();  // in this order, so that an id has all that it stands for
    signatures_.emplace_back();
    free_.push_back(static_cast<uint32_t>(signatures_.size() - 1));
  }
  CallSignature& signature = signatures_[free_.back()] = {};
  signature.op = &op;
  signature.id = free_.back();
  signature.num_results = num_results;
  SetAttributes(signature, attributes);
  by_words_.emplace(key_, &signature);
  free_.pop_back();
  return recent = &signature;
}

void CallTable::RetainOnly(const std::vector<const CallSignature*>& signatures) {
  std::vector<bool> kept(signatures_.size());
  for (const CallSignature* const signature : signatures) kept[signature->id] = true;
  std::erase_if(by_words_, [&](const auto& entry) { return !kept[entry.second->id]; });
  types_.clear();
  recent_.fill(nullptr);
  free_.clear();
  for (size_t id = 0; id < kept.size(); ++id) {
    last_[id] = {};
    if (kept[id]) continue;
    signatures_[id] = {};
    free_.push_back(static_cast<uint32_t>(id));
  }
  most_ = std::max(kMost, 2 * by_words_.size());
}

const CallSignature*& CallTable::RecentOf(const OpDef& op) {
  return recent_[static_cast<size_t>(Mix(0, std::bit_cast<uintptr_t>(&op)) % recent_.size())];
}

bool CallTable::IsLast(const Last& last, std::span<const ValueType* const> operands) const {
  if (last.results == nullptr || last.operands.size() != operands.size()) return false;
  for (size_t k = 0; k < operands.size(); ++k)
    if (operands[k] == nullptr || !(last.operands[k] == *operands[k])) return false;
  return true;
}

absl::StatusOr<std::span<const ValueType>> CallTable::Infer(
    const CallSignature& signature, std::span<const ValueType* const> operands) {
  Last& last = last_[signature.id];
  if (IsLast(last, operands)) return std::span<const ValueType>(*last.results);
  KILN_ASSIGN_OR_RETURN(const std::vector<ValueType>* const results,
                        InferAnew(signature, operands));
  last.results = nullptr;
  last.operands.clear();
  for (const ValueType* const type : operands)
    if (type != nullptr) last.operands.push_back(*type);
  last.results = last.operands.size() == operands.size() ? results : nullptr;
  return std::span<const ValueType>(*results);
}

absl::StatusOr<const std::vector<ValueType>*> CallTable::InferAnew(
    const CallSignature& signature, std::span<const ValueType* const> operands) {
  key_.clear();
  key_.push_back(signature.id);
  for (const ValueType* const type : operands) {
    if (type == nullptr)
      key_.push_back(0);
    else
      AppendType(key_, *type);
  }
  if (const auto found = types_.find(WordsView(key_)); found != types_.end()) return &found->second;
  KILN_ASSIGN_OR_RETURN(const Graph graph, GraphOf(signature, operands));
  std::vector<ValueType> types;
  for (const ValueId id : graph.nodes().back().outputs) {
    const Value& value = graph.value(id);
    const std::optional<std::vector<int64_t>> shape = Constant(value.shape);
    const std::optional<ValueType> type = shape ? ValueType::Of(value.type, *shape) : std::nullopt;
    if (!type) {
      return Invalid("op \"", signature.op->name, "\": the result has the shape ",
                     kiln::ToString(value.shape), ", expected numbers, at most ", kMaxRank,
                     "; an operator whose extents depend on data is called outside of arrays");
    }
    types.push_back(*type);
  }
  if (types.size() != signature.num_results) {
    return Invalid("op \"", signature.op->name, "\": gives ", types.size(), " results, asked for ",
                   signature.num_results);
  }
  return &types_.emplace(key_, std::move(types)).first->second;
}

}  // namespace kiln::tracing
