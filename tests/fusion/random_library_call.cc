// SPDX-License-Identifier: Apache-2.0
#include "tests/fusion/random_library_call.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

namespace kiln {

std::vector<int64_t> RandomCall::List(size_t size, int64_t first, int64_t last) {
  std::vector<int64_t> list(size);
  for (int64_t& value : list) value = Between(first, last);
  return list;
}

ValueId RandomCall::Input(DType type, const std::vector<int64_t>& shape) {
  Tensor tensor = Tensor::Allocate(type, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    auto* const bytes =
        static_cast<uint8_t*>(tensor.data()) + i * static_cast<int64_t>(SizeOf(type));
    if (type == DType::kF32) {
      const auto value = static_cast<float>(Between(-1000, 1000)) / 256;
      std::memcpy(bytes, &value, sizeof(value));
    } else if (type == DType::kF64) {
      const double value = static_cast<double>(Between(-1000, 1000)) / 256;
      std::memcpy(bytes, &value, sizeof(value));
    } else if (type == DType::kBF16) {
      const auto value = static_cast<uint16_t>(0x3f80 + Below(256) + (Below(2) << 15));
      std::memcpy(bytes, &value, sizeof(value));
    } else {
      for (size_t k = 0; k < SizeOf(type); ++k) bytes[k] = static_cast<uint8_t>(Below(256));
    }
  }
  inputs.push_back(tensor);
  return b.Input("in" + std::to_string(inputs.size()), type, Shape(shape.begin(), shape.end()));
}

DType RandomCall::Float() {
  constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kBF16};
  return kTypes[Below(3)];
}

DType RandomCall::Byte() { return Below(2) == 0 ? DType::kU8 : DType::kI8; }

Attrs RandomCall::Window(const std::vector<int64_t>& kernel) {
  const size_t rank = kernel.size();
  const std::vector<int64_t> dilations = List(rank, 1, 2);
  std::vector<int64_t> pads(2 * rank);
  for (size_t k = 0; k < 2 * rank; ++k)
    pads[k] = Below(std::min<int64_t>(3, (kernel[k % rank] - 1) * dilations[k % rank] + 1));
  return {{"strides", List(rank, 1, 3)}, {"dilations", dilations}, {"pads", pads}};
}

