// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/wire.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message_lite.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/limits.h"

namespace kiln::onnx {
namespace {

enum class MessageKind : uint8_t {
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kSparse,
  kEntry,
  kOpset,
  kValueInfo,
  kType,
  kTensorType,
  kShape,
  kDim,
  kFunction,
};

enum class Use : uint8_t {
  kKeep,     // copied as it is
  kName,     // a text of at most kMaxNameBytes, in UTF-8
  kItem,     // as kName, one of a list of at most kMaxListLength
  kNumbers,  // numbers of an attribute's list, packed or not
  kDescend,  // a message that is walked in turn
  kRaw,      // bytes that stay in the file
};

struct Field {
  MessageKind in;
  uint32_t number;
  Use use;
  MessageKind inner = MessageKind::kModel;  // kDescend
};

// All that a skeleton keeps. What is missing here is dropped.
constexpr Field kFields[] = {
    {MessageKind::kModel, 1, Use::kKeep},                                  // ir_version
    {MessageKind::kModel, 2, Use::kName},                                  // producer_name
    {MessageKind::kModel, 3, Use::kName},                                  // producer_version
    {MessageKind::kModel, 7, Use::kDescend, MessageKind::kGraph},          // graph
    {MessageKind::kModel, 8, Use::kDescend, MessageKind::kOpset},          // opset_import
    {MessageKind::kModel, 14, Use::kDescend, MessageKind::kEntry},         // metadata_props
    {MessageKind::kModel, 25, Use::kDescend, MessageKind::kFunction},      // functions
    {MessageKind::kFunction, 1, Use::kName},                               // name
    {MessageKind::kFunction, 4, Use::kItem},                               // input
    {MessageKind::kFunction, 5, Use::kItem},                               // output
    {MessageKind::kFunction, 6, Use::kItem},                               // attribute
    {MessageKind::kFunction, 7, Use::kDescend, MessageKind::kNode},        // node
    {MessageKind::kFunction, 9, Use::kDescend, MessageKind::kOpset},       // opset_import
    {MessageKind::kFunction, 10, Use::kName},                              // domain
    {MessageKind::kFunction, 11, Use::kDescend, MessageKind::kAttribute},  // attribute_proto
    {MessageKind::kFunction, 13, Use::kName},                              // overload
    {MessageKind::kGraph, 1, Use::kDescend, MessageKind::kNode},           // node
    {MessageKind::kGraph, 2, Use::kName},                                  // name
    {MessageKind::kGraph, 5, Use::kDescend, MessageKind::kTensor},         // initializer
    {MessageKind::kGraph, 11, Use::kDescend, MessageKind::kValueInfo},     // input
    {MessageKind::kGraph, 12, Use::kDescend, MessageKind::kValueInfo},     // output
    {MessageKind::kGraph, 15, Use::kDescend, MessageKind::kSparse},        // sparse_initializer
    {MessageKind::kNode, 1, Use::kItem},                                   // input
    {MessageKind::kNode, 2, Use::kItem},                                   // output
    {MessageKind::kNode, 3, Use::kName},                                   // name
    {MessageKind::kNode, 4, Use::kName},                                   // op_type
    {MessageKind::kNode, 5, Use::kDescend, MessageKind::kAttribute},       // attribute
    {MessageKind::kNode, 7, Use::kName},                                   // domain
    {MessageKind::kNode, 8, Use::kName},                                   // overload
    {MessageKind::kAttribute, 1, Use::kName},                              // name
    {MessageKind::kAttribute, 2, Use::kKeep},                              // f
    {MessageKind::kAttribute, 3, Use::kKeep},                              // i
    {MessageKind::kAttribute, 4, Use::kKeep},                              // s
    {MessageKind::kAttribute, 5, Use::kDescend, MessageKind::kTensor},     // t
    {MessageKind::kAttribute, 6, Use::kDescend, MessageKind::kGraph},      // g
    {MessageKind::kAttribute, 7, Use::kNumbers},                           // floats
    {MessageKind::kAttribute, 8, Use::kNumbers},                           // ints
    {MessageKind::kAttribute, 9, Use::kItem},                              // strings
    {MessageKind::kAttribute, 10, Use::kDescend, MessageKind::kTensor},    // tensors
    {MessageKind::kAttribute, 11, Use::kDescend, MessageKind::kGraph},     // graphs
    {MessageKind::kAttribute, 20, Use::kKeep},                             // type
    {MessageKind::kAttribute, 21, Use::kName},                             // ref_attr_name
    {MessageKind::kTensor, 1, Use::kKeep},                                 // dims
    {MessageKind::kTensor, 2, Use::kKeep},                                 // data_type
    {MessageKind::kTensor, 4, Use::kKeep},                                 // float_data
    {MessageKind::kTensor, 5, Use::kKeep},                                 // int32_data
    {MessageKind::kTensor, 7, Use::kKeep},                                 // int64_data
    {MessageKind::kTensor, 8, Use::kName},                                 // name
    {MessageKind::kTensor, 9, Use::kRaw},                                  // raw_data
    {MessageKind::kTensor, 10, Use::kKeep},                                // double_data
    {MessageKind::kTensor, 11, Use::kKeep},                                // uint64_data
    {MessageKind::kTensor, 13, Use::kDescend, MessageKind::kEntry},        // external_data
    {MessageKind::kTensor, 14, Use::kKeep},                                // data_location
    {MessageKind::kSparse, 1, Use::kDescend, MessageKind::kTensor},        // values
    {MessageKind::kEntry, 1, Use::kName},                                  // key
    {MessageKind::kEntry, 2, Use::kKeep},                                  // value
    {MessageKind::kOpset, 1, Use::kName},                                  // domain
    {MessageKind::kOpset, 2, Use::kKeep},                                  // version
    {MessageKind::kValueInfo, 1, Use::kName},                              // name
    {MessageKind::kValueInfo, 2, Use::kDescend, MessageKind::kType},       // type
    {MessageKind::kType, 1, Use::kDescend, MessageKind::kTensorType},      // tensor_type
    {MessageKind::kTensorType, 1, Use::kKeep},                             // elem_type
    {MessageKind::kTensorType, 2, Use::kDescend, MessageKind::kShape},     // shape
    {MessageKind::kShape, 1, Use::kDescend, MessageKind::kDim},            // dim
    {MessageKind::kDim, 1, Use::kKeep},                                    // dim_value
    {MessageKind::kDim, 2, Use::kName},                                    // dim_param
};
constexpr uint32_t kRawOffset = 100001;  // TensorProto.raw_offset
constexpr uint32_t kRawSize = 100002;    // TensorProto.raw_size

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

const Field* FindField(MessageKind kind, uint32_t number) {
  for (const Field& field : kFields) {
    if (field.in == kind && field.number == number) return &field;
  }
  return nullptr;
}

void PutVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void PutTag(uint32_t number, WireType type, std::string& out) {
  PutVarint(uint64_t{number} << 3 | type, out);
}

// Well-formed UTF-8: no stray or missing bytes, no longer form than needed, no surrogates.
bool IsUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const size_t length = lead < 0x80   ? 1
                          : lead < 0xc2 ? 0
                          : lead < 0xe0 ? 2
                          : lead < 0xf0 ? 3
                          : lead < 0xf5 ? 4
                                        : 0;
    if (length == 0 || length > text.size() - i) return false;
    uint32_t code = length == 1 ? lead : lead & (0x7fu >> length);
    for (size_t k = 1; k < length; ++k) {
      const auto next = static_cast<uint8_t>(text[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3f);
    }
    const bool longer = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (longer || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += length;
  }
  return true;
}

absl::Status Broken(uint64_t position, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("byte ", position, ": ", what,
                                          "; the file is damaged, cut short, or no ONNX model"));
}

absl::Status OverLimit(uint64_t position, absl::string_view what, int64_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat("byte ", position, ": more than ", limit, " ", what, ", the most that is read"));
}

