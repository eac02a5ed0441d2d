// SPDX-License-Identifier: Apache-2.0
// Writes ONNX files byte by byte, well-formed or not, by the published field numbers and nothing of
// the importer's.
//
//   std::string graph = OnnxGraph({OnnxNode("Relu", {"x"}, {"y"})},
//                                 {OnnxValue("x", kFloat, {"n", 4})},
//                                 {OnnxValue("y", kFloat, {})});
//   std::string model = OnnxModel(17, graph);
#ifndef KILN_TESTS_ONNX_MODEL_WRITER_H_
#define KILN_TESTS_ONNX_MODEL_WRITER_H_

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace kiln {

inline constexpr int kFloat = 1, kInt8 = 3, kInt32 = 6, kInt64 = 7, kString = 8, kBool = 9;

inline std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}

inline std::string NumberField(int field, int64_t value) {
  return Varint(static_cast<uint64_t>(field) << 3) + Varint(static_cast<uint64_t>(value));
}

inline std::string BytesField(int field, const std::string& bytes) {
  return Varint(static_cast<uint64_t>(field) << 3 | 2) + Varint(bytes.size()) + bytes;
}

inline std::string FloatField(int field, float value) {
  std::string out = Varint(static_cast<uint64_t>(field) << 3 | 5);
  return out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
std::string RawBytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

inline std::string Repeat(const std::string& text, int64_t times) {
  std::string out;
  out.reserve(text.size() * static_cast<size_t>(times));
  for (int64_t i = 0; i < times; ++i) out += text;
  return out;
}

// TensorProto with raw_data.
inline std::string OnnxTensor(const std::string& name, int type, const std::vector<int64_t>& dims,
                              const std::string& raw) {
  std::string out;
  for (const int64_t dim : dims) out += NumberField(1, dim);
  return out + NumberField(2, type) + BytesField(8, name) + BytesField(9, raw);
}

inline std::string OnnxInts(const std::string& name, const std::vector<int64_t>& values) {
  return OnnxTensor(name, kInt64, {static_cast<int64_t>(values.size())}, RawBytes(values));
}

inline std::string OnnxFloats(const std::string& name, const std::vector<float>& values) {
  return OnnxTensor(name, kFloat, {static_cast<int64_t>(values.size())}, RawBytes(values));
}

// TensorProto of external data; `entries` are keys and values.
inline std::string OnnxExternal(const std::string& name, int type, const std::vector<int64_t>& dims,
                                const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string out;
  for (const int64_t dim : dims) out += NumberField(1, dim);
  out += NumberField(2, type) + BytesField(8, name) + NumberField(14, 1);
  for (const auto& [key, value] : entries)
    out += BytesField(13, BytesField(1, key) + BytesField(2, value));
  return out;
}

// AttributeProto.
inline std::string IntAttribute(const std::string& name, int64_t value) {
  return BytesField(1, name) + NumberField(3, value) + NumberField(20, 2);
}
inline std::string FloatAttribute(const std::string& name, float value) {
  return BytesField(1, name) + FloatField(2, value) + NumberField(20, 1);
}
inline std::string TextAttribute(const std::string& name, const std::string& value) {
  return BytesField(1, name) + BytesField(4, value) + NumberField(20, 3);
}
inline std::string TensorAttribute(const std::string& name, const std::string& tensor) {
  return BytesField(1, name) + BytesField(5, tensor) + NumberField(20, 4);
}
inline std::string GraphAttribute(const std::string& name, const std::string& graph) {
  return BytesField(1, name) + BytesField(6, graph) + NumberField(20, 5);
}
inline std::string FloatsAttribute(const std::string& name, const std::vector<float>& values) {
  std::string out = BytesField(1, name);
  for (const float value : values) out += FloatField(7, value);
  return out + NumberField(20, 6);
}
inline std::string IntsAttribute(const std::string& name, const std::vector<int64_t>& values) {
  std::string out = BytesField(1, name);
  for (const int64_t value : values) out += NumberField(8, value);
  return out + NumberField(20, 7);
}
inline std::string TextsAttribute(const std::string& name, const std::vector<std::string>& values) {
  std::string out = BytesField(1, name);
  for (const std::string& value : values) out += BytesField(9, value);
  return out + NumberField(20, 8);
}

// NodeProto; its name is "n_" + the first output.
inline std::string OnnxNode(const std::string& op, const std::vector<std::string>& inputs,
                            const std::vector<std::string>& outputs,
                            const std::vector<std::string>& attributes = {},
                            const std::string& domain = "") {
  std::string out;
  for (const std::string& input : inputs) out += BytesField(1, input);
  for (const std::string& output : outputs) out += BytesField(2, output);
  out += BytesField(3, "n_" + (outputs.empty() ? "" : outputs[0])) + BytesField(4, op);
  for (const std::string& attribute : attributes) out += BytesField(5, attribute);
  return domain.empty() ? out : out + BytesField(7, domain);
}

// A dim is a number or a name; the empty name is a dim without either.
struct OnnxDim {
  OnnxDim(int value) : text(NumberField(1, value)) {}                            // NOLINT
  OnnxDim(const char* name) : text(*name == '\0' ? "" : BytesField(2, name)) {}  // NOLINT
  std::string text;
};

// ValueInfoProto of a tensor.
inline std::string OnnxValue(const std::string& name, int type, const std::vector<OnnxDim>& dims) {
  std::string shape;
  for (const OnnxDim& dim : dims) shape += BytesField(1, dim.text);
  return BytesField(1, name) +
         BytesField(2, BytesField(1, NumberField(1, type) + BytesField(2, shape)));
}
// ... of which the type is not said.
inline std::string OnnxValue(const std::string& name) { return BytesField(1, name); }

inline std::string OnnxGraph(const std::vector<std::string>& nodes,
                             const std::vector<std::string>& inputs,
                             const std::vector<std::string>& outputs,
                             const std::vector<std::string>& initializers = {}) {
  std::string out;
  for (const std::string& node : nodes) out += BytesField(1, node);
  out += BytesField(2, "g");
  for (const std::string& initializer : initializers) out += BytesField(5, initializer);
  for (const std::string& input : inputs) out += BytesField(11, input);
  for (const std::string& output : outputs) out += BytesField(12, output);
  return out;
}

inline std::string OnnxModel(int opset, const std::string& graph) {
  return NumberField(1, 8) + BytesField(2, "tests") + BytesField(7, graph) +
         BytesField(8, BytesField(1, "") + NumberField(2, opset));
}

}  // namespace kiln

#endif  // KILN_TESTS_ONNX_MODEL_WRITER_H_