namespace {

void MakeMatmul(RandomCall& call, bool integer) {
  const DType type = call.Float();
  const int64_t m = call.Between(1, 9), k = call.Between(1, 70), n = call.Between(1, 9);
  std::vector<int64_t> left = {m, k}, right = {k, n};
  Attrs attrs;
  if (!integer) {
    if (call.Below(2) != 0) {
      std::swap(left[0], left[1]);
      attrs["trans_a"] = int64_t{1};
    }
    if (call.Below(2) != 0) {
      std::swap(right[0], right[1]);
      attrs["trans_b"] = int64_t{1};
    }
  }
  for (int64_t axes = call.Below(3); axes > 0; --axes) {  // one of the two may broadcast
    const int64_t extent = call.Between(1, 3), which = call.Below(4);
    left.insert(left.begin(), which == 0 ? 1 : extent);
    if (which != 1) right.insert(right.begin(), which == 2 ? 1 : extent);
  }
  if (left.size() == 2 && right.size() == 2 && attrs.empty() && !integer) {
    if (call.Below(4) == 0) left.erase(left.begin());
    if (call.Below(4) == 0) right.pop_back();
  }
  if (!integer) {
    call.b.Output(call.b.Op("matmul", {call.Input(type, left), call.Input(type, right)}, attrs),
                  "y");
    return;
  }
  const DType a = call.Byte(), b = call.Byte();
  std::vector<ValueId> operands = {call.Input(a, left), call.Input(b, right), {}, {}};
  if (call.Below(2) != 0) operands[2] = call.Input(a, {});
  if (call.Below(2) != 0) operands[3] = call.Input(b, {1, n});
  call.b.Output(call.b.Op("matmul_integer", operands), "y");
}

void MakeConv(RandomCall& call, const std::string& op) {
  const bool integer = op == "conv_integer", back = op == "conv_transpose";
  const auto rank = static_cast<size_t>(call.Between(1, 3));
  const int64_t group = call.Between(1, 3), in = call.Between(1, 3), out = call.Between(1, 3);
  const std::vector<int64_t> kernel = call.List(rank, 1, 3);
  std::vector<int64_t> x = {call.Between(1, 2), group * in};
  std::vector<int64_t> w =
      back ? std::vector<int64_t>{group * in, out} : std::vector<int64_t>{group * out, in};
  const std::vector<int64_t> spatial = call.List(rank, 5, 8);
  x.insert(x.end(), spatial.begin(), spatial.end());
  w.insert(w.end(), kernel.begin(), kernel.end());
  Attrs attrs = call.Window(kernel);
  attrs["group"] = group;
  if (back) {
    std::vector<int64_t> more = std::get<std::vector<int64_t>>(attrs["strides"]);
    for (int64_t& extent : more) extent = call.Below(extent);
    attrs["output_padding"] = more;
  }
  const DType type = integer ? call.Byte() : call.Float(), weights = integer ? call.Byte() : type;
  std::vector<ValueId> operands = {call.Input(type, x), call.Input(weights, w)};
  if (integer) {
    operands.push_back(call.Below(2) != 0 ? call.Input(type, {}) : ValueId{});
    operands.push_back(call.Below(2) != 0 ? call.Input(weights, {group * out}) : ValueId{});
  } else if (call.Below(2) != 0) {
    operands.push_back(call.Input(type, {group * out}));
  }
  call.b.Output(call.b.Op(op, operands, attrs), "y");
}

// Spatial extents of what the window gives of x [N, C, ...]; less than 1 where it gives none.
std::vector<int64_t> PlacesOf(const Attrs& attrs, const std::vector<int64_t>& kernel,
                              const std::vector<int64_t>& x, bool up) {
  const auto ints = [&](const char* name) {
    return std::get<std::vector<int64_t>>(attrs.at(name));
  };
  const std::vector<int64_t> strides = ints("strides"), dilations = ints("dilations"),
                             pads = ints("pads");
  std::vector<int64_t> places = {x[0], x[1]};
  for (size_t i = 0; i < kernel.size(); ++i) {
    const int64_t room = x[i + 2] + pads[i] + pads[kernel.size() + i] -
                         (kernel[i] - 1) * dilations[i] - 1 + (up ? strides[i] - 1 : 0);
    int64_t extent = room < 0 ? 0 : room / strides[i] + 1;
    if (up && strides[i] > 1)
      extent = std::min(extent, (x[i + 2] + pads[i] + strides[i] - 1) / strides[i]);
    places.push_back(extent);
  }
  return places;
}

void MakeConvBackward(RandomCall& call) {
  const auto rank = static_cast<size_t>(call.Between(1, 3));
  const int64_t group = call.Between(1, 3);
  const std::vector<int64_t> kernel = call.List(rank, 1, 3);
  std::vector<int64_t> x = {call.Between(1, 2), group * call.Between(1, 3)};
  const std::vector<int64_t> spatial = call.List(rank, 5, 8);
  x.insert(x.end(), spatial.begin(), spatial.end());
  Attrs attrs = call.Window(kernel);
  std::vector<int64_t> g = PlacesOf(attrs, kernel, x, false);
  g[1] = group * call.Between(1, 3);
  attrs["group"] = group;
  attrs["kernel"] = kernel;
  const DType type = call.Float();
  call.b.Output(
      call.b.Op("conv_backward_weights", {call.Input(type, x), call.Input(type, g)}, attrs), "y");
}

void MakePool(RandomCall& call, const std::string& op) {
  const auto rank = static_cast<size_t>(call.Between(1, 3));
  const std::vector<int64_t> kernel = call.List(rank, 1, 3);
  std::vector<int64_t> x = call.List(2, 1, 3);
  const std::vector<int64_t> spatial = call.List(rank, 5, 8);
  x.insert(x.end(), spatial.begin(), spatial.end());
  Attrs attrs = call.Window(kernel);
  attrs["kernel"] = kernel;
  attrs["ceil_mode"] = call.Below(2);
  if (op.substr(0, 7) == "average") attrs["count_include_pad"] = call.Below(2);
  if (op.find("backward") != std::string::npos) {
    const bool up = std::get<int64_t>(attrs["ceil_mode"]) != 0;
    const std::vector<int64_t> g = PlacesOf(attrs, kernel, x, up);
    const DType type = call.Float();
    std::vector<ValueId> operands;
    if (op == "max_pool_backward") operands.push_back(call.Input(type, x));
    if (op == "average_pool_backward") attrs["shape"] = x;
    operands.push_back(call.Input(type, g));
    call.b.Output(call.b.Op(op, operands, attrs), "y");
    return;
  }
  call.b.Output(call.b.Op(op, {call.Input(call.Float(), x)}, attrs), "y");
}

}  // namespace

void MakeRandomCall(const std::string& op, RandomCall& call) {
  if (op.substr(0, 6) == "matmul") {
    MakeMatmul(call, op == "matmul_integer");
  } else if (op == "conv_backward_weights") {
    MakeConvBackward(call);
  } else if (op.substr(0, 4) == "conv") {
    MakeConv(call, op);
  } else {
    MakePool(call, op);
  }
}

}  // namespace kiln
