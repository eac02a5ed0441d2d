// SPDX-License-Identifier: Apache-2.0
#include "tests/symbols/maker.h"

namespace kiln::symbols {

// A matrix times another, or times itself transposed; some with a bias.
void Maker::MakeProduct(const Known& x) {
  const size_t rank = Rank(x);
  if (rank < 2) return;
  const Known y = Chance(50) ? x : Pick(data_);
  if (rank == 2 && Rank(y) == 2 && Chance(60)) {
    const int64_t a = Below(2), b = Below(2);
    std::vector<const Known*> inputs = {&x, &y};
    const Known bias = Pick(data_);
    if (Chance(30)) inputs.push_back(&bias);
    return KeepData(AddOne("Gemm", inputs, {{"transA", {a}}, {"transB", {b}}}));
  }
  if (Rank(y) != rank) return;
  Ints perm;
  for (size_t i = 0; i < rank; ++i) perm.push_back(static_cast<int64_t>(i));
  std::swap(perm[rank - 1], perm[rank - 2]);
  const Known* transposed = Chance(70) ? AddOne("Transpose", {&y}, {{"perm", perm}}) : &y;
  KeepData(AddOne("MatMul", {&x, transposed}));
}

void Maker::MakePool(const Known& given) {
  Known x = given;
  if (Rank(x) == 2) {
    const Known* wider = AddOne("Unsqueeze", {&x, List({0})});
    if (wider == nullptr) return;
    x = *wider;
  }
  if (Rank(x) < 3) return;
  const size_t spatial = Rank(x) - 2;
  Ints kernel, strides, dilations, before, after;
  for (size_t i = 0; i < spatial; ++i) {
    kernel.push_back(1 + Below(3));
    strides.push_back(1 + Below(3));
    dilations.push_back(Chance(75) ? 1 : 2);
    before.push_back(Below(kernel.back()));
    after.push_back(Below(kernel.back()));
  }
  ModelNode node{Chance(50) ? "MaxPool" : "AveragePool", {}, {}};
  node.attrs = {{"kernel_shape", kernel}, {"strides", strides}, {"ceil_mode", {Below(2)}}};
  // Of AveragePool, operator set 18 has none.
  if (node.op == "MaxPool" && Chance(30)) node.attrs["dilations"] = dilations;
  if (node.op == "AveragePool") node.attrs["count_include_pad"] = {Below(2)};
  if (Chance(15)) {
    node.attrs["ceil_mode"] = {0};
    node.texts["auto_pad"] = Chance(50) ? "SAME_UPPER" : "SAME_LOWER";
  } else if (Chance(60)) {
    before.insert(before.end(), after.begin(), after.end());
    node.attrs["pads"] = before;
  }
  const auto out = Add(std::move(node), {&x}, 1);
  if (!out.empty()) KeepData(out[0]);
}

// A scale for an axis, f32 [1]: a constant, or an extent by another.
const Known* Maker::AnyScale(const Known& x, size_t axis) {
  if (Chance(65))
    return Constant({kFloat, {1}, {Pick<long double>({1, 1, 2, 2, 0.5, 0.25, 3, 1.5, 0.75})}});
  const Known* shape = AddOne("Shape", {&x});
  const Known* extent = AddOne("Gather", {shape, List({static_cast<int64_t>(axis)})});
  const Known* wanted = AsList(AnyInt());
  if (extent == nullptr || wanted == nullptr || Length(*wanted) != 1) return nullptr;
  return AddOne("Div", {AddOne("Cast", {wanted}, {{"to", {kFloat}}}),
                        AddOne("Cast", {extent}, {{"to", {kFloat}}})});
}

void Maker::MakeResize(const Known& x) {
  const size_t rank = Rank(x);
  if (rank == 0) return;
  ModelNode node{"Resize", {}, {}};
  if (Chance(80)) {
    node.texts["coordinate_transformation_mode"] =
        Pick<std::string>({"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"});
  }
  node.texts["mode"] = Chance(70) ? "nearest" : "linear";
  if (node.texts["mode"] == "nearest" && Chance(80)) {
    node.texts["nearest_mode"] =
        Pick<std::string>({"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"});
  }
  // Most axes stay as they are.
  std::vector<const Known*> parts;
  const bool by_sizes = Chance(60);
  const Known* shape = AddOne("Shape", {&x});
  for (size_t i = 0; i < rank; ++i) {
    const bool stays = Chance(50);
    if (by_sizes && stays) {
      parts.push_back(AddOne("Gather", {shape, List({static_cast<int64_t>(i)})}));
    } else if (by_sizes && Chance(30)) {
      const Known* extent = AddOne("Gather", {shape, List({static_cast<int64_t>(i)})});
      parts.push_back(AddOne(Chance(60) ? "Mul" : "Div", {extent, List({2})}));
    } else if (by_sizes) {
      parts.push_back(ListOf(1, {1, 2, 3, 5, 8}, 60));
    } else {
      parts.push_back(stays ? Constant({kFloat, {1}, {1}}) : AnyScale(x, i));
    }
    if (parts.back() == nullptr) return;
  }
  const Known* all = AddOne("Concat", parts, {{"axis", {0}}});
  if (all == nullptr) return;
  std::vector<const Known*> inputs = {&x, nullptr, all};
  if (by_sizes) inputs = {&x, nullptr, nullptr, all};
  const auto out = Add(std::move(node), inputs, 1);
  if (!out.empty()) KeepData(out[0]);
}

}  // namespace kiln::symbols
