// SPDX-License-Identifier: Apache-2.0
#include "schedule/cuda/grid_shape.h"

#include <algorithm>
#include <cmath>

#include "schedule/cuda/streaming.h"

namespace kiln {
namespace {

double Quotient(double a, double b) { return std::ceil(a / b); }

}  // namespace

int32_t GridShape::ReducedDim() const {
  for (size_t e = 0; e < kernel_.stages.size(); ++e)
    if (counts_.IsReduction(e)) return counts_.stage(e).over.back();
  return -1;
}

double GridShape::Outer() const {
  const auto along = static_cast<int32_t>(counts_.loops().along);
  double outer = 1;
  for (int32_t d = 0; d < kernel_.innermost(); ++d)
    if (!counts_.loops().transposes || d != along) outer *= counts_.extent(d);
  return outer;
}

double GridShape::Blocks() const {
  const double row = counts_.extent(kernel_.innermost());
  const double columns = static_cast<double>(grid_.columns);
  if (Tiled()) return TileBlocks(1);
  const auto along = static_cast<int32_t>(counts_.loops().along);
  double outer = Outer();
  if (counts_.loops().transposes)
    return Quotient(row, columns) * Quotient(counts_.extent(along), columns) * outer;
  outer = Quotient(outer, static_cast<double>(grid_.rows * (counts_.OneNest() ? grid_.steps : 1)));
  return counts_.OneNest() ? Quotient(row, Vector() * columns) * outer : outer;
}

double GridShape::TileBlocks(double pieces) const {
  const int32_t dim = ReducedDim();
  double planes = pieces, width = 1;
  for (int32_t d = 0; d < kernel_.num_iterated(); ++d)
    if (d != dim) (d < dim ? planes : width) *= counts_.extent(d);
  return Quotient(width, Vector() * static_cast<double>(grid_.columns)) * planes;
}

double GridShape::IdleFor(double length) const {
  if (grid_.parts == 1 || length <= 0) return 1;
  const auto run = static_cast<double>(grid_.run);
  const double most = Quotient(Quotient(length, run), Parts()) * std::min(run, length);
  return std::max(1.0, most * Parts() / length);
}

double GridShape::HalfWarpsFor(double length) const {
  const double at_work = std::min(Parts(), Quotient(length, static_cast<double>(grid_.run)));
  const double lanes = std::max(1.0, at_work) * Threads() / Parts();
  return grid_.parts == 1 ? 1 : Quotient(lanes, kWarp) * kWarp / lanes;
}

}  // namespace kiln