class Walker {
 public:
  explicit Walker(absl::string_view file) : file_(file) {}

  // Appends the skeleton of the message of `kind` that lies in [begin, end) of the file.
  absl::Status Walk(MessageKind kind, uint64_t begin, uint64_t end, int graph_depth,
                    std::string& out);

 private:
  struct Tag {
    uint64_t position;  // of the tag
    uint32_t number;
    WireType type;
    uint64_t body;  // first byte of the value; of a kBytes value: behind its length
    uint64_t size;  // bytes of the value
  };
  // Counts within one message.
  struct Tally {
    int64_t attributes = 0;
    int64_t dims = 0;
    int64_t items = 0;
    int64_t numbers = 0;
  };

  absl::StatusOr<uint64_t> ReadVarint(uint64_t& position, uint64_t end) const;
  absl::StatusOr<Tag> ReadTag(uint64_t position, uint64_t end) const;
  absl::Status Take(const Field& field, const Tag& tag, int graph_depth, Tally& tally,
                    std::string& out);
  absl::Status Descend(const Field& field, const Tag& tag, int graph_depth, Tally& tally,
                       std::string& out);

  // Elements of a list of numbers: the one of this field, or all of a packed list.
  int64_t CountNumbers(const Tag& tag) const {
    if (tag.type != kBytes) return 1;
    if (tag.number == 7) return static_cast<int64_t>(tag.size / sizeof(float));
    const absl::string_view packed = file_.substr(tag.body, tag.size);
    return std::count_if(packed.begin(), packed.end(),
                         [](char c) { return static_cast<uint8_t>(c) < 0x80; });
  }
  void Copy(const Tag& tag, std::string& out) const {
    out.append(file_.data() + tag.position,
               static_cast<size_t>(tag.body + tag.size - tag.position));
  }

