// SPDX-License-Identifier: Apache-2.0
#include "exec/vm/sweep.h"

#include <algorithm>
#include <set>

namespace kiln::vm {
namespace {

constexpr int32_t kDim = 0;  // the one that is swept

bool SumsOverIt(const Pass& pass) {
  return pass.shape == Pass::Shape::kOuter && pass.over == kDim && pass.rows.empty();
}

bool HasItOutermost(const Pass& pass) {
  return pass.over != kDim && !pass.rows.empty() && pass.rows[0] == kDim;
}

// Whether a read of a temporary is at the own coordinate of the dim.
bool ReadsOwn(const Program& program, const Read& read) {
  const std::vector<int32_t>& dims = program.temps[static_cast<size_t>(read.ref)].stage_dims;
  const auto axis = std::find(dims.begin(), dims.end(), kDim);
  if (axis == dims.end()) return false;
  const IndexExpr& index = read.linear[static_cast<size_t>(axis - dims.begin())];
  return index.IsDim() && index.terms[0].dim == kDim;
}

}  // namespace

size_t SweptPasses(const Program& program) {
  if (program.wide || program.prefix > 0) return 0;
  std::set<int32_t> made;  // temporaries
  bool sums = false;
  size_t passes = 0;
  for (const Pass& pass : program.passes) {
    if (!SumsOverIt(pass) && !HasItOutermost(pass)) break;
    const auto first = program.reads.begin() + static_cast<ptrdiff_t>(pass.reads_begin),
               last = program.reads.begin() + static_cast<ptrdiff_t>(pass.reads_end);
    if (!std::all_of(first, last, [&](const Read& read) {
          const bool of_swept = read.source == ReadSource::kStage && made.count(read.ref) != 0;
          return !of_swept || ReadsOwn(program, read);
        }))
      break;
    for (const Sink& sink : pass.sinks) {
      if (sink.kind != Sink::Kind::kOutput) made.insert(sink.ref);
    }
    sums = sums || SumsOverIt(pass);
    ++passes;
  }
  return sums && passes > 1 ? passes : 0;
}

bool MaySweep(const Launch& launch) {
  const Program& program = *launch.program;
  for (size_t p = 0; p < program.swept; ++p) {
    const Units& units = launch.units[p];
    if (units.count() == 0 || (!SumsOverIt(program.passes[p]) && units.parts != 1)) return false;
  }
  return program.swept > 0;
}

int64_t SweptBlocks(const Launch& launch) {
  return (launch.extents[kDim] + kOuterReduceBlock - 1) / kOuterReduceBlock;
}

std::pair<int64_t, int64_t> UnitsOfBlock(const Launch& launch, size_t pass, int64_t block) {
  const Units& units = launch.units[pass];
  if (SumsOverIt(launch.program->passes[pass]))
    return {block * units.vec_chunks, (block + 1) * units.vec_chunks};
  const int64_t of_row = units.count() / launch.extents[kDim];
  const int64_t first = block * kOuterReduceBlock,
                last = std::min(first + kOuterReduceBlock, launch.extents[kDim]);
  return {first * of_row, last * of_row};
}

}  // namespace kiln::vm
