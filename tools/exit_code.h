// SPDX-License-Identifier: Apache-2.0
// Exit codes of the command line: a contract (docs/cli.md).
#ifndef KILN_TOOLS_EXIT_CODE_H_
#define KILN_TOOLS_EXIT_CODE_H_

#include <span>

#include "absl/status/status.h"

namespace kiln {

enum ExitCode : int {
  kExitOk = 0,
  kExitDiffers = 1,  // a result differs or a check failed
  kExitUsage = 2,
  kExitModel = 3,        // the model is invalid
  kExitUnsupported = 4,  // an operator, type or shape that Kiln cannot run
  kExitDevice = 5,       // device or compiler missing
  kExitCache = 6,
  kExitIo = 7,
  kExitBug = 70,
};

// What each of them means, in one phrase.
struct ExitCodeRow {
  ExitCode code;
  const char* meaning;
};
std::span<const ExitCodeRow> AllExitCodes();

// What a failure while reading, compiling or running a model exits with.
int ModelExit(const absl::Status& status);

// What a failure in what the user typed, or in a file the user named, exits with.
int UsageExit(const absl::Status& status);

// What a failure in flags that are no model and no file exits with: a device that is not there, or
// wrong usage.
int OptionsExit(const absl::Status& status);

// Prints "kiln: <message>" to stderr and returns `code`.
int Fail(const absl::Status& status, int code);

}  // namespace kiln

#endif  // KILN_TOOLS_EXIT_CODE_H_
