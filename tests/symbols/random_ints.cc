// SPDX-License-Identifier: Apache-2.0
#include "tests/symbols/maker.h"

namespace kiln::symbols {

const Known* Maker::Extent(const Known* shape) {
  const int64_t rank = Length(*shape);
  if (rank == 0) return Number(1);
  const int64_t at = Below(rank) - (Chance(20) ? rank : 0);
  if (Chance(60))
    return AddOne("Gather", {shape, Chance(50) ? Number(at) : List({at})}, {{"axis", {0}}});
  return AddOne("Slice", {shape, List({at}), List({at == -1 ? INT64_MAX : at + 1}), List({0})});
}

void Maker::AddShapes() {
  for (const Known& x : data_) {
    const Known* shape = AddOne("Shape", {&x});
    if (shape == nullptr) continue;
    shapes_.push_back(shape);
    for (int i = 0; i < 2; ++i) Keep(Extent(shape));
  }
}

int64_t Maker::SmallConstant() { return Pick<int64_t>({-3, -2, -1, 0, 1, 1, 2, 2, 3, 4, 5, 8}); }

const Known* Maker::AnyInt() {
  if (ints_.empty() || Chance(15))
    return Chance(50) ? Number(SmallConstant()) : List({SmallConstant()});
  return Pick(ints_);
}

const Known* Maker::AsList(const Known* x) {
  return x == nullptr || Rank(*x) == 1 ? x : AddOne("Unsqueeze", {x, List({0})});
}

const Known* Maker::AsNumber(const Known* x) {
  return x == nullptr || Rank(*x) == 0 ? x : AddOne("Squeeze", {x, List({0})});
}

void Maker::AddIntNode() {
  switch (Below(13)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
      return Keep(
          AddOne(Pick<std::string>({"Add", "Sub", "Sub", "Mul", "Div", "Div", "Mod", "Min", "Max"}),
                 {AnyInt(), AnyInt()}));
    case 5:
    case 6:
      return Keep(AddOne(Pick<std::string>({"Neg", "Neg", "Abs"}), {AnyInt()}));
    case 7: {
      const Known* narrow = AddOne("Cast", {AnyInt()}, {{"to", {kInt32}}});
      if (narrow == nullptr) return;
      const Known* other = Constant({kInt32, {}, {(long double)SmallConstant()}});
      const Known* sum = AddOne(Pick<std::string>({"Add", "Mul", "Sub"}), {narrow, other});
      return Keep(AddOne("Cast", {sum != nullptr ? sum : narrow}, {{"to", {kInt64}}}));
    }
    case 8: {
      const Known *a = AnyInt(), *b = AnyInt();
      const Known* holds = AddOne(Pick<std::string>({"Less", "Greater", "Equal"}), {a, b});
      return Keep(AddOne("Where", {holds, AnyInt(), AnyInt()}));
    }
    case 9:
      return Keep(Chance(50) ? AsList(AnyInt()) : AsNumber(AnyInt()));
    case 10: {
      const Known* shape = Pick(shapes_);
      if (text_) return Keep(AddOne("Size", {&data_[0]}));
      return Keep(AddOne(Pick<std::string>({"ReduceProd", "ReduceSum"}), {shape},
                         {{"keepdims", {Below(2)}}}));
    }
    case 11: {
      if (text_) return Keep(Extent(Pick(shapes_)));
      // As exporters scale extents: in floats.
      const Known* real = AddOne("Cast", {AnyInt()}, {{"to", {kFloat}}});
      const Known* factor = Constant({kFloat, {}, {Pick<long double>({0.5, 2, 0.25, 1.5})}});
      const Known* scaled = AddOne("Mul", {real, factor});
      const Known* whole = AddOne(Chance(50) ? "Floor" : "Ceil", {scaled});
      return Keep(AddOne("Cast", {whole}, {{"to", {kInt64}}}));
    }
    default:
      return Keep(Extent(Pick(shapes_)));
  }
}

const Known* Maker::ListOf(size_t count, const Ints& numbers, int64_t computed) {
  std::vector<const Known*> parts;
  Ints run;
  for (size_t i = 0; i < count; ++i) {
    if (ints_.empty() || !Chance(computed)) {
      run.push_back(Pick(numbers));
      continue;
    }
    if (!run.empty()) parts.push_back(List(run));
    run.clear();
    parts.push_back(AsList(Pick(ints_)));
    if (parts.back() == nullptr || Length(*parts.back()) != 1) return nullptr;
  }
  if (!run.empty() || parts.empty()) parts.push_back(List(run));
  if (parts.size() == 1) return parts[0];
  return AddOne("Concat", parts, {{"axis", {0}}});
}

}  // namespace kiln::symbols
