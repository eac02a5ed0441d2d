// SPDX-License-Identifier: Apache-2.0
#include "tests/compiler/placed_tensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "exec/binding.h"
#include "exec/strided_copy.h"

namespace kiln {
namespace {

int64_t ItemBytes(const Tensor& tensor) { return static_cast<int64_t>(SizeOf(tensor.dtype())); }

Tensor Unaligned(const Tensor& tensor, Draw& draw) {
  const Tensor memory = Tensor::Allocate(DType::kU8, {tensor.size_bytes() + 8});
  char* const data = static_cast<char*>(memory.data()) + 1 + draw.Below(5);
  std::memcpy(data, tensor.data(), static_cast<size_t>(tensor.size_bytes()));
  return Tensor::View(data, tensor.dtype(), tensor.shape(), {}, memory.owner());
}

enum class Form { kGaps, kOtherOrder, kBackwards };

Tensor Strided(const Tensor& tensor, Form form, Draw& draw) {
  std::vector<int64_t> strides = tensor.strides();
  const int64_t step = 1 + draw.Below(3);
  const Tensor memory = Tensor::Allocate(DType::kU8, {tensor.size_bytes() * step});
  char* data = static_cast<char*>(memory.data());
  if (form == Form::kOtherOrder) {
    int64_t at = step;
    for (size_t axis = 0; axis < strides.size(); ++axis) {
      strides[axis] = at;
      at *= tensor.shape()[axis];
    }
  } else {
    for (int64_t& stride : strides) stride *= step;
  }
  if (form == Form::kBackwards) {
    data += (tensor.shape()[0] - 1) * strides[0] * ItemBytes(tensor);
    strides[0] = -strides[0];
  }
  StridedCopy(tensor.shape(), tensor.strides(), strides, SizeOf(tensor.dtype()))
      .Run(tensor.data(), data);
  return Tensor::View(data, tensor.dtype(), tensor.shape(), strides, memory.owner());
}

}  // namespace

Tensor Placed(const Tensor& tensor, Draw& draw) {
  const bool has_strides = tensor.rank() > 0 && tensor.num_elements() > 0;
  switch (has_strides ? draw.Below(7) : 0) {
    case 3:
      return Unaligned(tensor, draw);
    case 4:
      return Strided(tensor, Form::kOtherOrder, draw);
    case 5:
      return Strided(tensor, Form::kBackwards, draw);
    case 6:
      return Strided(tensor, Form::kGaps, draw);
    default:
      return tensor.Clone();
  }
}

std::vector<Tensor> PlacedParts(const Tensor& tensor, Draw& draw) {
  std::vector<Tensor> parts;
  const int64_t rows = tensor.shape()[0];
  int64_t row = 0;
  do {
    std::vector<int64_t> shape = tensor.shape();
    shape[0] = std::min(rows - row, draw.Below(rows + 1));
    char* const data =
        static_cast<char*>(tensor.data()) + row * tensor.strides()[0] * ItemBytes(tensor);
    row += shape[0];
    parts.push_back(
        Placed(Tensor::View(data, tensor.dtype(), std::move(shape), {}, tensor.owner()), draw));
  } while (row < rows);
  return parts;
}

std::optional<Tensor> MemoryOver(const std::vector<Tensor>& inputs, const Tensor& like,
                                 Draw& draw) {
  for (const Tensor& input : inputs) {
    if (input.data() == nullptr || input.owner() == nullptr) continue;
    const MemoryRange range = RangeOf(input);
    const int64_t spare = static_cast<int64_t>(range.end - range.begin) - like.size_bytes();
    if (spare < 0 || !draw.OneIn(2)) continue;
    const auto item = static_cast<uintptr_t>(ItemBytes(like));
    uintptr_t place =
        range.begin + static_cast<uintptr_t>(draw.OneIn(3) ? draw.Below(spare + 1) : 0);
    place = (place + item - 1) / item * item;
    if (place + static_cast<uintptr_t>(like.size_bytes()) > range.end) continue;
    return Tensor::View(reinterpret_cast<void*>(place), like.dtype(), like.shape(), {},
                        input.owner());
  }
  return std::nullopt;
}

}  // namespace kiln
