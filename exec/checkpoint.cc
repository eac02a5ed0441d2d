// SPDX-License-Identifier: Apache-2.0
#include "exec/checkpoint.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/printable.h"
#include "base/safetensors.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

// Whether `saved` may become the state; a state that has no value yet takes any.
absl::Status CheckState(const Context& context, const std::string& name, const Tensor& saved) {
  const absl::StatusOr<Tensor> now = context.State(name);
  if (absl::IsFailedPrecondition(now.status())) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(now.status());
  if (now->dtype() == saved.dtype() && now->shape() == saved.shape()) return absl::OkStatus();
  const auto text = [](const Tensor& tensor) {
    return absl::StrCat(Name(tensor.dtype()), " [", absl::StrJoin(tensor.shape(), ", "), "]");
  };
  return absl::InvalidArgumentError(absl::StrCat("checkpoint: state \"", name, "\" is ", text(*now),
                                                 ", in the file ", text(saved)));
}

}  // namespace

absl::Status SaveCheckpoint(FileSystem& files, absl::string_view path, const Context& context,
                            const std::vector<std::string>& states,
                            const std::map<std::string, std::string>& metadata) {
  std::map<std::string, Tensor> tensors;
  for (const std::string& name : states) {
    KILN_ASSIGN_OR_RETURN(tensors[name], context.State(name));
  }
  return WriteSafetensors(files, path, tensors, metadata);
}

absl::StatusOr<std::map<std::string, std::string>> LoadCheckpoint(
    FileSystem& files, absl::string_view path, Context& context,
    const std::vector<std::string>& states) {
  KILN_ASSIGN_OR_RETURN(Safetensors read, ReadSafetensors(files, path));
  for (const std::string& name : states) {
    const Tensor* const saved = read.Find(name);
    if (saved == nullptr)
      return absl::InvalidArgumentError(
          absl::StrCat("checkpoint: \"", Printable(path), "\" has no state \"", name, "\""));
    KILN_RETURN_IF_ERROR(CheckState(context, name, *saved));
  }
  for (const auto& [name, tensor] : read.tensors) {
    if (std::find(states.begin(), states.end(), name) == states.end())
      return absl::InvalidArgumentError(absl::StrCat("checkpoint: \"", Printable(path),
                                                     "\" has a tensor \"", Printable(name),
                                                     "\", which is no state of this program"));
  }
  for (const std::string& name : states)
    KILN_RETURN_IF_ERROR(context.SetState(name, read.tensors.at(name)));
  return std::move(read.metadata);
}

}  // namespace kiln
