// SPDX-License-Identifier: Apache-2.0
// A package: a model compiled ahead of time, in one file that needs neither compiler nor cache.
//
//   absl::StatusOr<kiln::Model> model = kiln::LoadPackage("resnet50.kiln");
//   auto y = model->Run({{"x", x}});
//
// The file has the form of a pack (persistent_cache/pack.h): the entry PackagePreimage() with the
// Programs of each target (package.proto), an entry for each kernel, as in the cache, and one for
// each constant. Every byte is checked before anything runs, and code is that of the text and
// schedule that the Program has, whatever key it names. The Programs are those of the best
// target that this CPU can run; a kernel without code, or whose code this CPU cannot run, runs on
// the VM, with the same bits.
//
// Code that the builder's CPU could not run, built for another target, was never compared with the
// VM: it is marked `unvalidated`. PackageValidation::kFirstUse asks kiln-validate about every
// kernel on this CPU before it runs.
//
// Inputs that break the guards of all stored variants are kNotFound, with the guard's text. Code in
// a package runs as you: load packages of those whose programs you would run.
#ifndef KILN_EXEC_PACKAGE_H_
#define KILN_EXEC_PACKAGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "exec/package.pb.h"
#include "exec/provider.h"
#include "exec/validate/validator.h"
#include "kiln/model.h"
#include "persistent_cache/entry.h"
#include "persistent_cache/key.h"
#include "persistent_cache/pack.h"

namespace kiln {

Preimage PackagePreimage();
// Under which the elements with this digest lie.
Preimage ConstantPreimage(absl::string_view digest);

class Package : public VariantProvider {
 public:
  // kDataLoss: damaged, of another version, or no package; kNotFound and the like for the file.
  // `validator`: path of kiln-validate; empty: looked for, see base/child_process.h.
  static absl::StatusOr<std::shared_ptr<Package>> Open(
      absl::string_view path, PackageValidation validate = PackageValidation::kTrust,
      const std::string& validator = "");

  // The same of bytes that `owner` keeps as they are; `name` is what messages call them.
  static absl::StatusOr<std::shared_ptr<Package>> OpenBytes(absl::string_view bytes,
                                                            std::shared_ptr<const void> owner,
                                                            absl::string_view name);
  // Only what inputs() and outputs() of it would be; no kernel is looked at. `bytes`: in place of
  // the file.
  static absl::StatusOr<std::shared_ptr<Package>> OpenPorts(
      absl::string_view path, std::optional<absl::string_view> bytes = std::nullopt);

  const std::vector<PortInfo>& inputs() const override { return inputs_; }
  const std::vector<PortInfo>& outputs() const override { return outputs_; }
  absl::StatusOr<std::shared_ptr<const Variant>> Get(const std::vector<InputInfo>& inputs) override;

  struct Target {
    std::string name;
    int variants = 0;
    int kernels = 0;      // distinct ones with code
    int unvalidated = 0;  // of these, what the builder could not run
    int64_t bytes = 0;    // of their entries
  };
  std::vector<Target> targets() const;
  // Of the target in use: kernels that run compiled, and on the VM.
  int compiled() const { return compiled_; }
  int on_vm() const { return on_vm_; }
  // Of those on the VM: whose code kiln-validate refused, and whose code it could not compare.
  int refused() const { return refused_; }
  int unvalidated() const { return unvalidated_; }

 private:
  Package() = default;
  // `file` null: that at `path`.
  static absl::StatusOr<std::shared_ptr<Package>> OpenFile(std::unique_ptr<ReadableFile> file,
                                                           absl::string_view path,
                                                           std::unique_ptr<Validator> validator,
                                                           bool ports_only);
  absl::Status Read(bool ports_only);
  // An entry that the package names: kDataLoss where it is not there.
  absl::StatusOr<Entry> ReadEntry(const CacheKey& key, const std::string* preimage);
  // Whether the code of an entry may run; where it may not, counts it and warns: once for each
  // kernel, or for all where there is no kiln-validate.
  bool MayRun(const Entry& entry, const program::KernelDef& def);
  absl::StatusOr<Variant> Restore(const packaged::Variant& stored, bool run_code);
  absl::StatusOr<Tensor> Restore(const packaged::Constant& stored);
  absl::StatusOr<std::shared_ptr<KernelHandle>> Kernel(const program::KernelDef& def,
                                                       const program::KernelChoice& choice,
                                                       bool run_code);

  std::unique_ptr<Pack> pack_;
  packaged::Package stored_;
  std::vector<PortInfo> inputs_, outputs_;
  std::vector<std::shared_ptr<const Variant>> variants_;          // immutable after Open
  std::map<std::string, std::shared_ptr<KernelHandle>> kernels_;  // by key, schedule and text
  std::map<std::string, Tensor> constants_;                       // by digest
  std::set<CacheKey> read_;                                       // entries that were checked
  std::unique_ptr<Validator> validator_;                          // null: the builder is trusted
  int compiled_ = 0, on_vm_ = 0, refused_ = 0, unvalidated_ = 0;
  bool warned_of_absence_ = false;
};

}  // namespace kiln

#endif  // KILN_EXEC_PACKAGE_H_
