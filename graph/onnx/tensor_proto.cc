// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/tensor_proto.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "graph/onnx/mapped_file.h"
#include "graph/onnx/onnx.pb.h"
#include "graph/onnx/wire.h"

namespace kiln::onnx {
namespace {

struct TypeRow {
  const char* name;
  std::optional<DType> type;
};
// By the number of the ONNX element type.
constexpr TypeRow kTypes[] = {
    {"undefined", {}},
    {"float", DType::kF32},
    {"uint8", DType::kU8},
    {"int8", DType::kI8},
    {"uint16", DType::kU16},
    {"int16", DType::kI16},
    {"int32", DType::kI32},
    {"int64", DType::kI64},
    {"string", {}},
    {"bool", DType::kBool},
    {"float16", DType::kF16},
    {"double", DType::kF64},
    {"uint32", DType::kU32},
    {"uint64", DType::kU64},
    {"complex64", {}},
    {"complex128", {}},
    {"bfloat16", DType::kBF16},
    {"float8e4m3fn", {}},
    {"float8e4m3fnuz", {}},
    {"float8e5m2", {}},
    {"float8e5m2fnuz", {}},
    {"uint4", {}},
    {"int4", {}},
    {"float4e2m1", {}},
    {"float8e8m0", {}},
    {"uint2", {}},
    {"int2", {}},
};

// The elements of one tensor, wherever they lie.
struct Elements {
  absl::string_view bytes;
  std::shared_ptr<void> owner;  // null: to be copied
};

template <typename Stored, typename List>
void CopyList(const List& list, Tensor& tensor) {
  auto* out = static_cast<Stored*>(tensor.data());
  for (int i = 0; i < list.size(); ++i) out[i] = static_cast<Stored>(list[i]);
}

// Typed fields: which of them holds which element type is fixed by ONNX. 16-bit floats are bits in
// int32_data.
int64_t ListSize(const TensorProto& proto, DType type) {
  switch (type) {
    case DType::kF32:
      return proto.float_data_size();
    case DType::kF64:
      return proto.double_data_size();
    case DType::kI64:
      return proto.int64_data_size();
    case DType::kU32:
    case DType::kU64:
      return proto.uint64_data_size();
    default:
      return proto.int32_data_size();
  }
}

void CopyTyped(const TensorProto& proto, Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kF32:
      return CopyList<float>(proto.float_data(), tensor);
    case DType::kF64:
      return CopyList<double>(proto.double_data(), tensor);
    case DType::kI64:
      return CopyList<int64_t>(proto.int64_data(), tensor);
    case DType::kU32:
      return CopyList<uint32_t>(proto.uint64_data(), tensor);
    case DType::kU64:
      return CopyList<uint64_t>(proto.uint64_data(), tensor);
    case DType::kI32:
      return CopyList<int32_t>(proto.int32_data(), tensor);
    case DType::kI16:
      return CopyList<int16_t>(proto.int32_data(), tensor);
    case DType::kF16:
    case DType::kBF16:
    case DType::kU16:
      return CopyList<uint16_t>(proto.int32_data(), tensor);
    case DType::kI8:
      return CopyList<int8_t>(proto.int32_data(), tensor);
    case DType::kU8:
      return CopyList<uint8_t>(proto.int32_data(), tensor);
    case DType::kBool:
      return CopyList<bool>(proto.int32_data(), tensor);
  }
}

absl::StatusOr<int64_t> EntryNumber(const StringStringEntryProto& entry) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(entry.value(), &value) || value < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("external data: ", absl::Utf8SafeCEscape(entry.key()), " is \"",
                     absl::Utf8SafeCEscape(entry.value()), "\", expected a number from 0"));
  }
  return value;
}

absl::StatusOr<Elements> ExternalElements(const TensorProto& proto, int64_t bytes,
                                          const TensorSource& source) {
  if (source.external == nullptr)
    return absl::PermissionDeniedError("its data is external, which is not allowed here");
  std::string location;
  int64_t offset = 0;
  int64_t length = bytes;
  for (const StringStringEntryProto& entry :
       proto.external_data()) {  // other keys, such as checksum, mean nothing to us
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") {
      KILN_ASSIGN_OR_RETURN(offset, EntryNumber(entry));
    }
    if (entry.key() == "length") {
      KILN_ASSIGN_OR_RETURN(length, EntryNumber(entry));
    }
  }
  KILN_ASSIGN_OR_RETURN(ExternalFiles::Bytes read, source.external->Read(location, offset, length));
  return Elements{read.bytes, std::move(read.owner)};
}

absl::StatusOr<Elements> RawElements(const TensorProto& proto, const TensorSource& source) {
  if (proto.raw_offset() > source.bytes.size() ||
      proto.raw_size() > source.bytes.size() - proto.raw_offset()) {
    return absl::DataLossError("its bytes lie outside the file");
  }
  return Elements{source.bytes.substr(proto.raw_offset(), proto.raw_size()), source.owner};
}

bool AllBits(absl::string_view bytes) {
  for (const char c : bytes) {
    if (c != 0 && c != 1) return false;
  }
  return true;
}

