// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/strided_loads.h"

#include <cstdint>

namespace kiln {

using Halide::Expr;
using Halide::Internal::Broadcast;
using Halide::Internal::Load;
using Halide::Internal::Ramp;
using Halide::Internal::Shuffle;

Expr StridedLoads::visit(const Load* op) {
  constexpr int64_t kMostApart = 8;  // speed
  const auto* ramp = op->index.as<Ramp>();
  if (ramp == nullptr || !op->type.is_vector()) return MaskReader::visit(op);
  const auto apart = Halide::Internal::as_const_int(ramp->stride);
  const std::optional<RowMask> row = FindRowMask(Unnamed(op->predicate));
  const bool picks = apart && *apart > 1 && *apart <= kMostApart && row &&
                     row->lanes == ramp->lanes && Halide::Internal::is_const_one(row->step);
  if (!picks) return MaskReader::visit(op);
  const int step = static_cast<int>(*apart), lanes = ramp->lanes, all = lanes * step;
  const Expr held = Halide::min(row->limit - row->first + (row->up_to ? 1 : 0), lanes);
  const Expr mask = Ramp::make(0, 1, all) < Broadcast::make(held * step - (step - 1), all);
  const Expr dense = Load::make(op->type.with_lanes(all), op->name, Ramp::make(ramp->base, 1, all),
                                op->image, op->param, mask, op->alignment);
  return Shuffle::make_slice(dense, 0, step, lanes);
}

}  // namespace kiln
