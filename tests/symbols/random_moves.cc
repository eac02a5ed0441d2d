// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/symbols/maker.h"

namespace kiln::symbols {

void Maker::KeepData(const Known* value) {
  if (value == nullptr) return;
  if (value->type == kInt64) value = AddOne("Cast", {value}, {{"to", {kFloat}}});
  if (value == nullptr) return;
  data_.push_back(*value);
  if (Chance(35)) {
    const Known* shape = AddOne("Shape", {value});
    if (shape != nullptr && Length(*shape) > 0) shapes_.push_back(shape);
  }
}

Known Maker::AnyData() { return Chance(60) ? data_.back() : Pick(data_); }

void Maker::AddMove() {
  const Known x = AnyData();
  switch (Below(text_ ? 14 : 28)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return MakeSlice(x);
    case 4:
      return KeepData(AddOne("Pad", {&x, ListOf(2 * Rank(x), {0, 0, 1, 2, -1, -2}, 30)}));
    case 5:
    case 6:
      return MakeReshape(x);
    case 7:
      return KeepData(AddOne(
          "Expand", {&x, ListOf(Rank(x) + static_cast<size_t>(Below(2)), {1, 1, 2, 3}, 40)}));
    case 8:
      return MakeRange();
    case 9:
      return MakeSplit(x);
    case 10:
      return MakeArrangement(x);
    case 11: {
      const Known y = Pick(data_);
      return KeepData(AddOne(Pick<std::string>({"Add", "Sub", "Max", "Min"}), {&x, &y}));
    }
    case 12: {
      if (Rank(x) == 0) return;
      const Known y = Chance(40) ? x : Pick(data_);
      return KeepData(
          AddOne("Concat", {&x, &y}, {{"axis", {Below(static_cast<int64_t>(Rank(x)))}}}));
    }
    case 13:
      return MakeGather(x);
    case 14:
      return KeepData(AddOne("Tile", {&x, ListOf(Rank(x), {1, 1, 2, 3, 0}, 30)}));
    case 15:
      return KeepData(AddOne("ConstantOfShape",
                             {ListOf(static_cast<size_t>(1 + Below(3)), {1, 2, 3, 0}, 60)},
                             {{"value", {1 + Below(9)}}}));
    case 17:
    case 18:
      return MakeResize(x);
    case 19:
      return MakeProduct(x);
    case 20:
    case 21:
      return MakePool(x);
    case 22:
      return MakeIf(x);
    case 23:
      return MakeLoop(x);
    case 24:
      return MakeScan(x);
    case 25:
    case 26:
      return MakeFound(x);
    default: {
      if (Rank(x) == 0) return;
      return KeepData(AddOne("ReduceSum", {&x, List({Below(static_cast<int64_t>(Rank(x)))})},
                             {{"keepdims", {Below(2)}}}));
    }
  }
}

void Maker::MakeSlice(const Known& x) {
  const size_t rank = Rank(x);
  if (rank == 0) return;
  const size_t count = Chance(75) ? 1 : static_cast<size_t>(1 + Below(static_cast<int64_t>(rank)));
  const int64_t first = Below(static_cast<int64_t>(rank - count + 1));
  Ints axes, steps;
  for (size_t i = 0; i < count; ++i) {
    axes.push_back(first + static_cast<int64_t>(i) - (Chance(20) ? static_cast<int64_t>(rank) : 0));
    steps.push_back(
        Pick<int64_t>({1, 1, 1, 1, 2, 3, -1, -1, -2, INT64_MAX, -INT64_MAX, INT64_MIN}));
  }
  const Ints bounds = {0, 0, 1, 2, -1, -2, -3, 5, -100, 100, INT64_MAX, INT64_MIN, INT32_MAX};
  const Known* starts = ListOf(count, bounds, 55);
  const Known* ends = ListOf(count, bounds, 55);
  if (starts == nullptr || ends == nullptr) return;
  std::vector<const Known*> inputs = {&x, starts, ends, List(axes)};
  // A slice of graph text has numbers as steps; what becomes of others is the importer's matter.
  if (Chance(40)) inputs.push_back(Chance(90) || text_ ? List(steps) : ListOf(count, {1, -1}, 60));
  if (inputs.back() == nullptr) return;
  KeepData(AddOne("Slice", inputs));
}

void Maker::MakeReshape(const Known& x) {
  const size_t rank = Rank(x);
  const Known* target = nullptr;
  switch (Below(5)) {
    case 0:
      target = List({-1});
      break;
    case 1:
      target = ListOf(rank, {0, 0, -1, 1}, 20);
      break;
    case 2: {  // its own extents, two of them joined
      const Known* shape = AddOne("Shape", {&x});
      if (shape == nullptr || rank < 2) return;
      const Known* kept =
          AddOne("Slice", {shape, List({0}), List({static_cast<int64_t>(rank) - 2}), List({0})});
      const Known* last =
          AddOne("Gather", {shape, List({static_cast<int64_t>(rank) - 1})}, {{"axis", {0}}});
      const Known* before =
          AddOne("Gather", {shape, List({static_cast<int64_t>(rank) - 2})}, {{"axis", {0}}});
      const Known* product = Chance(50) ? AddOne("Mul", {last, before}) : List({-1});
      if (kept == nullptr || product == nullptr) return;
      target = AddOne("Concat", {kept, product}, {{"axis", {0}}});
      break;
    }
    case 3:
      target = ListOf(1 + static_cast<size_t>(Below(3)), {-1, 1, 2, 0}, 50);
      break;
    default: {
      const Known* computed = AsList(AnyInt());
      const Known* rest = List({-1});
      if (computed == nullptr) return;
      target = Chance(50) ? AddOne("Concat", {computed, rest}, {{"axis", {0}}})
                          : AddOne("Concat", {rest, computed}, {{"axis", {0}}});
    }
  }
  if (target == nullptr) return;
  std::map<std::string, Ints> attrs;
  if (Chance(20)) attrs["allowzero"] = {1};
  KeepData(AddOne("Reshape", {&x, target}, attrs));
}

void Maker::MakeRange() {
  const Known* start = AsNumber(Chance(50) ? Number(SmallConstant()) : AnyInt());
  const Known* limit = AsNumber(AnyInt());
  const Known* step = AsNumber(Chance(75) ? Number(Pick<int64_t>({1, 1, 2, -1, -2, 3})) : AnyInt());
  if (Chance(25) && !text_) {
    start = AddOne("Cast", {start}, {{"to", {kFloat}}});
    limit = AddOne("Cast", {limit}, {{"to", {kFloat}}});
    step = AddOne("Cast", {step}, {{"to", {kFloat}}});
  }
  KeepData(AddOne("Range", {start, limit, step}));
}

void Maker::MakeSplit(const Known& x) {
  if (Rank(x) == 0) return;
  const int64_t axis = Below(static_cast<int64_t>(Rank(x)));
  std::vector<const Known*> out;
  if (Chance(35)) {
    const int64_t parts = 2 + Below(2);
    out = Add("Split", {&x}, {{"axis", {axis}}, {"num_outputs", {parts}}}, static_cast<int>(parts));
  } else {
    const Known* shape = AddOne("Shape", {&x});
    if (shape == nullptr) return;
    const Known* extent = AddOne("Gather", {shape, List({axis})}, {{"axis", {0}}});
    const Known* first = AsList(AnyInt());
    const Known* rest = AddOne("Sub", {extent, first});
    if (rest == nullptr || Length(*first) != 1) return;
    const Known* sizes = AddOne("Concat", {first, rest}, {{"axis", {0}}});
    if (sizes != nullptr) out = Add("Split", {&x, sizes}, {{"axis", {axis}}}, 2);
  }
  for (const Known* part : out) KeepData(part);
}

void Maker::MakeArrangement(const Known& x) {
  const auto rank = static_cast<int64_t>(Rank(x));
  switch (Below(4)) {
    case 0: {
      Ints perm;
      for (int64_t i = 0; i < rank; ++i) perm.push_back(i);
      for (int64_t i = rank; i-- > 1;)
        std::swap(perm[static_cast<size_t>(i)], perm[static_cast<size_t>(Below(i + 1))]);
      return KeepData(AddOne("Transpose", {&x}, {{"perm", perm}}));
    }
    case 1:
      return KeepData(AddOne("Unsqueeze", {&x, List({Below(rank + 1)})}));
    case 2:
      if (rank == 0) return;
      return KeepData(AddOne("Squeeze", {&x, List({Below(rank)})}));
    default:
      if (rank == 0) return;
      return KeepData(AddOne("Flatten", {&x}, {{"axis", {Below(rank + 1)}}}));
  }
}

// Elements of an axis: backwards, every second, or one that shapes choose.
void Maker::MakeGather(const Known& x) {
  if (Rank(x) == 0) return;
  const int64_t axis = Below(static_cast<int64_t>(Rank(x)));
  if (Chance(40)) return KeepData(AddOne("Gather", {&x, AnyInt()}, {{"axis", {axis}}}));
  const Known* shape = AddOne("Shape", {&x});
  if (shape == nullptr) return;
  const Known* extent = AddOne("Gather", {shape, Number(axis)}, {{"axis", {0}}});
  const Known* last = AddOne("Sub", {extent, Number(1)});
  const Known* places = Chance(50) ? AddOne("Range", {last, Number(-1), Number(-1)})
                                   : AddOne("Range", {Number(0), extent, Number(2)});
  if (places != nullptr) KeepData(AddOne("Gather", {&x, places}, {{"axis", {axis}}}));
}

}  // namespace kiln::symbols
