// SPDX-License-Identifier: Apache-2.0
#include "tests/symbols/evaluate_parts.h"

#include <algorithm>

namespace kiln::symbols {

Ints IntsOf(const Array& array) {
  Ints out;
  for (const long double element : array.elements) out.push_back(Int(element));
  return out;
}

int64_t Attr(const ModelNode& node, const std::string& name, int64_t otherwise) {
  const auto found = node.attrs.find(name);
  return found == node.attrs.end() ? otherwise : found->second[0];
}

Ints ListAttr(const ModelNode& node, const std::string& name, const Ints& otherwise) {
  const auto found = node.attrs.find(name);
  return found == node.attrs.end() ? otherwise : found->second;
}

std::string TextAttr(const ModelNode& node, const std::string& name, const std::string& otherwise) {
  const auto found = node.texts.find(name);
  return found == node.texts.end() ? otherwise : found->second;
}

bool NormalAxis(int64_t& axis, size_t rank) {
  if (axis < 0) axis += static_cast<int64_t>(rank);
  return axis >= 0 && axis < static_cast<int64_t>(rank);
}

bool Next(Ints& at, const Ints& shape) {
  for (size_t i = shape.size(); i-- > 0;) {
    if (++at[i] < shape[i]) return true;
    at[i] = 0;
  }
  return false;
}

int64_t Flat(const Ints& at, const Ints& shape) {
  int64_t flat = 0;
  for (size_t i = 0; i < shape.size(); ++i) flat = flat * shape[i] + at[i];
  return flat;
}

Array Filled(int type, Ints shape, const std::function<long double(const Ints&)>& f) {
  Array out{type, std::move(shape), {}};
  if (CountOf(out.shape) == 0) return out;
  Ints at(out.shape.size(), 0);
  do {
    out.elements.push_back(f(at));
  } while (Next(at, out.shape));
  return out;
}

bool IsBad(const Ints& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || extent > kMost) return true;
    count *= std::max<int64_t>(extent, 1);
    if (count > kMost) return true;
  }
  return false;
}

Evaluated Bad(const Ints& shape) {
  for (const int64_t extent : shape) {
    if (extent < 0) return Undefined("an extent below 0");
  }
  return TooLarge();
}

long double ElementAt(const Array& array, const Ints& at) {
  return array.elements[static_cast<size_t>(Flat(at, array.shape))];
}

long double BroadcastAt(const Array& array, const Ints& at) {
  Ints own;
  const size_t skip = at.size() - array.shape.size();
  for (size_t i = 0; i < array.shape.size(); ++i)
    own.push_back(array.shape[i] == 1 ? 0 : at[skip + i]);
  return ElementAt(array, own);
}

bool BroadcastShape(const Ints& a, const Ints& b, Ints& out) {
  out.assign(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return true;
}

}  // namespace kiln::symbols