  absl::string_view file_;
  int64_t fields_ = 0;
  int64_t nodes_ = 0;
};

absl::StatusOr<uint64_t> Walker::ReadVarint(uint64_t& position, uint64_t end) const {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (position >= end) return Broken(position, "a number runs past the end of its message");
    const auto byte = static_cast<uint8_t>(file_[position++]);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  return Broken(position, "a number has more than ten bytes");
}

absl::StatusOr<Walker::Tag> Walker::ReadTag(uint64_t position, uint64_t end) const {
  Tag tag{.position = position, .number = 0, .type = kVarint, .body = position, .size = 0};
  KILN_ASSIGN_OR_RETURN(const uint64_t key, ReadVarint(tag.body, end));
  if (key >> 3 == 0 || key >> 3 > (uint64_t{1} << 29) - 1)
    return Broken(position, "a field has no valid number");
  tag.number = static_cast<uint32_t>(key >> 3);
  switch (key & 7) {
    case kVarint: {
      uint64_t after = tag.body;
      KILN_RETURN_IF_ERROR(ReadVarint(after, end).status());
      tag.size = after - tag.body;
      break;
    }
    case kFixed64:
      tag.size = 8;
      break;
    case kFixed32:
      tag.size = 4;
      break;
    case kBytes: {
      KILN_ASSIGN_OR_RETURN(tag.size, ReadVarint(tag.body, end));
      break;
    }
    default:
      return Broken(position, absl::StrCat("field ", tag.number, " has wire type ", key & 7,
                                           ", which ONNX does not use"));
  }
  tag.type = static_cast<WireType>(key & 7);
  if (tag.size > end - tag.body) {
    return Broken(position,
                  absl::StrCat("field ", tag.number, " has ", tag.size,
                               " bytes, but its message has only ", end - tag.body, " left"));
  }
  return tag;
}

absl::Status Walker::Walk(MessageKind kind, uint64_t begin, uint64_t end, int graph_depth,
                          std::string& out) {
  if (kind == MessageKind::kGraph && graph_depth > kMaxGraphDepth)
    return OverLimit(begin, "graphs within graphs", kMaxGraphDepth);
  if (kind == MessageKind::kNode && ++nodes_ > kMaxNodes)
    return OverLimit(begin, "nodes", kMaxNodes);
  Tally tally;
  for (uint64_t position = begin; position < end;) {
    KILN_ASSIGN_OR_RETURN(const Tag tag, ReadTag(position, end));
    if (++fields_ > kMaxFields) return OverLimit(position, "fields", kMaxFields);
    if (const Field* field = FindField(kind, tag.number)) {
      KILN_RETURN_IF_ERROR(Take(*field, tag, graph_depth, tally, out));
    }
    if (static_cast<int64_t>(out.size()) > kMaxSkeletonBytes) {
      return OverLimit(position, "bytes beside the raw data of tensors", kMaxSkeletonBytes);
    }
    position = tag.body + tag.size;
  }
  return absl::OkStatus();
}

