// SPDX-License-Identifier: Apache-2.0
#include "base/npy.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;  // of the elements in a file, which NumPy maps
constexpr size_t kGrowthDigits = 21;
constexpr size_t kMaxRank = 64;  // NumPy's own limit
constexpr int64_t kMaxFileBytes = int64_t{1} << 40;
constexpr size_t kMaxHeaderBytes = size_t{1} << 20;  // NumPy's own limit is 10,000
constexpr size_t kFirstRead = size_t{1} << 16;

// One row per element type: what NumPy writes for it. Types of one byte have no byte order.
struct TypeName {
  absl::string_view descr;
  DType type;
};
constexpr std::array<TypeName, 12> kTypes = {{
    {"|b1", DType::kBool},
    {"|i1", DType::kI8},
    {"<i2", DType::kI16},
    {"<i4", DType::kI32},
    {"<i8", DType::kI64},
    {"|u1", DType::kU8},
    {"<u2", DType::kU16},
    {"<u4", DType::kU32},
    {"<u8", DType::kU64},
    {"<f2", DType::kF16},
    {"<f4", DType::kF32},
    {"<f8", DType::kF64},
}};

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("damaged .npy header: ", what));
}

absl::StatusOr<DType> TypeOf(absl::string_view descr) {
  if (descr.size() < 2) return Damaged(absl::StrCat("no element type \"", descr, "\""));
  const absl::string_view kind = descr.substr(1);
  for (const TypeName& known : kTypes) {
    if (known.descr.substr(1) != kind) continue;
    if (descr[0] == '>' && SizeOf(known.type) > 1) {
      return absl::UnimplementedError(
          absl::StrCat("element type \"", descr, "\" is big-endian; save it with array.astype(\"<",
                       kind, "\")"));
    }
    if (absl::string_view("<>|=").find(descr[0]) != absl::string_view::npos) return known.type;
  }
  return absl::UnimplementedError(absl::StrCat(
      "element type \"", descr, "\" is not supported; use a float, integer or bool array"));
}

absl::string_view DescrOf(DType type) {
  if (type == DType::kBF16) type = DType::kU16;
  for (const TypeName& known : kTypes) {
    if (known.type == type) return known.descr;
  }
  KILN_CHECK(false);
  return "";
}

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Reads the one form of Python dictionary that a header may be:
//   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
// with the keys in any order.
class HeaderParser {
 public:
  explicit HeaderParser(absl::string_view text) : rest_(text) {}

