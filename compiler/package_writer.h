// SPDX-License-Identifier: Apache-2.0
// Makes a package (exec/package/package.h) of Programs and of kernels that a cache holds.
//
//   PackageWriter writer(inputs, outputs, options.math);
//   KILN_RETURN_IF_ERROR(writer.Add(*Target::Parse("x86-64-v3"), variant));  // any number of them
//   KILN_RETURN_IF_ERROR(writer.Write(*service.store(), {.key = &key}, append));
//
// The same variants, kernels and options give the same bytes; with `compress`, of one version of
// libzstd. Constants are read where they lie and handed on piece by piece.
#ifndef KILN_COMPILER_PACKAGE_WRITER_H_
#define KILN_COMPILER_PACKAGE_WRITER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/model_notes.h"
#include "base/target.h"
#include "base/tensor.h"
#include "compiler/machine_of.h"
#include "exec/package/package.pb.h"
#include "exec/package/packaged_weights.h"
#include "exec/package/test_case.h"
#include "exec/provider.h"
#include "persistent_cache/entry.h"
#include "persistent_cache/key.h"
#include "persistent_cache/signature.h"
#include "persistent_cache/store.h"

namespace kiln {

// The same kernels make the same files wherever and whenever they were built: the time it took and
// the machine that validated them stay behind.
void LeaveOutWhatWasMeasured(Entry& entry);

struct PackageWriteOptions {
  const SigningKey* key = nullptr;  // null: not signed
  bool compress = false;            // constants with Zstandard, where that saves a tenth
};

class PackageWriter {
 public:
  PackageWriter(const std::vector<PortInfo>& inputs, const std::vector<PortInfo>& outputs,
                MathMode math);

  // A variant without kernel handles, compiled for `target`; of two with the same Program and
  // guards the first counts. The callees of a script are those of CompileScript (compile_script.h).
  // kUnimplemented: a step of it is a function of the caller's.
  absl::Status Add(Target target, const Variant& variant);

  // A constant of a variant that was added, as a library operator wants it (packaged_weights.h).
  void AddPacked(const PackagedWeights::Packed& packed);

  // For `kiln run --self-test`. kInvalidArgument: it does not fit the ports.
  absl::Status AddTestCase(const TestCase& test);
  void SetNotes(const ModelNotes& notes);

  // Hands on the file, piece by piece. Kernels that `store` has no code of are left to the VM.
  // kInvalidArgument: nothing was added; kFailedPrecondition: libcrypto or libzstd is not
  // installed; what `append` answers.
  using AppendFn = std::function<absl::Status(absl::string_view)>;
  absl::Status Write(Store& store, const PackageWriteOptions& options,
                     const AppendFn& append) const;
  // The same with all kernels left to the VM.
  absl::Status WriteForVm(const AppendFn& append) const;
  // In memory.
  absl::StatusOr<std::string> Encode(Store& store, const PackageWriteOptions& options = {}) const;

 private:
  packaged::Target& TargetOf(Target target);
  absl::StatusOr<packaged::Variant> Stored(Target target, const Variant& variant);
  packaged::Constant Stored(const Tensor& constant);
  absl::Status WriteEntries(std::vector<Entry> entries, const PackageWriteOptions& options,
                            const AppendFn& append) const;

  const MathMode math_;
  const std::vector<PortInfo> inputs_, outputs_;
  packaged::Package package_;
  std::vector<Tensor> blobs_;                         // dense
  std::map<std::string, int> blob_of_;                // by digest
  std::map<std::pair<const void*, size_t>, int> at_;  // by where one lay that was hashed already
  std::map<CacheKey, std::vector<int64_t>> kernels_;  // with a size class that covers all choices
};

}  // namespace kiln

#endif  // KILN_COMPILER_PACKAGE_WRITER_H_