absl::Status Walker::Take(const Field& field, const Tag& tag, int graph_depth, Tally& tally,
                          std::string& out) {
  const bool text = field.use == Use::kName || field.use == Use::kItem;
  if (field.use != Use::kKeep && field.use != Use::kNumbers && tag.type != kBytes) {
    return Broken(tag.position, absl::StrCat("field ", tag.number, " is a number, expected bytes"));
  }
  if (text && static_cast<int64_t>(tag.size) > kMaxNameBytes)
    return OverLimit(tag.position, "bytes in a name", kMaxNameBytes);
  // Strings of attributes are bytes.
  if (const absl::string_view name = file_.substr(tag.body, tag.size);
      text && field.in != MessageKind::kAttribute && !IsUtf8(name)) {
    return absl::InvalidArgumentError(absl::StrCat("byte ", tag.position, ": the name \"",
                                                   absl::CHexEscape(name),
                                                   "\" is not UTF-8; names must be"));
  }
  if (field.use == Use::kItem && ++tally.items > kMaxListLength) {
    return OverLimit(tag.position, "inputs, outputs or strings in one list", kMaxListLength);
  }
  if (field.use == Use::kNumbers) {
    tally.numbers += CountNumbers(tag);
    if (tally.numbers > kMaxListLength)
      return OverLimit(tag.position, "numbers in one attribute", kMaxListLength);
  }
  if (field.use == Use::kDescend) return Descend(field, tag, graph_depth, tally, out);
  if (field.use == Use::kRaw) {
    PutTag(kRawOffset, kVarint, out);
    PutVarint(tag.body, out);
    PutTag(kRawSize, kVarint, out);
    PutVarint(tag.size, out);
    return absl::OkStatus();
  }
  if (static_cast<int64_t>(out.size() + tag.size) > kMaxSkeletonBytes) {
    return OverLimit(tag.position, "bytes beside the raw data of tensors", kMaxSkeletonBytes);
  }
  Copy(tag, out);
  return absl::OkStatus();
}

absl::Status Walker::Descend(const Field& field, const Tag& tag, int graph_depth, Tally& tally,
                             std::string& out) {
  if (field.inner == MessageKind::kAttribute && ++tally.attributes > kMaxAttributes) {
    return OverLimit(tag.position, "attributes of one node", kMaxAttributes);
  }
  if (field.inner == MessageKind::kDim && ++tally.dims > kMaxRank)
    return OverLimit(tag.position, "dims in a shape", kMaxRank);
  const int depth =
      graph_depth +
      (field.inner == MessageKind::kGraph && field.in == MessageKind::kAttribute ? 1 : 0);
  std::string inner;
  KILN_RETURN_IF_ERROR(Walk(field.inner, tag.body, tag.body + tag.size, depth, inner));
  PutTag(tag.number, kBytes, out);
  PutVarint(inner.size(), out);
  out += inner;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> Skeleton(absl::string_view bytes, Root root) {
  if (static_cast<int64_t>(bytes.size()) > kMaxFileBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the model has ", bytes.size(),
                                                     " bytes, more than ", kMaxFileBytes,
                                                     "; keep its weights as external data"));
  }
  std::string out;
  KILN_RETURN_IF_ERROR(Walker(bytes).Walk(
      root == Root::kModel ? MessageKind::kModel : MessageKind::kTensor, 0, bytes.size(), 0, out));
  return out;
}

bool ParseSkeleton(const std::string& skeleton, google::protobuf::MessageLite& message) {
  google::protobuf::io::ArrayInputStream array(skeleton.data(), static_cast<int>(skeleton.size()));
  google::protobuf::io::CodedInputStream stream(&array);
  stream.SetRecursionLimit(4 * kMaxGraphDepth +
                           32);  // a graph within a graph is three messages deep
  return message.ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

absl::Status NoMessage() {
  return absl::DataLossError(
      "the file is no valid protocol buffer of an ONNX message; it is damaged or of another kind");
}

}  // namespace kiln::onnx
