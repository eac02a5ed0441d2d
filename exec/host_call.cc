// SPDX-License-Identifier: Apache-2.0
#include "exec/host_call.h"

#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "exec/library/shapes.h"
#include "exec/support/compute_device.h"

namespace kiln {
namespace {

constexpr size_t kAlignment = 64;  // correctness: of copies, as of arenas

// The bytes of an operand from its first element in memory to its last; `before` of them lie ahead
// of the element that its address names.
struct Bytes {
  size_t all = 0, before = 0;
  bool dense = true;
};

Bytes BytesOf(const library::Operand& operand) {
  const auto item = static_cast<int64_t>(SizeOf(operand.type));
  int64_t low = 0, high = 0;
  for (size_t axis = 0; axis < operand.shape.size(); ++axis) {
    if (operand.shape[axis] == 0) return {};
    const int64_t last = (operand.shape[axis] - 1) * operand.strides[axis];
    (last < 0 ? low : high) += last;
  }
  return {static_cast<size_t>((high - low + 1) * item), static_cast<size_t>(-low * item),
          library::IsDense(operand)};
}

class HostCall final : public library::Primitive {
 public:
  HostCall(std::unique_ptr<library::Primitive> primitive, const library::Request& request)
      : primitive_(std::move(primitive)) {
    for (const library::Operand& input : request.inputs)
      inputs_.push_back(input.present ? BytesOf(input) : Bytes());
    for (const library::Operand& output : request.outputs) outputs_.push_back(BytesOf(output));
  }

  int64_t scratch_bytes() const override { return primitive_->scratch_bytes(); }
  int64_t packed_bytes() const override { return primitive_->packed_bytes(); }
  bool ReadsInput(size_t k) const override { return primitive_->ReadsInput(k); }
  std::string description() const override { return primitive_->description(); }
  std::unique_ptr<library::CallState> NewState() const override { return primitive_->NewState(); }

  absl::Status Run(const library::Arguments& arguments) const override {
    auto& queue = *static_cast<DeviceQueue*>(arguments.context->stream);
    std::vector<std::vector<uint8_t>> memory;
    std::vector<void*> inputs, outputs;
    for (size_t k = 0; k < inputs_.size(); ++k) {
      const bool read = arguments.inputs[k] != nullptr && primitive_->ReadsInput(k);
      KILN_RETURN_IF_ERROR(
          Add(inputs_[k], arguments.inputs[k], read ? &queue : nullptr, memory, inputs));
    }
    for (size_t k = 0; k < outputs_.size(); ++k) {
      // What lies between the elements stays as it is.
      KILN_RETURN_IF_ERROR(Add(outputs_[k], arguments.outputs[k],
                               outputs_[k].dense ? nullptr : &queue, memory, outputs));
    }
    KILN_RETURN_IF_ERROR(queue.Wait());
    library::Arguments copies = arguments;
    copies.inputs = inputs.data();
    copies.outputs = outputs.data();
    KILN_RETURN_IF_ERROR(primitive_->Run(copies));
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const size_t before = outputs_[k].before;
      KILN_RETURN_IF_ERROR(queue.CopyIn(static_cast<uint8_t*>(arguments.outputs[k]) - before,
                                        static_cast<uint8_t*>(outputs[k]) - before,
                                        outputs_[k].all));
    }
    return queue.Wait();  // the copies go
  }

 private:
  // Memory for an operand, with what lies at `from` if there is a queue; its address to `to`.
  static absl::Status Add(const Bytes& bytes, const void* from, DeviceQueue* queue,
                          std::vector<std::vector<uint8_t>>& memory, std::vector<void*>& to) {
    if (from == nullptr) {
      to.push_back(nullptr);
      return absl::OkStatus();
    }
    std::vector<uint8_t>& copy = memory.emplace_back(bytes.all + kAlignment);
    void* at = copy.data();
    size_t room = copy.size();
    at = std::align(kAlignment, bytes.all, at, room);
    to.push_back(static_cast<uint8_t*>(at) + bytes.before);
    if (queue == nullptr) return absl::OkStatus();
    return queue->CopyOut(at, static_cast<const uint8_t*>(from) - bytes.before, bytes.all);
  }

  const std::unique_ptr<library::Primitive> primitive_;
  std::vector<Bytes> inputs_, outputs_;
};

}  // namespace

std::unique_ptr<library::Primitive> OnHostCopies(std::unique_ptr<library::Primitive> primitive,
                                                 const library::Request& request) {
  return std::make_unique<HostCall>(std::move(primitive), request);
}

}  // namespace kiln
