// SPDX-License-Identifier: Apache-2.0
// Extents that only a run finds out: what masks leave, the places of elements that are not zero.
#include "tests/symbols/maker.h"

namespace kiln::symbols {

// Which slices of an axis are large, or which elements; [extent].
const Known* Maker::AnyMask(const Known& x, int64_t axis) {
  Ints others;
  for (int64_t i = 0; i < static_cast<int64_t>(Rank(x)); ++i) {
    if (i != axis) others.push_back(i);
  }
  const Known* row = axis < 0 ? AddOne("Reshape", {&x, List({-1})})
                     : others.empty()
                         ? &x
                         : AddOne("ReduceSum", {&x, List(others)}, {{"keepdims", {0}}});
  const Known* least = Constant(
      {kFloat, {}, {static_cast<long double>(Pick<int64_t>({-5, 0, 1, 2, 4, 9, 40, 102}))}});
  return AddOne(Pick<std::string>({"Greater", "Less"}), {row, least});
}

void Maker::MakeFound(const Known& x) {
  if (Rank(x) == 0 || made_.rounded) return;  // the mask must be the same everywhere
  const int64_t axis = Chance(80) ? Below(static_cast<int64_t>(Rank(x))) : -1;
  const Known* mask = AnyMask(x, axis);
  if (mask == nullptr) return;
  if (Chance(25)) return KeepData(AddOne("NonZero", {mask}));
  std::map<std::string, Ints> attrs;
  if (axis >= 0) attrs["axis"] = {axis};
  const Known* found = AddOne("Compress", {&x, mask}, attrs);
  if (found != nullptr && Chance(60)) Keep(Extent(AddOne("Shape", {found})));
  KeepData(found);
  // What the same mask leaves of another has as many slices.
  if (axis < 0 || !Chance(30)) return;
  const Known y = Pick(data_);
  if (static_cast<int64_t>(Rank(y)) > axis) KeepData(AddOne("Compress", {&y, mask}, attrs));
}

}  // namespace kiln::symbols
