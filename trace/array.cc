// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "base/tensor.h"
#include "graph/tensors.h"
#include "kiln/trace.h"
#include "trace/extents.h"
#include "trace/failure.h"
#include "trace/function.h"
#include "trace/node.h"
#include "trace/number.h"
#include "trace/recorder.h"
#include "trace/slice_of.h"
#include "trace/thread_state.h"

namespace kiln {

Ints::Ints(std::initializer_list<int64_t> values) {
  std::copy(values.begin(), values.end(), Resize(values.size()));
}
Ints::Ints(const std::vector<int64_t>& values) {
  std::copy(values.begin(), values.end(), Resize(values.size()));
}
Ints::Ints(std::initializer_list<ArrayDim> values) { Assign(values.begin(), values.size()); }
Ints::Ints(const ArrayShape& values) { Assign(values.data(), values.size()); }
int64_t* Ints::Resize(size_t size) {
  given_ = true;
  size_ = size;
  if (size <= few_.size()) return few_.data();
  many_.resize(size);
  return many_.data();
}
void Ints::Assign(const ArrayDim* values, size_t size) {
  std::transform(values, values + size, Resize(size),
                 [](const ArrayDim& value) { return value.number(); });
  if (std::none_of(values, values + size, [](const ArrayDim& value) { return value.known(); }))
    return;
  for (size_t i = 0; i < size; ++i) dims_.push_back(values[i].dim());
}

Array::Array(const Array& other) noexcept : node_(tracing::Share(other.node_)) {}
Array& Array::operator=(const Array& other) noexcept {
  tracing::Node* const node = tracing::Share(other.node_);
  tracing::Release(std::exchange(node_, node));
  return *this;
}
Array& Array::operator=(Array&& other) noexcept {
  tracing::Node* const node = std::exchange(other.node_, nullptr);
  tracing::Release(std::exchange(node_, node));
  return *this;
}
Array::~Array() { tracing::Release(node_); }

namespace {

absl::Status CheckType(DType type) {
  if (tracing::IsDType(type)) return absl::OkStatus();
  return Invalid("array: its type is ", static_cast<int>(type),
                 ", expected an element type (kiln::DType)");
}

}  // namespace

Array Array::of(Tensor tensor) {
  const std::optional<tracing::ValueType> type =
      tracing::ValueType::Of(tensor.dtype(), tensor.shape());
  if (!type) {
    return Array(tracing::NewErrorNode(Invalid("array: the tensor has ", tensor.rank(),
                                               " axes, expected at most ", tracing::kMaxRank)));
  }
  const int64_t bytes = CheckedBytes(tensor.dtype(), tensor.shape());
  if (bytes < 0 || (bytes > 0 && tensor.data() == nullptr)) {
    return Array(
        tracing::NewErrorNode(Invalid("array ", type->ToString(), ": ",
                                      bytes < 0 ? "a shape of no tensor; give extents from 0 on"
                                                : "no memory; give a tensor with data")));
  }
  if (tensor.strides().size() != tensor.shape().size()) {
    return Array(tracing::NewErrorNode(Invalid("array ", type->ToString(), ": the tensor has ",
                                               tensor.strides().size(), " strides, expected ",
                                               tensor.shape().size(), ", one for each axis")));
  }
  const absl::StatusOr<Array> made = CatchExceptions("array", [&]() -> absl::StatusOr<Array> {
    Array array(tracing::NewNode());
    array.node_->type = *type;
    array.node_->SetTensor(tensor);
    return array;
  });
  return made.ok() ? *made : Array(tracing::NewErrorNode(made.status()));
}

Array Array::CopyOf(const void* data, DType type, const std::vector<int64_t>& shape) {
  const absl::StatusOr<Tensor> copy = CatchExceptions("array", [&]() -> absl::StatusOr<Tensor> {
    KILN_RETURN_IF_ERROR(CheckType(type));
    const int64_t bytes = CheckedBytes(type, shape);
    if (bytes < 0 || (bytes > 0 && data == nullptr)) {
      return Invalid("array ", Name(type), " ", ToString(ToShape(shape)), ": ",
                     bytes < 0 ? "a shape of no tensor; give extents from 0 on"
                               : "no memory; give a pointer to elements");
    }
    Tensor made = Tensor::Allocate(type, shape);
    if (bytes > 0) std::memcpy(made.data(), data, static_cast<size_t>(bytes));
    return made;
  });
  return copy.ok() ? of(*copy) : Array(tracing::NewErrorNode(copy.status()));
}

Array Array::full(const std::vector<int64_t>& shape, double value, DType type) {
  const absl::StatusOr<Tensor> made = CatchExceptions("array", [&]() -> absl::StatusOr<Tensor> {
    KILN_RETURN_IF_ERROR(CheckType(type));
    if (CheckedBytes(type, shape) < 0) {
      return Invalid("array ", Name(type), " ", ToString(ToShape(shape)),
                     ": a shape of no tensor; give extents from 0 on");
    }
    if (const Operand number(value); !tracing::OperandAccess::Bits(number, type)) {
      return Invalid("array ", Name(type), " ", ToString(ToShape(shape)), ": filled with ",
                     tracing::OperandAccess::ToString(number),
                     ", which its type has not; give another value or type");
    }
    return FilledTensor(type, shape, value);
  });
  return made.ok() ? of(*made) : Array(tracing::NewErrorNode(made.status()));
}

absl::Status Array::status() const {
  if (node_ != nullptr) return node_->failed() ? node_->error : absl::OkStatus();
  return CatchExceptions("array", [] {
    return absl::FailedPreconditionError("array: it is empty; give it elements (Array::from)");
  });
}

DType Array::dtype() const { return node_ != nullptr ? node_->type.type : DType::kF32; }
std::vector<int64_t> Array::extents() const {
  return node_ != nullptr ? node_->type.shape() : std::vector<int64_t>();
}
ArrayShape Array::shape() const {
  const tracing::ThreadState* const thread = tracing::ThreadState::Get();
  if (node_ != nullptr && thread != nullptr && thread->call != nullptr && thread->call->Owns(node_))
    return tracing::ShapeOf(node_->id, node_->type);
  const std::vector<int64_t> numbers = extents();
  return ArrayShape(numbers.begin(), numbers.end());
}
int Array::rank() const { return node_ != nullptr ? node_->type.rank : 0; }
int64_t Array::num_elements() const { return node_ != nullptr ? node_->type.num_elements() : 0; }

absl::Status Array::eval(Location where) const {
  KILN_RETURN_IF_ERROR(status());
  return CatchExceptions("array", [&]() -> absl::Status {
    tracing::ThreadState* const thread = tracing::ThreadState::Get();
    const tracing::Entry entry(thread);
    if (thread != nullptr && !entry.ok() && !node_->ready() && !node_->never_ready())
      return tracing::Entry::Refusal(thread);
    return tracing::Evaluate(node_, where);
  });
}

absl::StatusOr<Tensor> Array::tensor(Location where) const {
  tracing::ThreadState* const thread = tracing::ThreadState::Get();
  if (thread != nullptr && thread->call != nullptr && !thread->excluded()) thread->call->NoteRead();
  KILN_RETURN_IF_ERROR(eval(where));
  return CatchExceptions("array", [&]() -> absl::StatusOr<Tensor> { return node_->tensor; });
}

absl::StatusOr<Tensor> Array::ReadAs(DType type, bool one, Location where) const {
  KILN_RETURN_IF_ERROR(status());
  if (type != dtype()) {
    return Invalid("array ", node_->type.ToString(), ": read as ", Name(type), " (",
                   tracing::ToString(where), "); cast it, or read it as ", Name(dtype()));
  }
  if (one && num_elements() != 1) {
    return Invalid("array ", node_->type.ToString(), ": item() of ", num_elements(),
                   " elements, expected 1 (", tracing::ToString(where),
                   "); reduce it, or read it with to_vector()");
  }
  KILN_ASSIGN_OR_RETURN(const Tensor found, tensor(where));
  if (found.device() != Device())
    return Invalid("array ", node_->type.ToString(), ": it is on a GPU; copy tensor() from there");
  return CatchExceptions("array", [&]() -> absl::StatusOr<Tensor> { return Dense(found); });
}

Array& Array::operator+=(const Operand& b) { return *this = *this + b; }
Array& Array::operator-=(const Operand& b) { return *this = *this - b; }
Array& Array::operator*=(const Operand& b) { return *this = *this * b; }
Array& Array::operator/=(const Operand& b) { return *this = *this / b; }

Array operator-(const Operand& a) {
  static const OpDef* const op = tracing::FindOperator("neg");
  return tracing::Apply(op, "neg", {&a}, {}, a.where());
}

Array Array::operator()(std::initializer_list<Index> indices, Location where) const {
  const absl::StatusOr<Array> sliced =
      CatchExceptions("array", [&]() -> absl::StatusOr<Array> { return Sliced(indices, where); });
  return sliced.ok() ? *sliced : Array(tracing::NewErrorNode(sliced.status()));
}

Array Array::Sliced(std::initializer_list<Index> indices, Location where) const {
  if (const tracing::ThreadState* const thread = tracing::ThreadState::Get();
      thread != nullptr && (!thread->records() || thread->entered) && node_ != nullptr &&
      node_->ready()) {
    if (std::optional<Tensor> found = tracing::SliceOf(node_->tensor, indices))
      return of(*std::move(found));
  }
  static const OpDef* const slice = tracing::FindOperator("slice");
  static const OpDef* const squeeze = tracing::FindOperator("squeeze");
  ArrayShape starts, ends;
  std::vector<int64_t> steps, axes, dropped;
  for (const Index& index : indices) {
    const auto axis = static_cast<int64_t>(axes.size());
    const int64_t begin = index.range.begin.number();
    starts.push_back(index.range.begin);
    // The place before the end: -1 begins the last element, and one past it is no number.
    ends.push_back(index.drops && begin == -1 ? ArrayDim(INT64_MAX) : index.range.end);
    steps.push_back(index.range.step);
    axes.push_back(axis);
    if (index.drops) dropped.push_back(axis);
    const int64_t extent = axis < rank() ? node_->type.extents[static_cast<size_t>(axis)] : 0;
    if (index.drops && axis < rank() && (begin >= extent || begin < -extent)) {
      return Array(tracing::NewErrorNode(
          Invalid("array ", node_->type.ToString(), ", axis ", axis, ": index ", begin,
                  " is out of bounds for ", extent, " elements (", tracing::ToString(where), ")")));
    }
  }
  const Operand self(*this, where);
  const Array sliced = tracing::Apply(slice, "slice", {&self},
                                      {{"starts", Ints(starts)},
                                       {"ends", Ints(ends)},
                                       {"axes", Ints(axes)},
                                       {"steps", Ints(steps)}},
                                      where);
  if (dropped.empty()) return sliced;
  const Operand middle(sliced, where);
  return tracing::Apply(squeeze, "squeeze", {&middle}, {{"axes", Ints(dropped)}}, where);
}

namespace tracing {

const OpDef* FindOperator(const char* name) noexcept {
  try {
    return FindOp(name);
  } catch (const std::bad_alloc&) {
    return nullptr;  // Apply looks again
  }
}

void Apply(const OpDef* op, const char* name, const Operand* const* operands, size_t count,
           const Attribute* attributes, size_t num_attributes, Location where, Array* results,
           size_t num_results) noexcept {
  absl::Status status;
  ThreadState* thread = nullptr;
  Recorder* recorder = nullptr;
  try {
    thread = ThreadState::Get();
    const Entry entry(thread);
    if (op == nullptr) op = FindOp(name);
    if (op == nullptr) {
      status = absl::UnimplementedError(
          absl::StrCat("op \"", name, "\": this library has none; use headers of its version"));
    } else if (!entry.ok()) {
      status = Annotate(Entry::Refusal(thread), absl::StrCat("op \"", name, "\""));
    } else {
      recorder = thread->recorder;
      status = recorder->Apply({*op, {operands, count}, {attributes, num_attributes}, where},
                               {results, num_results});
      if (!status.ok()) recorder->Failed(status, /*ends=*/false);
    }
  } catch (...) {
    status = StatusOfException(name);
    if (recorder != nullptr) {
      const Entry entry(thread);
      recorder->Failed(status, /*ends=*/true);
    }
  }
  if (status.ok()) return;
  for (size_t k = 0; k < num_results; ++k) results[k] = Array(NewErrorNode(status));
}

Array Apply(const OpDef* op, const char* name, std::initializer_list<const Operand*> operands,
            std::initializer_list<Attribute> attributes, Location where) noexcept {
  Array result;
  Apply(op, name, operands.begin(), operands.size(), attributes.begin(), attributes.size(), where,
        &result, 1);
  return result;
}

}  // namespace tracing
}  // namespace kiln
