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

// Whether a number decides what is computed, not only with what: an exponent.
bool Decides(const Request& request, size_t k) {
  static const OpDef* const pow = FindOp("pow");
  return &request.op == pow && k == 1 && OperandAccess::IsSmall(*request.operands[k]);
}

bool IsMadeOfExtents(const Request& request) {
  return std::any_of(request.attributes.begin(), request.attributes.end(),
                     [](const Attribute& attribute) { return attribute.dims != nullptr; });
}

// Whether a number is what a call pads with: an attribute has it then, since an operator that pads
// has to know it.
bool PadsWithNumber(const Request& request) {
  static const OpDef* const pad = FindOp("pad");
  if (&request.op != pad || request.operands.size() < 3) return false;
  const Operand& fill = *request.operands[2];
  return !OperandAccess::IsArray(fill) && !OperandAccess::IsAbsent(fill) &&
         OperandAccess::IsArray(*request.operands[0]) &&
         OperandAccess::ArrayOf(*request.operands[0]).node() != nullptr;
}

absl::Status At(const absl::Status& status, Location where) {
  return status.ok() ? status : Annotate(status, ToString(where));
}

absl::Status NoArray(const Request& request, size_t k) {
  return Invalid("op \"", request.op.name, "\", operand ", k,
                 ": it is an empty kiln::Array(); give one with elements (",
                 ToString(request.where), ")");
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
    KILN_RETURN_IF_ERROR(CheckOperand(node, request.where));
    operands_.types[k] = &node->type;
    if (signature.Counts(k)) continue;
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
    operands_.numbers[k] = ValueType(signature.Counts(k)          ? DType::kI64
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

absl::Status Recorder::ApplyPad(const Request& request, std::span<Array> results) {
  const DType type = OperandAccess::ArrayOf(*request.operands[0]).node()->type.type;
  const absl::StatusOr<double> fill = OperandAccess::AttributeBeside(*request.operands[2], type);
  if (!fill.ok()) return At(fill.status(), request.where);
  std::vector<Attribute> attributes(request.attributes.begin(), request.attributes.end());
  std::erase_if(attributes,
                [](const Attribute& a) { return a.name == absl::string_view("value"); });
  attributes.emplace_back("value", *fill);
  const Operand absent;
  std::vector<const Operand*> operands(request.operands.begin(), request.operands.end());
  operands[2] = &absent;
  return Apply({request.op, operands, attributes, request.where}, results);
}

absl::Status Recorder::Apply(const Request& request, std::span<Array> results) {
  if (PadsWithNumber(request)) return ApplyPad(request, results);
  KILN_RETURN_IF_ERROR(status_);
  Tidy();
  KILN_ASSIGN_OR_RETURN(
      const CallSignature* const signature,
      table_.Find(request.op, request.attributes, results.size(), Likely(request.attributes)));
  KILN_RETURN_IF_ERROR(FindTypes(request, *signature));
  std::span<const ValueType> result_types;
  KILN_RETURN_IF_ERROR(At(CheckCall(*signature, operands_.types, &result_types), request.where));
  const CallSignature* open = signature;
  if (IsMadeOfExtents(request)) {
    KILN_ASSIGN_OR_RETURN(open, Open(request, signature));
  }
  log_.Begin(Operation::Kind::kCall, signature, open, request.operands.size(), request.where);
  for (size_t k = 0; k < request.operands.size(); ++k) {
    const Operand& operand = *request.operands[k];
    if (OperandAccess::IsAbsent(operand)) {
      log_.AddAbsent();
    } else if (OperandAccess::IsArray(operand)) {
      log_.AddNode(OperandAccess::ArrayOf(operand).node());
    } else {
      log_.AddNumber(Decides(request, k) ? LogValue::Kind::kConstant : LogValue::Kind::kNumber,
                     operands_.types[k]->type, operands_.bits[k]);
    }
  }
  return AddResults(result_types, results);
}

absl::Status Recorder::AddResults(std::span<const ValueType> types, std::span<Array> results) {
  KILN_RETURN_IF_ERROR(Compare());
  for (size_t k = 0; k < results.size(); ++k) {
    log_.AddResult(replayed_ != nullptr ? replayed_->values[log_.values.size()].type : types[k]);
    results[k] = Array(log_.values.back().node);
  }
  return Written();
}

absl::Status Recorder::Write(const OpDef& op, std::span<const Attribute> attributes,
                             std::span<const TypedOperand> operands, Location where,
                             std::span<Array> results) {
  using Kind = TypedOperand::Kind;
  KILN_RETURN_IF_ERROR(status_);
  Tidy();
  KILN_ASSIGN_OR_RETURN(const CallSignature* const signature,
                        table_.Find(op, attributes, results.size(), Likely(attributes)));
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

absl::Status LazyRecorder::CheckCall(const CallSignature& signature,
                                     std::span<const ValueType* const> types,
                                     std::span<const ValueType>* results) {
  KILN_ASSIGN_OR_RETURN(*results, table_.Infer(signature, types));
  return absl::OkStatus();
}

absl::Status LazyRecorder::Written() {
  ++stats_.operations;
  if (!loop_.Add(log_)) return absl::OkStatus();
  ++stats_.growth_cuts;
  return Flush();
}

absl::Status LazyRecorder::Read(Node* node, Location) {
  if (node->ready()) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(Flush());
  return node->failed() ? node->error : absl::OkStatus();
}

Program* LazyRecorder::Find() {
  // compile time and memory: structures that are kept, and those of them that have run once and
  // keep more than their graph.
  constexpr size_t kMost = 256, kAwake = 32;
  // Which values are wanted is part of the structure.
  for (const uint32_t id : live_) log_.words.push_back(id);
  log_.words.push_back(live_.size());
  if (const auto found = by_words_.find(WordsView(log_.words)); found != by_words_.end()) {
    structures_.splice(structures_.begin(), structures_, found->second);
    return structures_.front().program.get();
  }
  structures_.push_front({log_.words, std::make_unique<Program>(0, log_.operations.size(), live_)});
  by_words_.emplace(WordsView(structures_.front().words), structures_.begin());
  ++stats_.structures;
  if (structures_.size() > kAwake) std::next(structures_.begin(), kAwake)->program->Rest();
  if (structures_.size() > kMost) {
    by_words_.erase(WordsView(structures_.back().words));
    structures_.pop_back();
  }
  return structures_.front().program.get();
}

absl::Status LazyRecorder::RunAll() {
  live_.clear();
  log_.FindLive(live_);
  if (live_.empty()) return absl::OkStatus();
  Program* const program = Find();
  KILN_RETURN_IF_ERROR(program->Run(log_, steps_, engine_, options_, /*timed=*/false));
  ++stats_.runs;
  if (program->runs() == 2) ++stats_.compiled;
  return absl::OkStatus();
}

absl::Status LazyRecorder::Flush() {
  const absl::Status status = CatchExceptions("running lazy arrays", [&] { return RunAll(); });
  log_.Clear(status);
  loop_.Clear();
  return status;
}

absl::Status LazyRecorder::SetOptions(const CompileOptions& options) {
  KILN_RETURN_IF_ERROR(CheckOptions(options));
  const absl::Status status = Flush();
  Forget();
  options_ = options;
  return status;
}

void LazyRecorder::Tidy() {
  if (!table_.full()) return;
  (void)Flush();  // an error is that of its arrays
  Forget();
}

void LazyRecorder::Forget() {
  by_words_.clear();
  structures_.clear();
  steps_.Clear();
  table_.Keep({});
}

namespace {

thread_local ThreadState* thread_state = nullptr;
thread_local bool thread_ended = false;

struct OwnedState {
  ThreadState state;
  ~OwnedState() {
    thread_state = nullptr;
    thread_ended = true;
  }
};

}  // namespace

ThreadState* ThreadState::Get() {
  if (thread_state != nullptr || thread_ended) return thread_state;
  static thread_local OwnedState owned;
  return thread_state = &owned.state;
}

absl::Status Evaluate(Node* node, Location where) {
  ThreadState* const thread = ThreadState::Get();
  if (thread != nullptr) {
    // Before the value is looked at: a read is part of a trace.
    for (Recorder* r = thread->recorder; r != nullptr; r = r->around())
      if (r->Owns(node)) return r->Read(node, where);
    if (!node->ready() && !node->never_ready() && thread->lazy.Owns(node))
      return thread->lazy.Read(node, where);
  }
  if (node->never_ready()) return node->error;
  if (node->ready()) return absl::OkStatus();
  return MismatchStatus(TraceError::kThread,
                        absl::StrCat("array (", ToString(where),
                                     "): it has no value yet, and its operations belong to another "
                                     "thread, or to a trace that is left out here; call eval() "
                                     "where it was computed, before it is used elsewhere"));
}

}  // namespace kiln::tracing
