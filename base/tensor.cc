// SPDX-License-Identifier: Apache-2.0
#include "base/tensor.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

namespace kiln {
namespace {

// Copies one dense row-major block out of a strided view, dimension by dimension.
void CopyStrided(const char* from, const Tensor& view, size_t dim, char*& to) {
  const size_t element = SizeOf(view.dtype());
  if (dim == view.shape().size()) {
    std::memcpy(to, from, element);
    to += element;
    return;
  }
  const int64_t step = view.strides()[dim] * static_cast<int64_t>(element);
  for (int64_t i = 0; i < view.shape()[dim]; ++i) CopyStrided(from + i * step, view, dim + 1, to);
}

}  // namespace

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

int64_t CheckedBytes(DType type, const std::vector<int64_t>& shape) {
  int64_t bytes = static_cast<int64_t>(SizeOf(type));
  bool empty = false;
  for (int64_t extent : shape) {
    if (extent < 0) return -1;
    if (extent == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      return -1;
    }
  }
  return empty ? 0 : bytes;
}

Tensor Tensor::Allocate(DType type, std::vector<int64_t> shape) {
  constexpr int64_t kHugePage = int64_t{2} << 20;
  const int64_t bytes = CheckedBytes(type, shape);
  // Large tensors come in huge pages: touching them for the first time is most of what a copy
  // costs.
  const int64_t align = bytes >= kHugePage ? kHugePage : 64;
  if (bytes < 0 || bytes > INT64_MAX - align) throw std::length_error("tensor: too many bytes");
  const auto padded = static_cast<size_t>((bytes + align) / align * align);
  void* data = std::aligned_alloc(static_cast<size_t>(align), padded);
  if (data == nullptr) throw std::bad_alloc();
  if (align == kHugePage) madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  // If the shared_ptr cannot be made, it frees the memory.
  return View(data, type, std::move(shape), {}, std::shared_ptr<void>(data, std::free));
}

Tensor Tensor::View(void* data, DType type, std::vector<int64_t> shape,
                    std::vector<int64_t> strides, std::shared_ptr<void> owner, Device device) {
  Tensor t;
  t.data_ = data;
  t.dtype_ = type;
  t.strides_ = strides.empty() ? DenseStrides(shape) : std::move(strides);
  t.shape_ = std::move(shape);
  t.owner_ = std::move(owner);
  t.device_ = device;
  return t;
}

int64_t Tensor::num_elements() const {
  int64_t n = 1;
  for (int64_t extent : shape_) n *= extent;
  return n;
}

bool Tensor::is_dense() const {
  int64_t step = 1;
  for (size_t i = shape_.size(); i-- > 0;) {
    if (shape_[i] != 1 && strides_[i] != step) return false;
    step *= shape_[i];
  }
  return true;
}

Tensor Tensor::Clone() const {
  if (device_ != Device())
    throw std::invalid_argument("tensor: Clone copies in memory of the host; this one is a GPU's");
  Tensor copy = Allocate(dtype_, shape_);
  if (num_elements() == 0) return copy;
  char* to = static_cast<char*>(copy.data());
  if (is_dense()) {
    std::memcpy(to, data_, static_cast<size_t>(size_bytes()));
  } else {
    CopyStrided(static_cast<const char*>(data_), *this, 0, to);
  }
  return copy;
}

}  // namespace kiln
