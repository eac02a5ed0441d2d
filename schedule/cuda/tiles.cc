// SPDX-License-Identifier: Apache-2.0
#include "schedule/cuda/tiles.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedule/analysis.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

// The dims along which inputs are contiguous, but for the innermost.
std::vector<int32_t> DimsAlong(const Kernel& kernel) {
  std::vector<int32_t> dims;
  for (size_t k = 0; k < kernel.inputs.size(); ++k)
    if (const int32_t along = TransposedAlong(kernel, k); along >= 0) dims.push_back(along);
  std::sort(dims.begin(), dims.end());
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  return dims;
}

Decision AcceptsTiles(const Kernel& kernel) {
  if (std::any_of(kernel.stages.begin(), kernel.stages.end(), IsReduction))
    return Decision::No("it has a reduction");
  if (DimsAlong(kernel).empty())
    return Decision::No("no input is contiguous along another dim than the innermost");
  if (!OutputsInOrder(kernel, /*rows=*/false))
    return Decision::No("an output is not dense over all dims in their order");
  return StagesReadInPlace(kernel);
}

std::vector<Schedule> TileCandidates(const Kernel& kernel, const SizeClass&, const Machine&) {
  std::vector<Schedule> candidates;
  for (const int32_t along : DimsAlong(kernel)) {
    for (const int64_t rows : {8, 16}) {  // speed: 256 threads, or 512
      Tiles tiles;
      tiles.along = along;
      tiles.rows = rows;
      if (tiles.CheckFor(kernel).ok()) candidates.emplace_back(kTiles, tiles);
    }
  }
  return candidates;
}

}  // namespace

std::vector<int64_t> Tiles::Transposed(const Kernel& kernel) const {
  std::vector<int64_t> inputs;
  for (size_t k = 0; k < kernel.inputs.size(); ++k)
    if (TransposedAlong(kernel, k) == along) inputs.push_back(static_cast<int64_t>(k));
  return inputs;
}

int64_t Tiles::SharedBytes(const Kernel& kernel) const {
  int64_t bytes = 0;
  for (const int64_t input : Transposed(kernel))
    bytes += static_cast<int64_t>(SizeOf(kernel.inputs[static_cast<size_t>(input)].type));
  return bytes * kWarp * kTileStride;
}

absl::Status Tiles::CheckFor(const Kernel& kernel) const {
  if (kWarp % rows != 0)
    return absl::InvalidArgumentError(absl::StrCat("tiles: ", rows, " is no divisor of ", kWarp));
  if (Transposed(kernel).empty())
    return absl::InvalidArgumentError(
        absl::StrCat("tiles: no input is contiguous along dim ", along));
  if (SharedBytes(kernel) > kMostSharedBytes)
    return absl::InvalidArgumentError("tiles: a block needs more than 48 KiB");
  return absl::OkStatus();
}

const Template kTiles = {"tiles", "element-wise, tiles of inputs in another order are transposed",
                         AcceptsTiles, TileCandidates, Make<Tiles>};

}  // namespace kiln