// Memory of a tensor of `bytes` bytes, uninitialised.
Tensor AllocateCopy(DType type, std::vector<int64_t> shape, size_t bytes,
                    BumpAllocator& allocator) {
  std::shared_ptr<void> memory = allocator.Take(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  void* const data = memory.get();
  return Tensor::View(data, type, std::move(shape), {}, std::move(memory));
}

// A view of the elements if they may be viewed, else a copy. ONNX stores them little-endian, as
// this machine does.
Tensor ViewOrCopy(const Elements& elements, DType type, std::vector<int64_t> shape,
                  BumpAllocator& allocator) {
  const bool aligned = reinterpret_cast<uintptr_t>(elements.bytes.data()) % SizeOf(type) == 0;
  const bool canonical = type != DType::kBool || AllBits(elements.bytes);
  if (elements.owner != nullptr && aligned && canonical) {
    return Tensor::View(const_cast<char*>(elements.bytes.data()), type, std::move(shape), {},
                        elements.owner);
  }
  Tensor tensor = AllocateCopy(type, std::move(shape), elements.bytes.size(), allocator);
  if (canonical) {
    if (!elements.bytes.empty())
      std::memcpy(tensor.data(), elements.bytes.data(), elements.bytes.size());
  } else {
    auto* out = static_cast<char*>(tensor.data());
    for (size_t i = 0; i < elements.bytes.size(); ++i) out[i] = elements.bytes[i] != 0 ? 1 : 0;
  }
  return tensor;
}

}  // namespace

absl::StatusOr<DType> ToDType(int64_t onnx_type) {
  if (onnx_type <= 0 || onnx_type >= static_cast<int64_t>(std::size(kTypes))) {
    return absl::InvalidArgumentError(absl::StrCat("element type ", onnx_type, " is none of ONNX"));
  }
  const TypeRow& row = kTypes[onnx_type];
  if (!row.type)
    return absl::UnimplementedError(absl::StrCat("element type ", row.name, " is not supported"));
  return *row.type;
}

absl::Status TakeBytes(TensorSource& source, int64_t bytes, absl::string_view what) {
  if (bytes > source.max_bytes - source.taken) {
    return absl::ResourceExhaustedError(absl::StrCat(
        what, " and the tensors before it ", source.taken, ", together more than ",
        source.max_bytes,
        ", the most that all may have; --max-weights or CompileOptions::max_weight_bytes raises "
        "it"));
  }
  source.taken += bytes;
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ToTensor(const TensorProto& proto, TensorSource& source) {
  KILN_ASSIGN_OR_RETURN(const DType type, ToDType(proto.data_type()));
  if (proto.dims_size() > kMaxRank) {
    return absl::ResourceExhaustedError(
        absl::StrCat("has rank ", proto.dims_size(), ", more than ", kMaxRank));
  }
  std::vector<int64_t> shape(proto.dims().begin(), proto.dims().end());
  const int64_t bytes = CheckedBytes(type, shape);
  if (bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape [", absl::StrJoin(shape, ", "), "] is negative or too large"));
  }
  KILN_RETURN_IF_ERROR(TakeBytes(source, bytes, absl::StrCat("has ", bytes, " bytes")));

  const auto wrong_size = [&](int64_t got, int64_t want, absl::string_view unit) {
    return absl::InvalidArgumentError(absl::StrCat("has ", got, " ", unit, ", but ", Name(type),
                                                   " [", absl::StrJoin(shape, ", "), "] needs ",
                                                   want));
  };
  const bool external = proto.data_location() == TensorProto::EXTERNAL;
  if (!external && proto.raw_size() == 0) {
    const int64_t count = bytes / static_cast<int64_t>(SizeOf(type));
    if (ListSize(proto, type) != count) return wrong_size(ListSize(proto, type), count, "elements");
    Tensor tensor = Tensor::Allocate(type, std::move(shape));
    CopyTyped(proto, tensor);
    return tensor;
  }
  KILN_ASSIGN_OR_RETURN(const Elements elements, external ? ExternalElements(proto, bytes, source)
                                                          : RawElements(proto, source));
  if (static_cast<int64_t>(elements.bytes.size()) != bytes) {
    return wrong_size(static_cast<int64_t>(elements.bytes.size()), bytes, "bytes");
  }
  Tensor tensor = ViewOrCopy(elements, type, std::move(shape), source.allocator);
  const bool same = type != DType::kBool || AllBits(elements.bytes);
  if (source.origins != nullptr && same && bytes > 0)
    source.origins->push_back({tensor, elements.bytes.data()});
  return tensor;
}

absl::StatusOr<Tensor> ReadTensorProto(absl::string_view bytes) {
  KILN_ASSIGN_OR_RETURN(const std::string skeleton, Skeleton(bytes, Root::kTensor));
  TensorProto proto;
  KILN_RETURN_IF_ERROR(Parse(skeleton, proto));
  TensorSource source{.bytes = bytes, .owner = nullptr};
  return ToTensor(proto, source);
}

}  // namespace kiln::onnx
