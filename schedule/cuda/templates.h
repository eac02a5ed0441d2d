// SPDX-License-Identifier: Apache-2.0
// The templates of CUDA: one line for each.
#ifndef KILN_SCHEDULE_CUDA_TEMPLATES_H_
#define KILN_SCHEDULE_CUDA_TEMPLATES_H_

#include "schedule/cuda/columns.h"
#include "schedule/cuda/device_scatter.h"
#include "schedule/cuda/device_stages.h"
#include "schedule/cuda/long_rows.h"
#include "schedule/cuda/streaming.h"
#include "schedule/cuda/tiles.h"
#include "schedule/cuda/warp_rows.h"

// Of candidates that cost the same, one of the first template is chosen.
//
// X(Name): the struct is Name, its record kName, its builder in halide_gen/cuda/ BuildName.
#define KILN_CUDA_TEMPLATES(X) \
  X(Streaming)                 \
  X(Tiles)                     \
  X(WarpRows)                  \
  X(LongRows)                  \
  X(Columns)                   \
  X(DeviceScatter)             \
  X(DeviceStages)

#endif  // KILN_SCHEDULE_CUDA_TEMPLATES_H_
