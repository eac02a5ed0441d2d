// SPDX-License-Identifier: Apache-2.0
// The states of a context in a safetensors file, from which another context, of this process or of
// a later one, goes on with the same bits.
//
//   KILN_RETURN_IF_ERROR(SaveCheckpoint(files, "run.safetensors", context, {"p", "m", "step"}));
//   ...
//   KILN_ASSIGN_OR_RETURN(auto metadata, LoadCheckpoint(files, "run.safetensors", context, names));
//
// A process that is killed while it saves leaves the file that was there (base/safetensors.h).
#ifndef KILN_EXEC_CHECKPOINT_H_
#define KILN_EXEC_CHECKPOINT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "kiln/model.h"

namespace kiln {

// `states`: names of their inputs. Between runs of the context. Errors are those of Context::State
// and WriteSafetensors.
absl::Status SaveCheckpoint(FileSystem& files, absl::string_view path, const Context& context,
                            const std::vector<std::string>& states,
                            const std::map<std::string, std::string>& metadata = {});

// Sets these states, which the file must have, and no others, and gives the file's metadata.
// kInvalidArgument names a state that is missing, another tensor, or a type or shape that differs
// from that of the state; no state has changed then. Errors of ReadSafetensors.
absl::StatusOr<std::map<std::string, std::string>> LoadCheckpoint(
    FileSystem& files, absl::string_view path, Context& context,
    const std::vector<std::string>& states);

}  // namespace kiln

#endif  // KILN_EXEC_CHECKPOINT_H_
