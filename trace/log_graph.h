// SPDX-License-Identifier: Apache-2.0
// Operations of a log as a graph: what steps, programs, tapes and dumps are made of.
#ifndef KILN_TRACE_LOG_GRAPH_H_
#define KILN_TRACE_LOG_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "trace/log.h"

namespace kiln::tracing {

// Of a number, or of an array that is held.
Tensor ElementsOf(const LogValue& value);

// The way from a log to a graph; what differs is where values from outside come from, and names.
class LogGraph {
 public:
  explicit LogGraph(const Log& log) : log_(log), ids_(log.values.size()) {}
  virtual ~LogGraph() = default;
  LogGraph(const LogGraph&) = delete;
  LogGraph& operator=(const LogGraph&) = delete;

  // Adds the calls among operations [begin, end).
  absl::Status Add(size_t begin, size_t end);
  // None for kAbsent; a value from outside is there from its first use on.
  absl::StatusOr<ValueId> ValueOf(uint32_t id);
  Graph graph;

 protected:
  virtual absl::StatusOr<ValueId> FromOutside(uint32_t id) = 0;
  virtual absl::StatusOr<Attrs> AttrsOf(const Operation& operation) {
    return operation.signature->attrs;
  }
  virtual std::string NodeName(const Operation& /*operation*/) { return ""; }
  virtual std::string ValueName(uint32_t /*id*/, const Operation& /*operation*/) { return ""; }

  const Log& log_;
  std::vector<ValueId> ids_;  // by value of the log; invalid: not there yet
};

// What a graph is for one operation alone, or all of a program.
enum class Constants : uint8_t {
  kFew,  // numbers that decide what is computed
  kAll,  // and what the log says is constant; attributes follow the extents that they are made of
};

// Operations [begin, end) of a log as a graph that gives `results`. Its inputs are `operands`,
// values of the log. Their extents that `other`, a log with the same operations, has otherwise are
// symbols. kUnimplemented: an attribute is made of extents that no input tells.
absl::StatusOr<Graph> ToGraph(const Log& log, size_t begin, size_t end,
                              const std::vector<uint32_t>& results, Constants constants,
                              std::vector<uint32_t>& operands, const Log* other = nullptr);

}  // namespace kiln::tracing

#endif  // KILN_TRACE_LOG_GRAPH_H_
