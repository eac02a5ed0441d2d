// SPDX-License-Identifier: Apache-2.0
// Data that scripts/test fetches before it runs anything. A test that finds none of it fails: what
// it is about would else go unchecked in silence. KILN_OFFLINE=1 says that there is no network, and
// the test is then skipped.
//
//   if (!exists(path)) KILN_LACKS_DATA("the ONNX tests", "scripts/fetch_onnx_tests");
#ifndef KILN_TESTS_BASE_FETCHED_DATA_H_
#define KILN_TESTS_BASE_FETCHED_DATA_H_

#include <cstdlib>

#include "absl/strings/string_view.h"

namespace kiln {

inline bool IsOffline() {
  const char* offline = std::getenv("KILN_OFFLINE");
  return offline != nullptr && absl::string_view(offline) == "1";
}

}  // namespace kiln

// In the body of a test or in SetUp.
#define KILN_LACKS_DATA(what, command)                                                         \
  do {                                                                                         \
    if (::kiln::IsOffline()) GTEST_SKIP() << (what) << " are not here, and KILN_OFFLINE=1";    \
    FAIL() << (what) << " are not here: run " << (command) << ", or set KILN_OFFLINE=1 where " \
           << "there is no network";                                                           \
  } while (false)

#endif  // KILN_TESTS_BASE_FETCHED_DATA_H_
