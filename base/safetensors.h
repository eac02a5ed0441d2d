// SPDX-License-Identifier: Apache-2.0
// Tensors by name in one file, as safetensors has them: the length of a JSON header (u64, little
// endian), the header, then the elements of all tensors back to back.
//
//   KILN_RETURN_IF_ERROR(WriteSafetensors(files, "m.safetensors", {{"w", w}}, {{"step", "7"}}));
//   KILN_ASSIGN_OR_RETURN(const Safetensors read, ReadSafetensors(files, "m.safetensors"));
//   const Tensor* w = read.Find("w");          // a view of the mapped file
//
// Files are untrusted. What is read has tensors that lie back to back from the first byte behind
// the header to the last of the file, without gaps and overlaps, each as long as its type and shape
// say, under names of which none stands twice. Files of the PyPI package are read, and the package
// reads what is written.
#ifndef KILN_BASE_SAFETENSORS_H_
#define KILN_BASE_SAFETENSORS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "base/tensor.h"

namespace kiln {

struct Safetensors {
  std::map<std::string, std::string> metadata;
  std::map<std::string, Tensor> tensors;

  const Tensor* Find(const std::string& name) const {  // null if there is none
    const auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : &found->second;
  }
};

inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;  // bytes, as the package has it

// Tensors are views of the file, mapped read-only for as long as one of them lives, or copies where
// their elements are not aligned, or are bools. Whoever cuts the file short meanwhile ends the
// process at the next read there. kDataLoss: the file breaks a rule above; kUnimplemented: a type
// that Kiln has not, as F8_E4M3; kResourceExhausted: beyond a limit; and the codes of FileSystem.
absl::StatusOr<Safetensors> ReadSafetensors(FileSystem& files, absl::string_view path);
// The same of bytes that `owner` keeps.
absl::StatusOr<Safetensors> ParseSafetensors(absl::string_view bytes,
                                             const std::shared_ptr<const void>& owner);

// Replaces the file, or leaves it (PublishFile). Equal tensors are equal bytes: wider elements come
// first, then by name, so that all are aligned. Non-dense tensors are written dense;
// kInvalidArgument: a name or metadata that is not UTF-8, a name that is reserved, a tensor that is
// not on the CPU.
absl::Status WriteSafetensors(FileSystem& files, absl::string_view path,
                              const std::map<std::string, Tensor>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace kiln

#endif  // KILN_BASE_SAFETENSORS_H_
