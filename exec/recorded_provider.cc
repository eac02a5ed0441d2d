// SPDX-License-Identifier: Apache-2.0
#include "exec/recorded_provider.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "exec/binding.h"
#include "exec/fits.h"

namespace kiln {

RecordedProvider::RecordedProvider(std::shared_ptr<VariantProvider> whole)
    : inputs_(whole->inputs()),
      outputs_(whole->outputs()),
      updatable_(whole->updatable()),
      whole_(std::move(whole)) {}

std::shared_ptr<VariantProvider> RecordedProvider::whole() const {
  const MutexLock lock(mutex_);
  return whole_;
}

void RecordedProvider::GiveUp(std::shared_ptr<const Variant> variant) {
  std::shared_ptr<VariantProvider> gone;  // without the lock: its threads may have work to end
  const MutexLock lock(mutex_);
  if (whole_ == nullptr) return;
  gone = std::move(whole_);
  variant_ = std::move(variant);
}

absl::StatusOr<std::shared_ptr<const Variant>> RecordedProvider::Get(
    const std::vector<InputInfo>& inputs) {
  if (const auto provider = whole()) return provider->Get(inputs);
  const MutexLock lock(mutex_);
  const Guard* broken = nullptr;
  if (Fits(*variant_, inputs, &broken)) return variant_;
  return absl::FailedPreconditionError(absl::StrCat(
      "record_level 2: what compiles for other inputs was given up after the first run",
      broken != nullptr ? absl::StrCat("; these do not fit ", broken->ToString()) : ""));
}

absl::StatusOr<std::shared_ptr<const Variant>> RecordedProvider::Instead(
    const std::shared_ptr<const Variant>& refused, const std::vector<InputInfo>& inputs) {
  if (const auto provider = whole()) return provider->Instead(refused, inputs);
  return absl::NotFoundError("no other variant: record_level 2 has given it up");
}

void RecordedProvider::ResumeAfterFork() {
  if (const auto provider = whole()) provider->ResumeAfterFork();
}

std::string RecordedProvider::ConstantIn(const MemoryRange& range) const {
  if (const auto provider = whole()) return provider->ConstantIn(range);
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < variant_->constants.size(); ++i)
    if (Overlap(RangeOf(variant_->constants[i]), range)) return absl::StrCat("number ", i);
  return "";
}

PackedConstants* RecordedProvider::packed_constants() {
  const auto provider = whole();
  return provider != nullptr ? provider->packed_constants() : nullptr;
}

MeasuredChoices* RecordedProvider::measured_choices() {
  const auto provider = whole();
  return provider != nullptr ? provider->measured_choices() : nullptr;
}

}  // namespace kiln
