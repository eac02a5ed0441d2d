// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/row.h"

#include <cstring>
#include <optional>
#include <utility>

#include "base/status_macros.h"

namespace kiln::bench {
namespace {

// Numbers in [0.1, 1.1), integers below 100: nothing a kernel's time depends on.
void Fill(const Tensor& tensor) {
  uint32_t state = 12345;
  const auto next = [&state] { return (state = state * 1664525 + 1013904223) >> 8; };
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    switch (tensor.dtype()) {
      case DType::kF32:
        static_cast<float*>(tensor.data())[i] = static_cast<float>(next()) * 0x1p-24f + 0.1f;
        break;
      case DType::kI64:
        static_cast<int64_t*>(tensor.data())[i] = next() % 100;
        break;
      default:
        std::memset(static_cast<uint8_t*>(tensor.data()) + i * SizeOf(tensor.dtype()),
                    static_cast<int>(next() % 100), SizeOf(tensor.dtype()));
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Row>> MakeRow(Model model, const std::string& name) {
  auto row = std::make_unique<Row>();
  row->name = name;
  row->model = std::move(model);
  row->context = std::make_unique<Context>(row->model.NewContext());
  const auto allocate = [&row](const PortInfo& port) -> absl::StatusOr<Tensor> {
    std::vector<int64_t> shape;
    for (const Dim& dim : port.shape) {
      const std::optional<int64_t> extent = dim.constant();
      if (!extent) return absl::InvalidArgumentError(port.name + ": an extent is no number");
      shape.push_back(*extent);
    }
    row->operands.push_back(Tensor::Allocate(port.type, shape));
    Fill(row->operands.back());
    return row->operands.back();
  };
  for (const PortInfo& port : row->model.inputs()) {
    KILN_ASSIGN_OR_RETURN(const Tensor tensor, allocate(port));
    row->read += tensor.size_bytes();
    KILN_RETURN_IF_ERROR(row->context->Bind(port.name, tensor));
  }
  for (const PortInfo& port : row->model.outputs()) {
    KILN_ASSIGN_OR_RETURN(const Tensor tensor, allocate(port));
    row->written += tensor.size_bytes();
    KILN_RETURN_IF_ERROR(row->context->BindOutput(port.name, tensor));
  }
  KILN_RETURN_IF_ERROR(row->context->Run());
  return row;
}

}  // namespace kiln::bench
