// SPDX-License-Identifier: Apache-2.0
// Happens-before between streams, by vector clocks, and the accesses to a piece of memory that are
// not yet known to be over.
//
// A clock says of each stream up to which of its steps somebody knows it. Step t of stream s
// happens before whatever has a clock with clock[s] >= t.
//
//   clock a = {{1, 5}};               // a launch on stream 2, after an event of stream 1's step 5
//   log.Note({0, 64, 1, 6, true}, ..) // but step 6 of stream 1 wrote: a race
//
// Accesses are intervals of bytes, so that parts of one arena may be used by several streams.
#ifndef KILN_PTX_EMULATOR_CLOCKS_H_
#define KILN_PTX_EMULATOR_CLOCKS_H_

#include <cstdint>
#include <map>
#include <vector>

namespace kiln::ptx {

using Clock = std::map<uint64_t, uint64_t>;  // stream -> step

inline void JoinClock(Clock& into, const Clock& from) {
  for (const auto& [stream, step] : from) {
    uint64_t& known = into[stream];
    if (known < step) known = step;
  }
}

struct StreamAccess {
  uint64_t begin, end;  // bytes
  uint64_t stream, step;
  bool write;
};

class AccessLog {
 public:
  // Adds an access by a step that knows `clock`. The answer: an earlier access to common bytes, one
  // of both a write, that the step does not know to be over; or null.
  const StreamAccess* Note(const StreamAccess& access, const Clock& clock);
  // Drops what all that is still to come knows to be over.
  void Forget(const Clock& known);

 private:
  std::vector<StreamAccess> accesses_;
  StreamAccess raced_ = {};
};

}  // namespace kiln::ptx

#endif  // KILN_PTX_EMULATOR_CLOCKS_H_
