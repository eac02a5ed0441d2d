// SPDX-License-Identifier: Apache-2.0
// Batch tiles: neighbouring steps of a plan that run for one part of the batch after the other,
// where the whole batch's activations would leave the caches between a step and the next.
//
// A step can be cut into parts if part k of what it writes depends on part k of what it reads and
// on operands that all parts share, as weights. Parts of a buffer are equal and follow each other
// in memory. What is written and read within a tiling only needs memory for one part.
//
//   one after the other:  conv [8, 32, 112, 112] -> conv [8, 96, 112, 112] -> conv [8, 96, 56, 56]
//   a tiling, 8 times:     conv [1, 32, 112, 112] -> conv [1, 96, 112, 112] -> conv [1, 96, 56, 56]
//
// Threads take whole parts where that leaves them idle for an eighth of the time at most: a lane is
// a worker, a thread with buffers and scratch of its own that runs all steps of the tiling for one
// of its parts after the other. Of what lives within the tiling no thread reads what another wrote,
// and nobody waits between steps. Otherwise all threads share each step, part by part.
#ifndef KILN_EXEC_BATCH_TILING_H_
#define KILN_EXEC_BATCH_TILING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/checked_program.h"
#include "exec/operands.h"
#include "exec/placement.h"

namespace kiln {

// How a step can be cut.
struct Cut {
  int64_t parts = 0;      // any divisor of this many; 0: not at all
  bool images = false;    // the parts are images: others follow them
  std::vector<bool> cut;  // inputs, then outputs: in parts; the others are shared
  int64_t cut_bytes = 0, shared_bytes = 0;
};

// Steps [begin, end).
struct BatchTiling {
  size_t begin = 0, end = 0;
  int64_t parts = 1;
  int64_t lanes = 1;  // 1: all threads share each step
};

// Of a lane; those of the next begin where its parts end. The last lane has the most.
inline int64_t FirstPart(const BatchTiling& tiling, int64_t lane) {
  return tiling.parts * lane / tiling.lanes;
}

// Of a tiling with so many parts: a thread each, if they are busy but for an eighth of the time;
// else one for all threads.
int64_t LanesFor(int64_t parts, int64_t threads);

// Where it pays: what stays in the caches against what shared operands cost that are read once for
// each part. In order, without overlap, each of two steps and more; the same steps for any number
// of threads.
std::vector<BatchTiling> ChooseBatchTilings(const std::vector<Cut>& steps, int threads);

// Chooses tilings among the program's thunks and makes their operands those of the first part, with
// buffers for one part where no other step touches them.
std::vector<BatchTiling> TileBatch(const CheckedProgram& program, int threads,
                                   std::vector<Operands>& operands, PlacementProblem& problem);

}  // namespace kiln

#endif  // KILN_EXEC_BATCH_TILING_H_