  absl::StatusOr<Header> Parse() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    if (!Take('{')) return Damaged("it does not start with \"{\"");
    while (!Take('}')) {
      KILN_ASSIGN_OR_RETURN(const std::string key, TakeString());
      if (!Take(':')) return Damaged(absl::StrCat("no value for \"", key, "\""));
      if (key == "descr" && !std::exchange(has_descr, true)) {
        KILN_ASSIGN_OR_RETURN(header.descr, TakeDescr());
      } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
        KILN_ASSIGN_OR_RETURN(header.fortran_order, TakeBool());
      } else if (key == "shape" && !std::exchange(has_shape, true)) {
        KILN_ASSIGN_OR_RETURN(header.shape, TakeShape());
      } else {
        return Damaged(absl::StrCat("unexpected key \"", key, "\""));
      }
      if (!Take(',') && !Peek('}')) return Damaged("no \",\" or \"}\" after a value");
    }
    SkipSpace();
    if (!rest_.empty()) return Damaged("text after the dictionary");
    if (!has_descr || !has_order || !has_shape) {
      return Damaged("one of \"descr\", \"fortran_order\", \"shape\" is missing");
    }
    return header;
  }

 private:
  void SkipSpace() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t')) {
      rest_.remove_prefix(1);
    }
  }

  bool Peek(char c) {
    SkipSpace();
    return !rest_.empty() && rest_[0] == c;
  }

  bool Take(char c) {
    if (!Peek(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool TakeWord(absl::string_view word) {
    SkipSpace();
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  absl::StatusOr<std::string> TakeString() {
    const char quote = Peek('"') ? '"' : '\'';
    if (!Take(quote)) return Damaged("a quoted text is missing");
    const size_t end = rest_.find(quote);
    if (end == absl::string_view::npos) return Damaged("a quoted text has no end");
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }

  absl::StatusOr<std::string> TakeDescr() {
    if (Peek('[')) {
      return absl::UnimplementedError("an array of records is not supported; save one field of it");
    }
    return TakeString();
  }

  absl::StatusOr<bool> TakeBool() {
    if (TakeWord("False")) return false;
    if (TakeWord("True")) return true;
    return Damaged("\"fortran_order\" is neither True nor False");
  }

  absl::StatusOr<std::vector<int64_t>> TakeShape() {
    std::vector<int64_t> shape;
    if (!Take('(')) return Damaged("\"shape\" is no tuple");
    while (!Take(')')) {
      if (shape.size() == kMaxRank) {
        return Damaged(absl::StrCat("more than ", kMaxRank, " dimensions"));
      }
      SkipSpace();
      size_t digits = 0;
      while (digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9') ++digits;
      int64_t extent = 0;
      if (!absl::SimpleAtoi(rest_.substr(0, digits), &extent)) {
        return Damaged("an extent in \"shape\" is no number of 63 bits");
      }
      rest_.remove_prefix(digits);
      TakeWord("L");  // written by Python 2
      shape.push_back(extent);
      if (!Take(',') && !Peek(')')) return Damaged("no \",\" or \")\" in \"shape\"");
    }
    return shape;
  }

  absl::string_view rest_;
};

// Splits a file into the text of its header and its elements.
absl::StatusOr<std::pair<absl::string_view, absl::string_view>> Split(absl::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::DataLossError("not a .npy file: it does not start with \"\\x93NUMPY\"");
  }
  const size_t prefix = kMagic.size() + 2;  // and major, minor version
  if (bytes.size() < prefix) return Damaged("the file ends in it");
  const int major = static_cast<unsigned char>(bytes[6]);
  if (major < 1 || major > 3) {
    return absl::UnimplementedError(
        absl::StrCat(".npy format version ", major, "; known are 1, 2 and 3"));
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (bytes.size() < prefix + length_bytes) return Damaged("the file ends in it");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    length |= size_t{static_cast<unsigned char>(bytes[prefix + i])} << (8 * i);
  }
  const size_t start = prefix + length_bytes;
  if (length > kMaxHeaderBytes) {
    return Damaged(absl::StrCat("it says that it has ", length, " bytes; at most ", kMaxHeaderBytes,
                                " are read"));
  }
  if (bytes.size() - start < length) return Damaged("the file ends in it");
  return std::make_pair(bytes.substr(start, length), bytes.substr(start + length));
}

// Elements of which the first axis is the fastest, into a dense tensor, whose last one is.
void CopyFortranOrder(absl::string_view elements, Tensor& to) {
  const auto rank = static_cast<size_t>(to.rank());
  const auto size = static_cast<size_t>(SizeOf(to.dtype()));
  std::vector<size_t> strides(rank), at(rank, 0);  // in bytes of the file
  size_t stride = size;
  for (size_t i = 0; i < rank; ++i) {
    strides[i] = stride;
    stride *= static_cast<size_t>(to.shape()[i]);
  }
  auto* out = static_cast<char*>(to.data());
  size_t from = 0;
  for (int64_t n = to.num_elements(); n > 0; --n, out += size) {
    std::memcpy(out, elements.data() + from, size);
    for (size_t i = rank; i-- > 0;) {
      from += strides[i];
      if (++at[i] < static_cast<size_t>(to.shape()[i])) break;
      from -= strides[i] * at[i];
      at[i] = 0;
    }
  }
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// What the header says.
struct Described {
  Header header;
  DType type;
  size_t start;    // of the elements
  int64_t needed;  // bytes of them
};
absl::StatusOr<Described> Describe(absl::string_view bytes) {
  KILN_ASSIGN_OR_RETURN(const auto parts, Split(bytes));
  KILN_ASSIGN_OR_RETURN(Header header, HeaderParser(parts.first).Parse());
  KILN_ASSIGN_OR_RETURN(const DType type, TypeOf(header.descr));
  const int64_t needed = CheckedBytes(type, header.shape);
  if (needed < 0) return Damaged("\"shape\" has more elements than can be addressed");
  return Described{std::move(header), type, bytes.size() - parts.second.size(), needed};
}

// The file, or as much of it as shows that it is none of ours: a device may have no end.
absl::StatusOr<std::string> ReadAll(absl::string_view path) {
  const File file(std::fopen(std::string(path).c_str(), "rbe"));
  if (file == nullptr) return ErrnoStatus(errno, path, "open");
  std::string bytes;
  const size_t limit = kMaxHeaderBytes + kFirstRead;
  const auto read_up_to = [&](size_t most) {
    while (bytes.size() < most) {
      const size_t have = bytes.size();
      const size_t chunk = std::min(most - have, std::max(kFirstRead, have));
      bytes.resize(have + chunk);
      const size_t n = std::fread(bytes.data() + have, 1, chunk, file.get());
      bytes.resize(have + n);
      if (n < chunk) return;
    }
  };
  read_up_to(limit);
  if (bytes.size() == limit) {
    const absl::StatusOr<Described> described = Describe(bytes);
    if (described.ok() && described->needed <= kMaxFileBytes)
      read_up_to(described->start + static_cast<size_t>(described->needed) + 1);
  }
  if (std::ferror(file.get()) != 0) return ErrnoStatus(errno, path, "read");
  return bytes;
}

}  // namespace

absl::StatusOr<Tensor> ParseNpy(absl::string_view bytes) {
  KILN_ASSIGN_OR_RETURN(Described described, Describe(bytes));
  auto& [header, type, start, needed] = described;
  const absl::string_view elements = bytes.substr(start);
  if (static_cast<uint64_t>(needed) != elements.size()) {
    return absl::DataLossError(
        absl::StrCat("shape [", absl::StrJoin(header.shape, ", "), "] of ", Name(type), " needs ",
                     needed, " bytes, the file has ", elements.size(),
                     elements.size() == static_cast<uint64_t>(needed) + 1 ? " or more" : ""));
  }
  Tensor tensor = Tensor::Allocate(type, std::move(header.shape));
  if (header.fortran_order) {
    CopyFortranOrder(elements, tensor);
  } else if (!elements.empty()) {
    std::memcpy(tensor.data(), elements.data(), elements.size());
  }
  if (type == DType::kBool) {
    auto* flags = static_cast<uint8_t*>(tensor.data());
    for (size_t i = 0; i < elements.size(); ++i) flags[i] = flags[i] != 0;
  }
  return tensor;
}

absl::StatusOr<Tensor> ReadNpy(absl::string_view path) {
  KILN_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(path));
  absl::StatusOr<Tensor> tensor = ParseNpy(bytes);
  if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat("\"", path, "\""));
  return tensor;
}

std::string NpyBytes(const Tensor& tensor) {
  KILN_CHECK(tensor.device().kind == DeviceKind::kCpu);
  const Tensor dense = tensor.is_dense() ? tensor : tensor.Clone();
  std::string header =
      absl::StrCat("{'descr': '", DescrOf(dense.dtype()), "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(dense.shape(), ", "), dense.rank() == 1 ? ",), }" : "), }");
  if (dense.rank() > 0) {  // NumPy leaves room for the first extent to grow in place
    header.append(kGrowthDigits - absl::StrCat(dense.shape()[0]).size(), ' ');
  }
  size_t prefix = kMagic.size() + 2 + 2;
  const bool is_long = prefix + header.size() + kAlignment > 65535;
  if (is_long) prefix += 2;
  const size_t used = prefix + header.size() + 1;
  header.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  header.push_back('\n');

  std::string bytes(kMagic);
  bytes.push_back(is_long ? 2 : 1);
  bytes.push_back(0);
  for (size_t i = 0; i < (is_long ? 4u : 2u); ++i) {
    bytes.push_back(static_cast<char>(header.size() >> (8 * i) & 255));
  }
  bytes.append(header);
  if (dense.num_elements() != 0) {
    bytes.append(static_cast<const char*>(dense.data()), static_cast<size_t>(dense.size_bytes()));
  }
  return bytes;
}

absl::Status WriteNpy(absl::string_view path, const Tensor& tensor) {
  const std::string bytes = NpyBytes(tensor);
  Descriptor file(open(std::string(path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) return ErrnoStatus(errno, path, "create");
  KILN_RETURN_IF_ERROR(WriteAll(file, bytes, path));
  return file.Close() == 0 ? absl::OkStatus() : ErrnoStatus(errno, path, "close");
}

Tensor BitsAsBFloat16(const Tensor& u16) {
  KILN_CHECK(u16.dtype() == DType::kU16);
  return Tensor::View(u16.data(), DType::kBF16, u16.shape(), u16.strides(), u16.owner(),
                      u16.device());
}

}  // namespace kiln
