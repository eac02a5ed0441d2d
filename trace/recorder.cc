// SPDX-License-Identifier: Apache-2.0
#include "trace/recorder.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "compiler/check_options.h"
#include "trace/failure.h"
#include "trace/number.h"

namespace kiln::tracing {
namespace {

// Whether a number decides what is computed, not only with what: an exponent, what pad fills with.
bool IsStaticOperand(const Request& request, size_t k) {
  static const OpDef* const pow = FindOp("pow");
  return static_cast<int64_t>(k) == request.op.constant_input ||
         (&request.op == pow && k == 1 && OperandAccess::IsSmall(*request.operands[k]));
}

bool IsMadeOfExtents(const Request& request) {
  return std::any_of(request.attributes.begin(), request.attributes.end(),
                     [](const Attribute& attribute) { return attribute.dims != nullptr; });
}

absl::Status At(const absl::Status& status, Location where) {
  return status.ok() ? status : Annotate(status, ToString(where));
}

absl::Status NoArray(const Request& request, size_t k) {
  return Invalid("op \"", request.op.name, "\", operand ", k,
                 ": it is an empty kiln::Array(); give one with elements (",
                 ToString(request.where), ")");
}

absl::Status NoConstant(const Request& request, size_t k) {
  return absl::UnimplementedError(
      absl::StrCat(ToString(request.where), ": op \"", request.op.name, "\", operand ", k,
                   ": it is an array, whose element is known only when it runs; give a number"));
}

}  // namespace

absl::Status Recorder::CheckOperand(Node* node, Location where) {
  const Node::State state = node->state.load(std::memory_order_acquire);
  if (state == Node::State::kError || state == Node::State::kTypeOnly) return node->error;
  if (state != Node::State::kPending || Owns(node) || !needs_values()) return absl::OkStatus();
  return Evaluate(node, where);
}

absl::Status Recorder::FindTypes(const Request& request, const CallSignature& signature) {
  operands_.types.resize(request.operands.size());
  std::optional<DType> beside, any;
  bool numbers = false;
  for (size_t k = 0; k < request.operands.size(); ++k) {
    const Operand& operand = *request.operands[k];
    if (!OperandAccess::IsArray(operand)) {
      operands_.types[k] = nullptr;
      numbers = numbers || !OperandAccess::IsAbsent(operand);
      continue;
    }
    Node* const node = OperandAccess::ArrayOf(operand).node();
    if (node == nullptr) return NoArray(request, k);
    if (static_cast<int64_t>(k) == request.op.constant_input) return NoConstant(request, k);
    KILN_RETURN_IF_ERROR(CheckOperand(node, request.where));
    operands_.types[k] = &node->type;
    if (signature.IsIndex(k)) continue;
    if (!any) any = node->type.type;
    if (!beside && node->type.type != DType::kBool) beside = node->type.type;
  }
  if (!numbers) return absl::OkStatus();
  operands_.numbers.resize(request.operands.size());
  operands_.bits.resize(request.operands.size());
  for (size_t k = 0; k < request.operands.size(); ++k) {
    const Operand& operand = *request.operands[k];
    if (OperandAccess::IsArray(operand) || OperandAccess::IsAbsent(operand)) continue;
    const DType own = OperandAccess::OwnType(operand);
    operands_.numbers[k] = ValueType(signature.IsIndex(k)         ? DType::kI64
                                     : beside                     ? *beside
                                     : any && own == DType::kBool ? *any
                                                                  : own);
    operands_.types[k] = &operands_.numbers[k];
    const absl::StatusOr<uint64_t> bits =
        OperandAccess::BitsBeside(operand, operands_.numbers[k].type);
    if (!bits.ok()) return At(bits.status(), request.where);
    operands_.bits[k] = *bits;
  }
  return absl::OkStatus();
}

const CallSignature* Recorder::Likely(std::span<const Attribute> attributes) const {
  const size_t at = log_.operations.size();
  if (attributes.empty() || replayed_ == nullptr || at >= replayed_->operations.size())
    return nullptr;
  return replayed_->operations[at].signature;
}

absl::Status Recorder::Apply(const Request& request, std::span<Array> results) {
  KILN_RETURN_IF_ERROR(status_);
  if (table_.full()) Tidy();
  KILN_ASSIGN_OR_RETURN(
      const CallSignature* const signature,
      table_.GetOrAdd(request.op, request.attributes, results.size(), Likely(request.attributes)));
  KILN_RETURN_IF_ERROR(FindTypes(request, *signature));
  std::span<const ValueType> result_types;
  KILN_RETURN_IF_ERROR(At(CheckCall(*signature, operands_.types, &result_types), request.where));
  const CallSignature* symbolic = signature;
  if (IsMadeOfExtents(request)) {
    KILN_ASSIGN_OR_RETURN(symbolic, WithSymbolicExtents(request, signature));
  }
  log_.Begin(Operation::Kind::kCall, signature, symbolic, request.operands.size(), request.where);
  for (size_t k = 0; k < request.operands.size(); ++k) {
    const Operand& operand = *request.operands[k];
    if (OperandAccess::IsAbsent(operand)) {
      log_.AddAbsent();
    } else if (OperandAccess::IsArray(operand)) {
      log_.AddNode(OperandAccess::ArrayOf(operand).node());
    } else {
      log_.AddNumber(
          IsStaticOperand(request, k) ? LogValue::Kind::kConstant : LogValue::Kind::kNumber,
          operands_.types[k]->type, operands_.bits[k]);
    }
  }
  return AddResults(result_types, results);
}

absl::Status Recorder::AddResults(std::span<const ValueType> types, std::span<Array> results) {
  if (replayed_ != nullptr) KILN_RETURN_IF_ERROR(Compare());
  for (size_t k = 0; k < results.size(); ++k) {
    log_.AddResult(replayed_ != nullptr ? replayed_->values[log_.values.size()].type : types[k]);
    results[k] = Array(log_.values.back().node);
  }
  return Recorded();
}

absl::Status Recorder::Write(const OpDef& op, std::span<const Attribute> attributes,
                             std::span<const TypedOperand> operands, Location where,
                             std::span<Array> results) {
  using Kind = TypedOperand::Kind;
  KILN_RETURN_IF_ERROR(status_);
  if (table_.full()) Tidy();
  KILN_ASSIGN_OR_RETURN(const CallSignature* const signature,
                        table_.GetOrAdd(op, attributes, results.size(), Likely(attributes)));
  operands_.types.assign(operands.size(), nullptr);
  for (size_t k = 0; k < operands.size(); ++k) {
    const TypedOperand& operand = operands[k];
    if (operand.kind == Kind::kArray) KILN_RETURN_IF_ERROR(CheckOperand(operand.node, where));
    if (operand.kind != Kind::kAbsent)
      operands_.types[k] = operand.kind == Kind::kArray ? &operand.node->type : &operand.type;
  }
  std::span<const ValueType> result_types;
  KILN_RETURN_IF_ERROR(At(CheckCall(*signature, operands_.types, &result_types), where));
  log_.Begin(Operation::Kind::kCall, signature, signature, operands.size(), where);
  for (const TypedOperand& operand : operands) {
    if (operand.kind == Kind::kAbsent)
      log_.AddAbsent();
    else if (operand.kind == Kind::kArray)
      log_.AddNode(operand.node);
    else if (operand.node != nullptr)
      log_.AddConstant(operand.node);
    else
      log_.AddNumber(
          operand.kind == Kind::kNumber ? LogValue::Kind::kNumber : LogValue::Kind::kConstant,
          operand.type.type, operand.bits);
  }
  return AddResults(result_types, results);
}

absl::Status Recorder::CheckCall(const CallSignature& signature,
                                 std::span<const ValueType* const> types,
                                 std::span<const ValueType>* results) {
  KILN_ASSIGN_OR_RETURN(*results, table_.Infer(signature, types));
  return absl::OkStatus();
}

}  // namespace kiln::tracing
