// SPDX-License-Identifier: Apache-2.0
// A Tensor is a view: address, element type, shape, strides, device, and a share in whatever owns
// the memory. DLPack takes it to other libraries and back.
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

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/status.h"
#include "kiln/target.h"

struct DLManagedTensor;  // dlpack/dlpack.h
struct DLManagedTensorVersioned;

namespace kiln {

// The element types. f16 and bf16 are storage types: kernels load them, compute in f32 and round
// once at the store. bool is stored as one byte, 0 or 1.
enum class DType : int {
  kF32,
  kF64,
  kF16,
  kBF16,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool
};
inline constexpr int kNumDTypes = 13;

// "f32", "bf16", "i64", "u8", "bool", ...
KILN_API absl::string_view Name(DType type);

// The inverse of Name; nothing for any other text.
KILN_API std::optional<DType> ParseDType(absl::string_view name);

// Bytes of one stored element.
KILN_API size_t SizeOf(DType type);

KILN_API bool IsFloat(DType type);   // f32 f64 f16 bf16
KILN_API bool IsSigned(DType type);  // i8 .. i64
KILN_API bool IsInt(DType type);     // signed and unsigned integers; not bool

// Where memory is: the device of that kind with this number.
struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

class KILN_API Tensor {
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

  // The same elements, dense and owned: a copy. Of memory of the host; throws std::invalid_argument
  // for a tensor on another device.
  Tensor Clone() const;

 private:
  void* data_ = nullptr;
  DType dtype_ = DType::kF32;
  std::vector<int64_t> shape_ = {0};
  std::vector<int64_t> strides_ = {1};
  Device device_;
  std::shared_ptr<void> owner_;
};

// ---- Tensors to and from other libraries by DLPack, without a copy.
//
//   DLManagedTensorVersioned* out = *kiln::ToDLPack(tensor);  // its consumer calls out->deleter
//   absl::StatusOr<kiln::Tensor> in = kiln::FromDLPack(managed);  // from PyTorch, JAX, ...
//
// Include <dlpack/dlpack.h> of your own for the types: Kiln only names them. Both forms are those
// of DLPack 1.x; the older DLManagedTensor, of all versions before, has no flags. Thread-safe.
//
// A tensor that its producer marks as read-only may be an input; Context::BindOutput refuses it,
// and what is made of it by ToDLPack is marked again. Memory need not be aligned: an input whose
// elements are not aligned to their size, or not dense, is copied by each run that reads it. A
// tensor in memory of a CUDA device stays there (Tensor::device), for contexts of a model that runs
// on that device to bind; work that fills it is ordered by the producer's stream, which is given to
// the run (RunControl::stream), or was waited for.

// A view of the tensor's memory with a share in its owner, for the consumer to give back with its
// deleter, once and on any thread. kInvalidArgument: of a read-only tensor there is no older form.
KILN_API absl::StatusOr<DLManagedTensorVersioned*> ToDLPack(const Tensor& tensor);
KILN_API absl::StatusOr<DLManagedTensor*> ToUnversionedDLPack(const Tensor& tensor);

// A view of what `managed` describes; its deleter is called when the last copy of the view goes, on
// whichever thread that is. On an error the deleter is not called: `managed` stays the caller's.
// kInvalidArgument: null, another major version, a type that Kiln has not (lanes among them), a
// shape or address that is malformed. kUnimplemented: on a device of a kind that Kiln has not.
KILN_API absl::StatusOr<Tensor> FromDLPack(DLManagedTensorVersioned* managed);
KILN_API absl::StatusOr<Tensor> FromDLPack(DLManagedTensor* managed);

}  // namespace kiln

#endif  // KILN_TENSOR_H_
