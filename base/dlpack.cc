// SPDX-License-Identifier: Apache-2.0
#include "base/dlpack.h"

#include "kiln/tensor.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/catch_exceptions.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "base/tensor.h"

namespace kiln {
namespace {

// The binary interface of DLPack 1.x, under names of our own: the host's header may be of any
// version, and defines the types that kiln/tensor.h only declares.
struct AbiDevice {
  int32_t type;
  int32_t id;
};
struct AbiType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct AbiTensor {
  void* data;
  AbiDevice device;
  int32_t ndim;
  AbiType type;
  int64_t* shape;
  int64_t* strides;  // in elements; null: dense
  uint64_t byte_offset;
};
struct AbiUnversioned {
  AbiTensor tensor;
  void* context;
  void (*deleter)(AbiUnversioned* self);
};
struct AbiVersioned {
  uint32_t major;
  uint32_t minor;
  void* context;
  void (*deleter)(AbiVersioned* self);
  uint64_t flags;
  AbiTensor tensor;
};
static_assert(sizeof(AbiTensor) == 48 && sizeof(AbiUnversioned) == 64 && sizeof(AbiVersioned) == 80,
              "the layout on 64-bit machines");

constexpr uint32_t kMajor = 1;          // correctness: of the layout above
constexpr uint64_t kReadOnly = 1;       // correctness: a bit of `flags`
constexpr int32_t kCpu = 1;             // correctness: device types whose memory is the process's
constexpr int32_t kCuda = 2;            // correctness: its own memory
constexpr int32_t kCudaManaged = 13;    // correctness: memory of both, told as the device's
constexpr int32_t kPinnedForCuda = 3;   // correctness
constexpr int32_t kPinnedForRocm = 11;  // correctness
constexpr int32_t kMaxNdim = 64;        // correctness: a damaged ndim reads no further

struct TypeRow {
  DType type;
  uint8_t code, bits;
};
constexpr uint8_t kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kBool = 6;  // correctness
constexpr TypeRow kTypes[] = {
    {DType::kF32, kFloat, 32},   {DType::kF64, kFloat, 64}, {DType::kF16, kFloat, 16},
    {DType::kBF16, kBfloat, 16}, {DType::kI8, kInt, 8},     {DType::kI16, kInt, 16},
    {DType::kI32, kInt, 32},     {DType::kI64, kInt, 64},   {DType::kU8, kUint, 8},
    {DType::kU16, kUint, 16},    {DType::kU32, kUint, 32},  {DType::kU64, kUint, 64},
    {DType::kBool, kBool, 8},
};

template <typename... T>
absl::Status Refused(const T&... text) {
  return absl::InvalidArgumentError(absl::StrCat("DLPack: ", text...));
}

// ---- Out of Kiln.

// What an exported tensor points to, together with its `managed` form.
template <typename Managed>
struct Exported {
  Tensor tensor;
  std::vector<int64_t> shape, strides;
  Managed managed{};

  static void Delete(Managed* self) { delete static_cast<Exported*>(self->context); }
};

template <typename Managed>
absl::StatusOr<Managed*> Export(const Tensor& tensor) {
  return CatchExceptions("DLPack", [&]() -> absl::StatusOr<Managed*> {
    const TypeRow* const row =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& one) {
          return one.type == tensor.dtype();
        });  // every type of Kiln has one
    auto made = std::make_unique<Exported<Managed>>();
    made->tensor = tensor;
    made->shape = tensor.shape();
    made->strides = tensor.strides();
    AbiTensor& out = made->managed.tensor;
    out.data = tensor.data();
    const Device device = tensor.device();
    out.device = {device.kind == DeviceKind::kCpu ? kCpu : kCuda, device.index};
    out.ndim = tensor.rank();
    out.type = {row->code, row->bits, 1};
    out.shape = made->shape.data();
    out.strides = made->strides.data();
    made->managed.context = made.get();
    made->managed.deleter = &Exported<Managed>::Delete;
    return &made.release()->managed;
  });
}

// ---- Into Kiln.

// Holds what was imported, for the last view to give back. Empty while the import may still fail.
struct Imported {
  AbiVersioned* versioned = nullptr;
  AbiUnversioned* unversioned = nullptr;

  // A deleter is a C function whose type names the structs otherwise: no matter for a call.
  __attribute__((no_sanitize("undefined"))) ~Imported() {
    if (versioned != nullptr && versioned->deleter != nullptr) versioned->deleter(versioned);
    if (unversioned != nullptr && unversioned->deleter != nullptr)
      unversioned->deleter(unversioned);
  }
};

// The type of this deleter tells an imported owner from all others (IsReadOnly).
struct DeleteImported {
  bool read_only = false;
  void operator()(void* imported) const { delete static_cast<Imported*>(imported); }
};

absl::StatusOr<DType> TypeOf(const AbiType& type) {
  if (type.lanes != 1)
    return Refused("elements of ", type.lanes, " lanes; give single elements, with a dim for them");
  for (const TypeRow& row : kTypes)
    if (row.code == type.code && row.bits == type.bits) return row.type;
  return Refused("type code ", type.code, " of ", type.bits, " bits is none of Kiln's; convert it");
}

