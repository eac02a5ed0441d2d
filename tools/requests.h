// SPDX-License-Identifier: Apache-2.0
// A program that a driver times in turn with others (bench/interleaved.py): one JSON request per
// line on stdin, one answer per line on stdout.
//
//   {"cmd": "version"}                            -> {"version": "kiln 0.1.0"}
//   {"cmd": "load", ...}                          -> {"ok": true, ...}  prepared and run once
//                                                 -> {"ok": false, "error": "why"}  nothing is
//                                                    loaded then
//   {"cmd": "time", "n": 5, "warm": 1, "budget_s": 2}
//       -> {"ms": [..]}  n timed runs after `warm` others, fewer when the budget is spent
//   {"cmd": "quit"}                               ends, without an answer
//
// What cannot be answered is refused as a load is.
#ifndef KILN_TOOLS_REQUESTS_H_
#define KILN_TOOLS_REQUESTS_H_

#include <functional>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace kiln {

struct Served {
  // What a "load" asks for; the answer's members beside "ok". May throw json::exception, for a
  // member of another type.
  std::function<absl::StatusOr<nlohmann::json>(const nlohmann::json& request)> load;
  // One run of what was loaded last.
  std::function<absl::Status()> run;
};

// Answers until "quit" or the end of stdin.
void AnswerRequests(const Served& served);

}  // namespace kiln

#endif  // KILN_TOOLS_REQUESTS_H_
