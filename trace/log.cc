// SPDX-License-Identifier: Apache-2.0
#include "trace/log.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "base/catch_exceptions.h"
#include "trace/failure.h"

namespace kiln::tracing {

size_t NodeTable::Place(const Node* node) const {
  size_t at = static_cast<size_t>(Mix(0, std::bit_cast<uintptr_t>(node))) & (slots_.size() - 1);
  while (slots_[at].node != nullptr && slots_[at].node != node) at = (at + 1) & (slots_.size() - 1);
  return at;
}

const uint32_t* NodeTable::Find(const Node* node) const {
  if (used_.empty()) return nullptr;
  const Slot& slot = slots_[Place(node)];
  return slot.node != nullptr ? &slot.id : nullptr;
}

void NodeTable::Insert(const Node* node, uint32_t id) {
  if (slots_.size() < 2 * (used_.size() + 1)) {
    const std::vector<Slot> old =
        std::exchange(slots_, std::vector<Slot>(slots_.empty() ? 32 : 2 * slots_.size()));
    used_.clear();
    for (const Slot& slot : old)
      if (slot.node != nullptr) Insert(slot.node, slot.id);
  }
  const size_t at = Place(node);
  used_.push_back(at);  // first: Clear finds all slots by it, whatever throws
  slots_[at] = {node, id};
}

void NodeTable::Clear() {
  for (const size_t at : used_) slots_[at] = {};
  used_.clear();
}

void AppendElements(Words& words, const Tensor& tensor) {
  const size_t bytes = static_cast<size_t>(tensor.num_elements()) * SizeOf(tensor.dtype());
  const size_t begin = words.size();
  words.resize(begin + (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t));
  if (bytes > 0) std::memcpy(&words[begin], tensor.data(), bytes);
}

Log::~Log() {
  if (!values.empty()) {
    Clear(CatchExceptions("array", [] {
      return MismatchStatus(
          TraceError::kThread,
          "array: it has no value, and what it was computed of is gone; read it before its thread, "
          "or the call of its trace, ends");
    }));
  }
  for (Node* const node : free_) Release(node);
}

void Log::AddAbsent() {
  operands.push_back(kAbsent);
  ++operations.back().num_operands;
  words.push_back(kAbsent);
}

void Log::AddNumber(LogValue::Kind kind, DType type, uint64_t bits) {
  const auto id = static_cast<uint32_t>(values.size());
  LogValue& value = values.emplace_back();
  value.kind = kind;
  value.origin = static_cast<uint32_t>(operations.size() - 1);
  value.type.type = type;
  value.bits = bits;
  operands.push_back(id);
  ++operations.back().num_operands;
  words.push_back(id | (static_cast<uint64_t>(kind) + 1) << 32 | static_cast<uint64_t>(type) << 40);
  if (exact || kind == LogValue::Kind::kConstant) words.push_back(bits);
}

void Log::AddNode(Node* node) {
  constexpr LogValue::Kind kind = LogValue::Kind::kCaptured;
  ++operations.back().num_operands;
  if (const uint32_t known = IdOf(node); known != kAbsent) {
    operands.push_back(known);
    words.push_back(known);
    return;
  }
  const auto id = static_cast<uint32_t>(values.size());
  LogValue& value = values.emplace_back();
  value.kind = kind;
  value.origin = static_cast<uint32_t>(operations.size() - 1);
  value.type = node->type;
  value.bits = DeviceBits(node->tensor.device());
  value.node = Share(node);
  externals_.Insert(node, id);
  operands.push_back(id);
  words.push_back(id | (static_cast<uint64_t>(kind) + 1) << 32 | value.bits << 40);
  AppendType(words, value.type);
  if (exact) words.push_back(std::bit_cast<uintptr_t>(node));
}

void Log::AddConstant(Node* node) {
  constexpr LogValue::Kind kind = LogValue::Kind::kConstant;
  const auto id = static_cast<uint32_t>(values.size());
  LogValue& value = values.emplace_back();
  value.kind = kind;
  value.origin = static_cast<uint32_t>(operations.size() - 1);
  value.type = node->type;
  value.node = Share(node);
  operands.push_back(id);
  ++operations.back().num_operands;
  words.push_back(id | (static_cast<uint64_t>(kind) + 1) << 32);
  AppendType(words, value.type);
  const size_t begin = words.size();
  AppendElements(words, node->tensor);
  value.bits = WordsHash()(WordsView(words).subspan(begin));
}

void Log::AddArgument(Node* node) {
  const auto id = static_cast<uint32_t>(values.size());
  LogValue& value = values.emplace_back();
  value.kind = LogValue::Kind::kArgument;
  value.origin = id;
  value.type = node->type;
  value.node = node;
  node->id = id;
  node->log.store(this, std::memory_order_relaxed);
  AppendType(words, value.type);
}

void Log::AddResult(const ValueType& type) {
  Operation& operation = operations.back();
  if (operation.first_result == kAbsent)
    operation.first_result = static_cast<uint32_t>(values.size());
  const auto id = static_cast<uint32_t>(values.size());
  LogValue& value = values.emplace_back();
  value.origin = static_cast<uint32_t>(operations.size() - 1);
  value.type = type;
  Node* node = nullptr;
  if (free_.empty()) {
    free_.reserve(values.capacity());  // so that ReleaseNode takes no memory
    node = NewNode();
  } else {
    node = free_.back();
    free_.pop_back();
  }
  node->type = type;
  node->id = id;
  node->refs.store(2, std::memory_order_relaxed);
  node->log.store(this, std::memory_order_relaxed);
  value.node = node;
}

void Log::FindLive(std::vector<uint32_t>& ids) const {
  for (uint32_t id = 0; id < values.size(); ++id) {
    const LogValue& value = values[id];
    if (value.kind == LogValue::Kind::kResult && value.node != nullptr &&
        value.node->state.load(std::memory_order_relaxed) == Node::State::kPending &&
        value.node->refs.load(std::memory_order_acquire) > 1)
      ids.push_back(id);
  }
}

void Log::ReleaseNode(LogValue& value, const absl::Status& why) {
  Node* const node = std::exchange(value.node, nullptr);
  if (node == nullptr) return;
  if (node->log.load(std::memory_order_relaxed) == this) {
    if (!why.ok() && node->refs.load(std::memory_order_acquire) > 1 &&
        node->state.load(std::memory_order_relaxed) == Node::State::kPending)
      node->SetError(why);
    node->log.store(nullptr, std::memory_order_relaxed);
  }
  const bool alone = node->refs.load(std::memory_order_acquire) == 1;  // and so it stays
  if (alone && node->state.load(std::memory_order_relaxed) == Node::State::kPending &&
      free_.size() < free_.capacity())
    free_.push_back(node);
  else
    Release(node);
}

void Log::ReleaseNodes() {
  for (LogValue& value : values) {
    const bool compared = exact && value.kind == LogValue::Kind::kCaptured;
    if (!compared && value.kind != LogValue::Kind::kConstant) ReleaseNode(value, absl::OkStatus());
  }
  externals_.Clear();
}

void Log::Clear(const absl::Status& why) {
  for (LogValue& value : values) ReleaseNode(value, why);
  externals_.Clear();
  operations.clear();
  operands.clear();
  values.clear();
  words.clear();
}

}  // namespace kiln::tracing
