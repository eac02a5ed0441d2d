// SPDX-License-Identifier: Apache-2.0
// A package: a model compiled ahead of time, in one file that needs neither compiler nor cache.
//
//   absl::StatusOr<kiln::Model> model = kiln::LoadPackage("resnet50.kiln");
//   auto y = model->Run({{"x", x}});
//
// The file (package_file.h) holds constants, which are mapped, some of them as library operators
// want them too (packaged_weights.h), and a pack
// (persistent_cache/pack.h): the entry PackagePreimage() with the Programs of each target
// (package.proto), and an entry for each kernel, as in the cache. Everything but constants is
// checked before anything runs, constants before somebody first reads them; code is
// that of the text and schedule that the Program has, whatever key it names. The Programs are those
// of the best target that this CPU can run; a kernel without code, or whose code this CPU cannot
// run, runs on the VM, with the same bits.
//
// Code that the builder's CPU could not run, built for another target, was never compared with the
// VM: it is marked `unvalidated`. PackageValidation::kFirstUse asks kiln-validate about every
// kernel on this CPU before it runs.
//
// Inputs that break the guards of all stored variants are kNotFound, with the guard's text. Code in
// a package runs as you: load packages of those whose programs you would run.
#ifndef KILN_EXEC_PACKAGE_PACKAGE_H_
#define KILN_EXEC_PACKAGE_PACKAGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/model_notes.h"
#include "exec/device_use.h"
#include "exec/package/package.pb.h"
#include "exec/package/package_file.h"
#include "exec/package/packaged_model.h"
#include "exec/package/packaged_weights.h"
#include "exec/package/test_case.h"
#include "exec/provider.h"
#include "exec/support/compute_device.h"
#include "exec/validate/validator.h"
#include "kiln/model.h"
#include "kiln/package.h"
#include "persistent_cache/entry.h"
#include "persistent_cache/key.h"
#include "persistent_cache/pack.h"

namespace kiln {

Preimage PackagePreimage();

class Package : public VariantProvider {
 public:
  // kDataLoss: damaged, of another version, or no package; kPermissionDenied: `options` demand a
  // signature that it has not; kNotFound and the like for the file. `validator`: path of
  // kiln-validate; empty: looked for, see base/child_process.h. `on`: the device that kernels run
  // on, where the package has some for it; kFailedPrecondition where it must and has not.
  static absl::StatusOr<std::shared_ptr<Package>> Open(const PackageSource& source,
                                                       const PackageOptions& options = {},
                                                       const std::string& validator = "",
                                                       DeviceUse on = {});
  // Only what inputs() and outputs() of it would be; no kernel is looked at.
  static absl::StatusOr<std::shared_ptr<Package>> OpenPorts(const PackageSource& source);
  // As Open, but nothing is made to run and no code is loaded: what is in it, for any CPU. Every
  // byte is checked.
  static absl::StatusOr<std::shared_ptr<Package>> OpenToLookAt(const PackageSource& source,
                                                               const PackageOptions& options = {});

  const std::vector<PortInfo>& inputs() const override { return model_->inputs(); }
  const std::vector<PortInfo>& outputs() const override { return model_->outputs(); }
  absl::StatusOr<std::shared_ptr<const Variant>> Get(
      const std::vector<InputInfo>& inputs) override {
    return model_->Get(inputs);
  }
  PackedConstants* packed_constants() override { return weights_.get(); }
  PackagedWeights& weights() { return *weights_; }
  // Their tensors lie in the file, and have been checked. kDataLoss: one is damaged, or does not
  // fit the ports. Not beside other calls.
  absl::StatusOr<std::vector<TestCase>> TestCases();
  ModelNotes notes() const;
  // What the file says.
  const packaged::Package& stored() const { return stored_; }
  const PackageFile& file() const { return *file_; }

  struct Target {
    std::string name;
    int variants = 0;
    int kernels = 0;      // distinct ones with code
    int unvalidated = 0;  // of these, what the builder could not run
    int64_t bytes = 0;    // of their entries
  };
  std::vector<Target> targets() const;
  // The one in use; empty where nothing is made to run.
  const std::string& target() const { return target_; }
  // Of the target in use: kernels that run compiled, and on the VM.
  int compiled() const { return compiled_; }
  int on_vm() const { return on_vm_; }
  // Of those on the VM: whose code kiln-validate refused, and whose code it could not compare.
  int refused() const { return refused_; }
  int unvalidated() const { return unvalidated_; }

 private:
  Package() = default;
  enum class Depth : uint8_t { kPorts, kLookAt, kRun };
  static absl::StatusOr<std::shared_ptr<Package>> OpenFor(Depth depth, const PackageSource& source,
                                                          const PackageOptions& options,
                                                          std::unique_ptr<Validator> validator,
                                                          DeviceUse on);
  absl::Status Read(Depth depth);
  absl::Status ReadPorts(const program::Program& ports);
  absl::Status ReadTarget();
  // What this CPU does not need is whole, too: damage shows on the first machine.
  absl::Status CheckOtherEntries();
  // An entry that the package names: kDataLoss where it is not there.
  absl::StatusOr<Entry> ReadEntry(const CacheKey& key, const std::string* preimage);
  // Whether the code of an entry may run; where it may not, counts it and warns: once for each
  // kernel, or for all where there is no kiln-validate.
  bool MayRun(const Entry& entry, const program::KernelDef& def);
  absl::Status Restore(const packaged::Variant& stored, bool run_code, PackagedModel& model);
  absl::StatusOr<std::shared_ptr<PackagedModel>> Restore(const packaged::Callee& stored,
                                                         bool run_code);
  absl::StatusOr<Tensor> Restore(const packaged::Constant& stored);
  absl::StatusOr<TestCase> Restore(const packaged::TestCase& stored);
  absl::StatusOr<Tensor> Elements(const packaged::Blob& blob);
  absl::Status Restore(const packaged::PackedConstant& stored);
  absl::StatusOr<std::shared_ptr<KernelHandle>> Kernel(const program::KernelDef& def,
                                                       const program::KernelChoice& choice,
                                                       bool run_code, DeviceKind device);

  std::shared_ptr<PackageFile> file_;
  packaged::Package stored_;
  std::shared_ptr<PackagedWeights> weights_;                      // named and added to by Open
  std::shared_ptr<PackagedModel> model_;                          // immutable after Open
  std::map<std::string, std::shared_ptr<KernelHandle>> kernels_;  // by key, schedule and text
  std::map<int, Tensor> blobs_;                                   // elements, by index
  std::set<CacheKey> read_;                                       // entries that were checked
  std::unique_ptr<Validator> validator_;                          // null: the builder is trusted
  DeviceUse use_;
  ComputeDevice* on_ = nullptr;  // of use_; null: the CPU
  std::string target_;
  int compiled_ = 0, on_vm_ = 0, refused_ = 0, unvalidated_ = 0;
  bool warned_of_absence_ = false, warned_of_cpu_ = false;
};

}  // namespace kiln

#endif  // KILN_EXEC_PACKAGE_PACKAGE_H_
