// SPDX-License-Identifier: Apache-2.0
// The rules of Chrome's trace-event format (Trace Event Format, the object form), as far as files
// of a program are checked by them; nothing here is of Kiln.
#ifndef KILN_TESTS_CLI_TRACE_RULES_H_
#define KILN_TESTS_CLI_TRACE_RULES_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace kiln {

// What is wrong with the text of a trace; empty: nothing.
//
// It is JSON, in UTF-8; an object whose `traceEvents` are an array, and whose `displayTimeUnit` is
// ms or ns. Of every event: `ph` is a phase of the format; `name`, `pid` and `tid` are there; `ts`
// is a number from 0 on (but of metadata), `dur` likewise with phase X; an instant's scope is g, p
// or t; a counter's args are numbers. Of a thread: B and E are balanced and named alike; slices are
// nested or disjoint.
std::vector<std::string> TraceFaults(const std::string& text);

}  // namespace kiln

#endif  // KILN_TESTS_CLI_TRACE_RULES_H_
