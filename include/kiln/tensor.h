// SPDX-License-Identifier: Apache-2.0
// A Tensor is a view: address, element type, shape, strides, device, and a share in whatever owns
// the memory.
//
// Copying a Tensor copies the view, never the elements. A Tensor made by Allocate owns 64-byte
// aligned memory of its own; one made by View keeps `owner` alive for as long as any copy of the
// view lives. Strides are in elements and may be zero (broadcast) or negative. No template and no
// third-party type stands in this interface, so that C and DLPack can wrap it. Thread-compatible;
// the elements are the caller's to guard.
//
//   std::vector<float> x(6, 1.0f);
//   kiln::Tensor rows = kiln::Tensor::View(x.data(), kiln::DType::kF32, {2, 3});
//   kiln::Tensor columns = kiln::Tensor::View(x.data(), kiln::DType::kF32, {3, 2}, {1, 3});
#ifndef KILN_TENSOR_H_
#define KILN_TENSOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kiln/dtype.h"
#include "kiln/target.h"

namespace kiln {

// Where memory is: the device of that kind with this number.
struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

class Tensor {
 public:
  // An empty view: no data, shape [0].
  Tensor() = default;

  // Dense, uninitialised, 64-byte aligned. Throws, as a vector does: std::length_error for a
  // negative extent or bytes that do not fit in int64, std::bad_alloc where there is no memory.
  static Tensor Allocate(DType type, std::vector<int64_t> shape);

  // A view of `data` (dense when `strides` is empty). `owner` may be null: then the caller keeps
  // the memory alive.
  static Tensor View(void* data, DType type, std::vector<int64_t> shape,
                     std::vector<int64_t> strides = {}, std::shared_ptr<void> owner = nullptr,
                     Device device = {});

  void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<int64_t>& strides() const { return strides_; }
  Device device() const { return device_; }
  const std::shared_ptr<void>& owner() const { return owner_; }

  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t num_elements() const;
  // Bytes of the elements when dense.
  int64_t size_bytes() const { return num_elements() * static_cast<int64_t>(SizeOf(dtype_)); }
  // True if the elements lie row-major without gaps (strides of extent-1 dims do not count).
  bool is_dense() const;

  // The same elements, dense and owned: a copy.
  Tensor Clone() const;

 private:
  void* data_ = nullptr;
  DType dtype_ = DType::kF32;
  std::vector<int64_t> shape_ = {0};
  std::vector<int64_t> strides_ = {1};
  Device device_;
  std::shared_ptr<void> owner_;
};

}  // namespace kiln

#endif  // KILN_TENSOR_H_
