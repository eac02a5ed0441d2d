// SPDX-License-Identifier: Apache-2.0
// Splits a serialized ONNX message into its tensors' bytes, which stay where they are, and a
// skeleton of all the rest.
//
// A file of 1 GB is 999 MB of weights. The walker goes over its wire format once, without recursion
// into anything that it does not know, and writes a skeleton that protobuf then parses:
//   - raw_data of each tensor (initializers and tensors in attributes) becomes raw_offset and
//     raw_size, where the bytes lie in the file; such fields in the file itself are dropped, so
//     nobody can point them elsewhere;
//   - fields that onnx.proto does not have (doc strings, value_info, unknown ones) are dropped;
//   - the limits of limits.h on counts, names and depth hold in what comes out.
//
//   absl::StatusOr<std::string> skeleton = onnx::Skeleton(file.bytes(), onnx::Root::kModel);
//   onnx::ModelProto model;
//   KILN_RETURN_IF_ERROR(onnx::Parse(*skeleton, model));
#ifndef KILN_GRAPH_ONNX_WIRE_H_
#define KILN_GRAPH_ONNX_WIRE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/parse_message.h"

namespace google::protobuf {
class MessageLite;
}

namespace kiln::onnx {

enum class Root : uint8_t { kModel, kTensor };

// kDataLoss names the byte where the format is broken; kResourceExhausted the limit that the
// message passes.
absl::StatusOr<std::string> Skeleton(absl::string_view bytes, Root root);

// The two halves of Parse.
bool ParseSkeleton(const std::string& skeleton, google::protobuf::MessageLite& message);
absl::Status NoMessage();

// Parses a skeleton. kDataLoss if protobuf does not take it.
template <typename Message>
absl::Status Parse(const std::string& skeleton, Message& message) {
  const auto parse = [&](Message& parsed) { return ParseSkeleton(skeleton, parsed); };
  return ParseMessageWith(parse, message) ? absl::OkStatus() : NoMessage();
}

}  // namespace kiln::onnx

#endif  // KILN_GRAPH_ONNX_WIRE_H_
