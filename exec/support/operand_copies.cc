// SPDX-License-Identifier: Apache-2.0
#include "exec/support/operand_copies.h"

#include <algorithm>

#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr size_t kVectorBytes = 64;  // correctness: as many as any device's vectors have, or more

OperandCopies::Operand SpanOf(const BufferArg& buffer, bool output) {
  const int64_t item = buffer.type_bits / 8;
  int64_t low = 0, high = 0;
  int64_t elements = 1;
  for (int32_t axis = 0; axis < buffer.dimensions; ++axis) {
    const BufferDim& dim = buffer.dim[axis];
    elements *= dim.extent;
    const int64_t last = int64_t{dim.extent - 1} * dim.stride;
    (last < 0 ? low : high) += last;
  }
  if (elements == 0) return {buffer.host, 0, 0, output};
  const auto before = static_cast<size_t>(-low * item);
  return {buffer.host - before, static_cast<size_t>((high - low + 1) * item), before, output,
          elements < high - low + 1};
}

}  // namespace

OperandCopies::OperandCopies(void** argv, const ArgumentCounts& counts) {
  const size_t all = 1 + counts.inputs + counts.dims + counts.params + counts.outputs;
  argv_.assign(argv, argv + all);
  buffers_.reserve(counts.inputs + counts.outputs);
  const auto add = [&](size_t first, size_t count, bool output) {
    for (size_t i = first; i < first + count; ++i) {
      const auto& buffer = *static_cast<const BufferArg*>(argv[i]);
      operands_.push_back(SpanOf(buffer, output));
      buffers_.push_back(buffer);
      argv_[i] = &buffers_.back();
    }
  };
  add(1, counts.inputs, false);
  add(all - counts.outputs, counts.outputs, true);
}

void OperandCopies::Place(std::span<void* const> copies) {
  for (size_t i = 0; i < operands_.size(); ++i)
    buffers_[i].host = static_cast<uint8_t*>(copies[i]) + operands_[i].before;
}

absl::StatusOr<int> RunWithCopiesOnDevice(KernelFn code, void** argv, const ArgumentCounts& counts,
                                          ComputeDevice& device, DeviceQueue& queue) {
  OperandCopies copies(argv, counts);
  const std::span<const OperandCopies::Operand> operands = copies.operands();
  std::vector<std::shared_ptr<void>> memory(operands.size());
  std::vector<void*> places;
  for (size_t i = 0; i < operands.size(); ++i) {
    const OperandCopies::Operand& operand = operands[i];
    // An output in the place of an input stays there.
    size_t k = 0;
    while (k < i && (operands[k].data != operand.data || operands[k].bytes != operand.bytes)) ++k;
    if (k < i) {
      places.push_back(places[k]);
      continue;
    }
    // The copy is as far from a vector's beginning as the original.
    const size_t shift = reinterpret_cast<uintptr_t>(operand.data) % kVectorBytes;
    std::vector<uint8_t> bytes(shift + operand.bytes);
    std::copy_n(operand.data, operand.bytes, bytes.data() + shift);
    KILN_ASSIGN_OR_RETURN(memory[i],
                          device.Upload(bytes.data(), static_cast<int64_t>(bytes.size())));
    places.push_back(static_cast<uint8_t*>(memory[i].get()) + shift);
  }
  copies.Place(places);
  LaunchContext context = **static_cast<LaunchContext**>(argv[0]);
  context.stream = &queue;
  LaunchContext* self = &context;
  copies.argv()[0] = &self;
  const int result = code(copies.argv());
  const auto copy_back = [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(queue.Wait());
    for (size_t i = 0; i < operands.size() && result == 0; ++i) {
      if (operands[i].output && operands[i].bytes > 0)
        KILN_RETURN_IF_ERROR(queue.CopyOut(operands[i].data, places[i], operands[i].bytes));
    }
    return queue.WaitForCopies();
  };
  const absl::Status copied = copy_back();
  if (copied.ok()) return result;
  queue.Abandon();
  return copied;
}

}  // namespace kiln
