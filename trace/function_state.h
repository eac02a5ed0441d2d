// SPDX-License-Identifier: Apache-2.0
// FunctionState: what a traced function has recorded, one record for each list of argument types,
// and the memory that its calls use one after the other. Belongs to one caller at a time.
#ifndef KILN_TRACE_FUNCTION_STATE_H_
#define KILN_TRACE_FUNCTION_STATE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kiln/trace.h"
#include "trace/call_table.h"
#include "trace/eager_executor.h"
#include "trace/record.h"
#include "trace/recorder.h"
#include "trace/symbolic_program.h"

namespace kiln::tracing {

struct FunctionState {
  FunctionState(const TraceOptions& of, bool is_frozen) : options(of), frozen(is_frozen) {}

  const std::string& name() const { return options.name; }
  // The record for these arguments, now the newest; null: there is none yet. An error: there must
  // not be one.
  absl::StatusOr<Record*> FindRecord(const Array* const* arguments, size_t count);
  // A new record; the one used longest ago goes where they are many. Where this throws, `record`
  // stays the caller's.
  void AddRecord(std::unique_ptr<Record>&& record);
  // What a new record compiles for its segment of this number, operations [begin, end) of the log:
  // where another record has the same but for extents, a program for all of them. Else null.
  std::shared_ptr<SymbolicProgram> FindSymbolic(size_t segment, const Log& log, size_t begin,
                                                size_t end,
                                                const std::vector<uint32_t>& results) const;
  // Of what a call has done beside its operations.
  absl::Status CheckFreezable(bool reads, bool excludes) const;
  // Forgets signatures that no record has, where there are many. Before a call.
  void Tidy();

  const TraceOptions options;
  const bool frozen;
  CallTable table;
  EagerExecutor eager;
  Log scratch;  // of calls that replay
  OperandTypes operands;
  std::vector<Array> arguments;
  std::vector<uint32_t> live;
  std::set<std::string, std::less<>> files;    // that records name
  std::list<std::unique_ptr<Record>> records;  // newest use first
  TraceStats stats;
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_FUNCTION_STATE_H_
