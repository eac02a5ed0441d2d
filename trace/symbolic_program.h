// SPDX-License-Identifier: Apache-2.0
// SymbolicProgram: a compiled program with symbolic extents, for the records of a function whose
// operations differ in extents alone. It is made of two records: where an axis of an input has two
// extents it is a symbol, and axes that have the same two are the same symbol.
//
//   x * y + 1 for x [64, 3], y [3], then for x [100, 3], y [3]:  x [n0, 3], y [3]
//
// A function that makes an attribute of an extent's number (`x({Slice{0, n.number() - 1}})`) has
// other operations for each, and no symbolic program; with the extent itself (kiln::ArrayDim) they
// are the same. A number of an extent is an input. Belongs to one caller at a time.
#ifndef KILN_TRACE_SYMBOLIC_PROGRAM_H_
#define KILN_TRACE_SYMBOLIC_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "trace/engine.h"
#include "trace/log.h"

namespace kiln::tracing {

// Whether operations [begin, end) of both logs are the same but for extents.
bool SameButExtents(const Log& a, const Log& b, size_t begin, size_t end);

class SymbolicProgram {
 public:
  // Of operations [begin, end), which are the same in both. Null: no program with symbols is right
  // for both.
  static std::shared_ptr<SymbolicProgram> Of(const Log& a, const Log& b, size_t begin, size_t end,
                                             const std::vector<uint32_t>& results);

  // Whether it is right for the extents of this log, whose operations are the same as well.
  bool Fits(const Log& log) const;
  // Its inputs are those of the graphs of the logs.
  const Graph& graph() const { return graph_; }
  DeferredModel& model() { return model_; }

 private:
  Graph graph_;
  std::vector<uint32_t> operands_;  // its inputs, values of the log
  std::vector<uint32_t> results_;
  DeferredModel model_;
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_SYMBOLIC_PROGRAM_H_
