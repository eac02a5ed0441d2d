// SPDX-License-Identifier: Apache-2.0
// LoopDetector: notices that a log gets the same operations again and again, as a loop writes them,
// so that it can be run and begun anew before it has a structure of its own for each length.
//
// Each operation is a token: what it is, the distances to the operations whose results it takes,
// and whether operands are arrays or numbers from outside. When the last tokens are a repetition of
// those one period before, for a period and kLeast tokens at least, the log is cut, where its
// length is a whole number of periods: the next logs of the loop are then cut at the same place of
// its body, and are all alike. Takes no memory once it has grown.
#ifndef KILN_TRACE_LOOP_DETECTOR_H_
#define KILN_TRACE_LOOP_DETECTOR_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/log.h"
#include "trace/words.h"

namespace kiln::tracing {

class LoopDetector {
 public:
  // The last operation of the log, a call. True: cut behind it.
  bool Add(const Log& log) {
    const uint64_t token = TokenOf(log);
    const size_t at = tokens_.size();
    tokens_.push_back(token);
    Last& last = last_[token % last_.size()];
    if (period_ > 0 && tokens_[at - period_] == token) {
      ++run_;
    } else {
      const bool seen = last.at < at && tokens_[last.at] == token;
      period_ = seen ? at - last.at : 0;
      run_ = seen ? 1 : 0;
    }
    last.at = at;
    if (at + 1 >= kMost) return true;
    return period_ > 0 && run_ >= std::max(period_, kLeast) && (at + 1) % period_ == 0;
  }
  void Clear() {
    tokens_.clear();
    period_ = run_ = 0;
  }

 private:
  // speed: a run costs about as much as so many operations are worth on small arrays.
  static constexpr size_t kLeast = 32;
  // compile time: of one program.
  static constexpr size_t kMost = 2048;
  struct Last {
    size_t at = 0;
  };

  static uint64_t TokenOf(const Log& log) {
    const Operation& operation = log.operations.back();
    const size_t index = log.operations.size() - 1;
    uint64_t token = operation.signature->id;
    for (const uint32_t id : log.OperandsOf(operation)) {
      if (id == kAbsent) {
        token = Mix(token, 1);
        continue;
      }
      const LogValue& value = log.values[id];
      token = Mix(token, static_cast<uint64_t>(value.kind) + 2);
      token = value.kind == LogValue::Kind::kResult
                  ? Mix(Mix(token, index - value.origin),
                        id - log.operations[value.origin].first_result)
                  : Mix(token, static_cast<uint64_t>(value.type.type));
    }
    return token;
  }

  std::vector<uint64_t> tokens_;
  std::array<Last, 256> last_ = {};
  size_t period_ = 0, run_ = 0;
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_LOOP_DETECTOR_H_
