// SPDX-License-Identifier: Apache-2.0
// What was measured of several ways to do the same on this machine: the executor's view of tune
// records (compiler/tune_records.h).
#ifndef KILN_EXEC_MEASURED_CHOICES_H_
#define KILN_EXEC_MEASURED_CHOICES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

struct Measured {
  struct Time {
    std::string way;  // text of a schedule, or name of an implementation
    double ns = 0;    // infinity: it cannot be built, or fails
  };
  std::string winner;       // one of `times`; empty: nothing could be measured
  int rounds = 0;           // in which it was compared; 0: too short to tell
  double ms = 0;            // that measuring took
  std::string at;           // the extents measured at: "64,768;4096,768"
  std::vector<Time> times;  // first what is chosen without a measurement
};

// Thread-safe.
class MeasuredChoices {
 public:
  virtual ~MeasuredChoices() = default;
  // Of a library operator with these operands. What comes back may be forged: a winner that is none
  // of the ways at hand counts for nothing.
  virtual std::optional<Measured> FindLibrary(const std::string& request) = 0;
  virtual void KeepLibrary(const std::string& request, const Measured& measured) = 0;
  // Whether what has no record is to be measured.
  virtual bool measures() const = 0;
};

}  // namespace kiln

#endif  // KILN_EXEC_MEASURED_CHOICES_H_