// Whether all elements lie at addresses that there are.
bool AddressesExist(const char* data, const std::vector<int64_t>& shape,
                    const std::vector<int64_t>& strides, int64_t item) {
  auto low = static_cast<__int128>(reinterpret_cast<uintptr_t>(data)), high = low + item;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return true;
    (strides[i] < 0 ? low : high) += static_cast<__int128>(shape[i] - 1) * strides[i] * item;
    if (low < 0 || high > static_cast<__int128>(UINTPTR_MAX)) return false;
  }
  return true;
}

absl::StatusOr<Device> DeviceOf(const AbiDevice& from) {
  switch (from.type) {
    case kCpu:
    case kPinnedForCuda:
    case kPinnedForRocm:
      return Device();
    case kCuda:
    case kCudaManaged:
      if (from.id < 0) return Refused("device ", from.id, " of CUDA");
      return Device{DeviceKind::kCuda, from.id};
    default:
      return absl::UnimplementedError(
          absl::StrCat("DLPack: device type ", from.type,
                       " is neither the CPU (1) nor CUDA (2); copy the tensor to the CPU"));
  }
}

// A view without an owner.
absl::StatusOr<Tensor> ViewOf(const AbiTensor& from) {
  KILN_ASSIGN_OR_RETURN(const Device device, DeviceOf(from.device));
  KILN_ASSIGN_OR_RETURN(const DType type, TypeOf(from.type));
  if (from.ndim < 0 || from.ndim > kMaxNdim)
    return Refused("ndim is ", from.ndim, ", expected 0 to ", kMaxNdim);
  if (from.ndim > 0 && from.shape == nullptr)
    return Refused("ndim is ", from.ndim, ", but no shape");
  std::vector<int64_t> shape, strides;
  if (from.ndim > 0) shape.assign(from.shape, from.shape + from.ndim);
  const int64_t bytes = CheckedBytes(type, shape);
  if (bytes < 0)
    return Refused("shape [", absl::StrJoin(shape, ", "), "] is negative, or too large");
  if (from.ndim > 0 && from.strides != nullptr)
    strides.assign(from.strides, from.strides + from.ndim);
  else
    strides = DenseStrides(shape);
  if (bytes == 0) strides = DenseStrides(shape);  // say nothing, and may be anything
  auto* data = static_cast<char*>(from.data);
  if (data == nullptr && bytes > 0) return Refused("no data for ", bytes, " bytes");
  if (from.byte_offset > UINTPTR_MAX - reinterpret_cast<uintptr_t>(data))
    return Refused("byte_offset ", from.byte_offset, " leads out of memory");
  if (data != nullptr) data += from.byte_offset;
  if (!AddressesExist(data, shape, strides, static_cast<int64_t>(SizeOf(type))))
    return Refused("strides [", absl::StrJoin(strides, ", "), "] lead out of memory");
  return Tensor::View(data, type, std::move(shape), std::move(strides), nullptr, device);
}

// The view with a share in `managed`, which it has only once nothing can fail any more.
template <typename Managed>
absl::StatusOr<Tensor> Import(Managed* managed, Managed* Imported::*member, bool read_only) {
  KILN_ASSIGN_OR_RETURN(const Tensor view, ViewOf(managed->tensor));
  auto* const holder = new Imported();
  std::shared_ptr<void> owner(static_cast<void*>(holder), DeleteImported{read_only});
  Tensor tensor =
      Tensor::View(view.data(), view.dtype(), view.shape(), view.strides(), owner, view.device());
  holder->*member = managed;
  return tensor;
}

}  // namespace

bool IsReadOnly(const Tensor& tensor) {
  const auto* const deleter = std::get_deleter<DeleteImported>(tensor.owner());
  return deleter != nullptr && deleter->read_only;
}

absl::StatusOr<DLManagedTensorVersioned*> ToDLPack(const Tensor& tensor) {
  KILN_ASSIGN_OR_RETURN(AbiVersioned* const made, Export<AbiVersioned>(tensor));
  made->major = kMajor;
  made->flags = IsReadOnly(tensor) ? kReadOnly : 0;
  return reinterpret_cast<DLManagedTensorVersioned*>(made);
}

absl::StatusOr<DLManagedTensor*> ToUnversionedDLPack(const Tensor& tensor) {
  if (IsReadOnly(tensor)) {
    return Refused(
        "the tensor is read-only, which the older form cannot say; use ToDLPack, or a copy");
  }
  KILN_ASSIGN_OR_RETURN(AbiUnversioned* const made, Export<AbiUnversioned>(tensor));
  return reinterpret_cast<DLManagedTensor*>(made);
}

absl::StatusOr<Tensor> FromDLPack(DLManagedTensorVersioned* managed) {
  return CatchExceptions("DLPack", [&]() -> absl::StatusOr<Tensor> {
    if (managed == nullptr) return Refused("null");
    auto* const abi = reinterpret_cast<AbiVersioned*>(managed);
    if (abi->major != kMajor) {
      return Refused("version ", abi->major, ".", abi->minor, ", expected ", kMajor,
                     ".x; ask the producer for that");
    }
    return Import(abi, &Imported::versioned, (abi->flags & kReadOnly) != 0);
  });
}

absl::StatusOr<Tensor> FromDLPack(DLManagedTensor* managed) {
  return CatchExceptions("DLPack", [&]() -> absl::StatusOr<Tensor> {
    if (managed == nullptr) return Refused("null");
    return Import(reinterpret_cast<AbiUnversioned*>(managed), &Imported::unversioned, false);
  });
}

}  // namespace kiln
