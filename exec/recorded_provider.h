// SPDX-License-Identifier: Apache-2.0
// A provider that is needed until one plan is made of it (RunOptions::record_level 2): then only
// the variant of that plan stays, and what could make others goes, unless other models hold it.
#ifndef KILN_EXEC_RECORDED_PROVIDER_H_
#define KILN_EXEC_RECORDED_PROVIDER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "exec/provider.h"

namespace kiln {

class RecordedProvider final : public VariantProvider {
 public:
  explicit RecordedProvider(std::shared_ptr<VariantProvider> whole);

  // Gives the provider up for `variant`, one of its. What the provider lent (packed constants,
  // measurements) must not be asked for any more.
  void GiveUp(std::shared_ptr<const Variant> variant);

  const std::vector<PortInfo>& inputs() const override { return inputs_; }
  const std::vector<PortInfo>& outputs() const override { return outputs_; }
  const std::vector<Tensor>& updatable() const override { return updatable_; }
  absl::StatusOr<std::shared_ptr<const Variant>> Get(const std::vector<InputInfo>& inputs) override;
  absl::StatusOr<std::shared_ptr<const Variant>> Instead(
      const std::shared_ptr<const Variant>& refused, const std::vector<InputInfo>& inputs) override;
  void ResumeAfterFork() override;
  std::string ConstantIn(const MemoryRange& range) const override;
  PackedConstants* packed_constants() override;
  MeasuredChoices* measured_choices() override;

 private:
  std::shared_ptr<VariantProvider> whole() const;  // null: given up

  const std::vector<PortInfo> inputs_, outputs_;
  const std::vector<Tensor> updatable_;
  mutable Mutex mutex_;
  std::shared_ptr<VariantProvider> whole_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Variant> variant_ ABSL_GUARDED_BY(mutex_);  // once it is given up
};

}  // namespace kiln

#endif  // KILN_EXEC_RECORDED_PROVIDER_H_
