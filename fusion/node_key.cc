// SPDX-License-Identifier: Apache-2.0
#include "fusion/node_key.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

struct AttrWriter {
  std::string& key;

  template <typename T>
  void Bits(const T& value) {
    // Of pointers, the pointer itself.
    key.append(reinterpret_cast<const char*>(&value),
               sizeof(T));  // NOLINT(bugprone-sizeof-expression)
  }
  void operator()(int64_t value) { Bits(value); }
  void operator()(double value) { Bits(value); }
  void operator()(DType value) { Bits(value); }
  void operator()(const std::string& value) { absl::StrAppend(&key, value.size(), ":", value); }
  void operator()(const Tensor& value) { AppendTensor(value, key); }
  void operator()(const Body& value) { Bits(value.get()); }
  void operator()(const std::shared_ptr<const CustomOp>& value) { Bits(value.get()); }
  template <typename T>
  void operator()(const std::vector<T>& values) {
    Bits(values.size());
    for (const T& value : values) Bits(value);
  }
};

}  // namespace

void AppendTensor(const Tensor& tensor, std::string& key) {
  const Tensor dense = tensor.is_dense() ? tensor : tensor.Clone();
  absl::StrAppend(&key, Name(dense.dtype()), "[");
  for (const int64_t extent : dense.shape()) absl::StrAppend(&key, extent, ",");
  key += ']';
  key.append(static_cast<const char*>(dense.data()), static_cast<size_t>(dense.size_bytes()));
}

void AppendAttrs(const Attrs& attrs, std::string& key) {
  for (const auto& [name, value] : attrs) {
    absl::StrAppend(&key, ";", name, "=", value.index(), "=");
    std::visit(AttrWriter{key}, value);
  }
}

}  // namespace kiln
