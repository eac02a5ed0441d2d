// SPDX-License-Identifier: Apache-2.0
#include "base/safetensors.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/little_endian.h"
#include "base/printable.h"
#include "base/publish_file.h"
#include "base/real_path.h"
#include "base/safetensors_header.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "base/tensor_bytes.h"

namespace kiln {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kAlignment = 64;  // of the first element in a written file

struct NamedType {
  const char* name;
  DType type;
};
constexpr NamedType kNamedTypes[] = {
    {"F64", DType::kF64},  {"F32", DType::kF32}, {"F16", DType::kF16}, {"BF16", DType::kBF16},
    {"I64", DType::kI64},  {"I32", DType::kI32}, {"I16", DType::kI16}, {"I8", DType::kI8},
    {"U64", DType::kU64},  {"U32", DType::kU32}, {"U16", DType::kU16}, {"U8", DType::kU8},
    {"BOOL", DType::kBool}};

absl::StatusOr<DType> TypeCalled(absl::string_view name) {
  for (const NamedType& named : kNamedTypes) {
    if (name == named.name) return named.type;
  }
  return absl::UnimplementedError(absl::StrCat("dtype \"", Printable(name), "\" is not supported"));
}

const char* NameOf(DType type) {
  return std::find_if(std::begin(kNamedTypes), std::end(kNamedTypes),
                      [&](const NamedType& named) { return named.type == type; })
      ->name;
}

// A view of `bytes`; a copy if elements are not aligned, or booleans, which may be any byte there.
Tensor ViewOf(absl::string_view bytes, DType type, const std::vector<int64_t>& shape,
              const std::shared_ptr<const void>& owner) {
  if (type == DType::kBool) {
    Tensor booleans = Tensor::Allocate(type, shape);
    std::transform(bytes.begin(), bytes.end(), static_cast<char*>(booleans.data()),
                   [](char byte) -> char { return byte != 0 ? 1 : 0; });
    return booleans;
  }
  if (reinterpret_cast<uintptr_t>(bytes.data()) % SizeOf(type) != 0) {
    Tensor copy = Tensor::Allocate(type, shape);
    if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
    return copy;
  }
  // The elements are only read; a Tensor has no other form.
  return Tensor::View(const_cast<char*>(bytes.data()), type, shape, {},
                      std::const_pointer_cast<void>(owner));
}

absl::Status AddTensor(const SafetensorsHeader::Entry& entry, absl::string_view data, int64_t begin,
                       const std::shared_ptr<const void>& owner, Safetensors& out) {
  KILN_ASSIGN_OR_RETURN(const DType type, TypeCalled(entry.dtype));
  const int64_t wanted = CheckedBytes(type, entry.shape);
  if (entry.begin != begin)
    return absl::DataLossError(absl::StrCat("begins at byte ", entry.begin, ", expected ", begin));
  if (wanted < 0 || entry.end < entry.begin || entry.end - entry.begin != wanted)
    return absl::DataLossError(absl::StrCat("lies at bytes [", entry.begin, ", ", entry.end,
                                            "), and its type and shape say ", wanted, " bytes"));
  if (entry.end > static_cast<int64_t>(data.size()))
    return absl::DataLossError(
        absl::StrCat("ends at byte ", entry.end, " of ", data.size(), " that the file has"));
  const absl::string_view bytes =
      data.substr(static_cast<size_t>(entry.begin), static_cast<size_t>(wanted));
  out.tensors.emplace(entry.name, ViewOf(bytes, type, entry.shape, owner));
  return absl::OkStatus();
}

// Calls `write` with every piece of the file; a tensor is read when its turn comes.
template <typename Write>
absl::Status WriteAll(const SafetensorsHeader& header, const std::map<std::string, Tensor>& tensors,
                      Write&& write) {
  std::string json = PrintSafetensorsHeader(header);
  const auto length = static_cast<int64_t>(json.size()) + kLengthBytes;
  json.append(static_cast<size_t>((kAlignment - length % kAlignment) % kAlignment), ' ');
  if (static_cast<int64_t>(json.size()) > kMaxSafetensorsHeader)
    return absl::ResourceExhaustedError(absl::StrCat(
        "the header would have ", json.size(), " bytes, the limit is ", kMaxSafetensorsHeader));
  std::string head;
  AppendU64(head, json.size());
  KILN_RETURN_IF_ERROR(write(absl::StrCat(head, json)));
  for (const SafetensorsHeader::Entry& entry : header.entries) {
    const Tensor& tensor = tensors.at(entry.name);
    KILN_RETURN_IF_ERROR(write(BytesOf(tensor.is_dense() ? tensor : tensor.Clone())));
  }
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsHeader> HeaderOf(const std::map<std::string, Tensor>& tensors,
                                           const std::map<std::string, std::string>& metadata) {
  SafetensorsHeader header;
  header.metadata = metadata;
  for (const auto& [key, value] : metadata) {
    if (!IsUtf8(key) || !IsUtf8(value))
      return absl::InvalidArgumentError(
          absl::StrCat("metadata \"", Printable(key), "\" is not UTF-8"));
  }
  for (const auto& [name, tensor] : tensors) {
    const std::string subject = absl::StrCat("tensor \"", Printable(name), "\"");
    if (!IsUtf8(name) || name == "__metadata__")
      return absl::InvalidArgumentError(
          absl::StrCat(subject, ": the name is reserved or no UTF-8"));
    if (tensor.device().kind != DeviceKind::kCpu)
      return absl::InvalidArgumentError(
          absl::StrCat(subject, ": is not on the CPU; copy it there"));
    if (tensor.shape().size() > kMaxSafetensorsRank)
      return absl::InvalidArgumentError(absl::StrCat(subject, ": has rank ", tensor.shape().size(),
                                                     ", the limit is ", kMaxSafetensorsRank));
    header.entries.push_back({name, NameOf(tensor.dtype()), tensor.shape(), 0, 0});
  }
  if (header.entries.size() > kMaxSafetensors)
    return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxSafetensors, " tensors"));
  std::stable_sort(header.entries.begin(), header.entries.end(), [&](const auto& a, const auto& b) {
    return SizeOf(tensors.at(a.name).dtype()) > SizeOf(tensors.at(b.name).dtype());
  });
  int64_t at = 0;
  for (SafetensorsHeader::Entry& entry : header.entries) {
    entry.begin = at;
    entry.end = at = at + tensors.at(entry.name).size_bytes();
  }
  return header;
}

}  // namespace

