// SPDX-License-Identifier: Apache-2.0
// Record: what a traced function did for arguments of some types: a log, and where it was cut into
// programs: at each read of a value that was not there yet, at the begin of a region that is left
// out, and at the end.
#ifndef KILN_TRACE_RECORD_H_
#define KILN_TRACE_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kiln/tensor.h"
#include "trace/log.h"
#include "trace/program.h"

namespace kiln::tracing {

struct Record {
  Record() = default;
  ~Record();
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;
  // Value `id` of the log is a captured array that is part of the record.
  void AddCaptured(uint32_t id);

  std::vector<ValueType> arguments;
  std::vector<Device> devices;
  Log log;
  struct Segment {
    size_t end = 0;                    // operations before it
    std::unique_ptr<Program> program;  // null: nothing that is needed
  };
  std::vector<Segment> segments;
  std::vector<uint32_t> results;
  std::vector<uint32_t> captured;  // arrays that are part of the record
  std::vector<size_t> failures;    // before which operations calls failed, in order
  bool reads = false;              // the host has looked at a value
  bool excludes = false;           // it has regions that are left out
  int64_t replays = 0;
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_RECORD_H_