absl::StatusOr<Safetensors> ParseSafetensors(absl::string_view bytes,
                                             const std::shared_ptr<const void>& owner) {
  if (bytes.size() < kLengthBytes)
    return absl::DataLossError(absl::StrCat("has ", bytes.size(), " bytes, fewer than 8"));
  const uint64_t length = LoadU64(bytes);
  const absl::string_view rest = bytes.substr(kLengthBytes);
  if (length > kMaxSafetensorsHeader)
    return absl::ResourceExhaustedError(absl::StrCat("the header has ", length,
                                                     " bytes, the limit is ", kMaxSafetensorsHeader,
                                                     "; is it a file of safetensors?"));
  if (length > rest.size())
    return absl::DataLossError(absl::StrCat("the header has ", length, " bytes, the file ",
                                            rest.size(), " behind its length"));
  KILN_ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensorsHeader(rest.substr(0, length)));
  const absl::string_view data = rest.substr(length);
  // By their places: tensors without elements stand before one that begins where they do.
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  Safetensors out;
  out.metadata = std::move(header.metadata);
  int64_t at = 0;
  for (const SafetensorsHeader::Entry& entry : header.entries) {
    absl::Status status = AddTensor(entry, data, at, owner, out);
    if (!status.ok())
      return Annotate(status, absl::StrCat("tensor \"", Printable(entry.name), "\""));
    at = entry.end;
  }
  if (at != static_cast<int64_t>(data.size()))
    return absl::DataLossError(
        absl::StrCat("the tensors end at byte ", at, " of ", data.size(), " that the file has"));
  return out;
}

absl::StatusOr<Safetensors> ReadSafetensors(FileSystem& files, absl::string_view path) {
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenRead(RealPath(path)));
  KILN_ASSIGN_OR_RETURN(const ReadableFile::Mapping mapping, file->Map());
  absl::StatusOr<Safetensors> read = ParseSafetensors(mapping.bytes, mapping.owner);
  return read.ok() ? std::move(read)
                   : Annotate(read.status(), absl::StrCat("\"", Printable(path), "\""));
}

absl::Status WriteSafetensors(FileSystem& files, absl::string_view path,
                              const std::map<std::string, Tensor>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  KILN_ASSIGN_OR_RETURN(const SafetensorsHeader header, HeaderOf(tensors, metadata));
  return PublishFile(files, path, [&](WritableFile& file) {
    return WriteAll(header, tensors, [&](absl::string_view bytes) { return file.Append(bytes); });
  });
}

}  // namespace kiln
