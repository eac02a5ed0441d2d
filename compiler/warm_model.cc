// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/warm_model.h"

#include <utility>

#include "kiln/base/log.h"
#include "kiln/base/status_macros.h"
#include "kiln/exec/fits.h"

namespace kiln {
namespace {

constexpr size_t kMostKept = 16;  // variants that one process keeps; an entry has room for as many

}  // namespace

absl::StatusOr<std::shared_ptr<WarmModel>> WarmModel::Open(absl::string_view path,
                                                           const CompileOptions& options,
                                                           std::shared_ptr<KernelService> kernels) {
  Store* const store = kernels->store();
  std::shared_ptr<WarmModel> model(new WarmModel(std::string(path), options, std::move(kernels)));
  if (store != nullptr && !options.dump && options.custom_ops.empty()) {
    // A model that no process has met is read while its digest is computed.
    auto cache =
        ProgramCache::Open(model->path_, options, *store, [&] { model->Read().IgnoreError(); });
    if (!cache.ok()) LogDebug("cache: no programs: ", cache.status().message());
    if (cache.ok()) model->cache_ = *std::move(cache);
    if (model->cache_ != nullptr && model->compiler_ != nullptr)
      model->cache_->NameConstants(*model->source_->import());
  }
  if (model->cache_ != nullptr && !model->cache_->outputs().empty()) {
    absl::StatusOr<std::vector<Variant>> found = model->cache_->Variants();
    if (found.ok() && !found->empty()) {
      for (size_t k = 0; k < found->size(); ++k)
        model->found_.push_back({std::make_shared<Variant>(std::move((*found)[k])), k});
      model->inputs_ = model->cache_->inputs();
      model->outputs_ = model->cache_->outputs();
      return model;
    }
  }
  KILN_RETURN_IF_ERROR(model->graph().status());
  model->inputs_ = model->source_->inputs();
  model->outputs_ = model->source_->outputs();
  return model;
}

absl::Status WarmModel::Read() {
  if (source_.has_value()) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(ModelSource source, ModelSource::Read(path_, options_.custom_ops));
  if (source.needs_inputs()) {
    values_ = std::make_unique<ValueVariants>(source, options_, kernels_);
  } else {
    KILN_RETURN_IF_ERROR(Verify(source.graph()));
    if (cache_ != nullptr) cache_->NameConstants(*source.import());
    compiler_ = std::make_unique<Variants>(source.graph(), options_, kernels_);
  }
  source_ = std::move(source);
  return absl::OkStatus();
}

absl::StatusOr<const Graph*> WarmModel::graph() {
  const std::lock_guard<std::mutex> lock(mutex_);
  KILN_RETURN_IF_ERROR(Read());
  return &source_->graph();
}

absl::StatusOr<Graph> WarmModel::GraphFor(const std::vector<Tensor>& inputs) {
  KILN_RETURN_IF_ERROR(graph().status());
  return source_->GraphFor(inputs);
}

absl::Status WarmModel::Finish(Slot& slot) {
  KILN_RETURN_IF_ERROR(cache_->Restore(*slot.stored, *slot.variant));
  KILN_ASSIGN_OR_RETURN(slot.variant->kernels, kernels_->GetAll(slot.variant->program));
  slot.stored.reset();
  return absl::OkStatus();
}

absl::Status WarmModel::Prepare() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!found_.empty()) {
      const absl::Status finished =
          found_.front().stored.has_value() ? Finish(found_.front()) : absl::OkStatus();
      if (finished.ok()) return finished;
      LogDebug("cache: a program is compiled again: ", finished.message());
      found_.pop_front();
    }
  }
  KILN_RETURN_IF_ERROR(graph().status());
  return compiler_ != nullptr ? compiler_->Prepare() : absl::OkStatus();
}

std::shared_ptr<const Variant> WarmModel::FindKept(const std::vector<InputFacts>& inputs) {
  for (size_t k = 0; k < inputs_.size(); ++k) {  // the compiler says what is wrong
    if (!CheckPort(inputs_[k], inputs[k]).ok()) return nullptr;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = found_.begin(); it != found_.end();) {
    const Guard* broken = nullptr;
    if (!Fits(*it->variant, inputs, &broken)) {
      ++it;
    } else if (it->stored.has_value() && !Finish(*it).ok()) {
      it = found_.erase(it);  // what it needs is not in the cache any more
    } else {
      found_.splice(found_.begin(), found_, it);
      return found_.front().variant;
    }
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<const Variant>> WarmModel::Get(
    const std::vector<InputFacts>& inputs) {
  if (std::shared_ptr<const Variant> kept = FindKept(inputs); kept != nullptr) return kept;
  KILN_ASSIGN_OR_RETURN(ValueVariants::Made made, Make(inputs));
  Keep(made);
  return std::move(made.variant);
}

absl::StatusOr<std::shared_ptr<const Variant>> WarmModel::Instead(
    const std::shared_ptr<const Variant>& refused, const std::vector<InputFacts>& inputs) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const size_t before = found_.size();
    found_.remove_if([&](const Slot& slot) { return slot.variant == refused; });
    if (found_.size() == before) return absl::NotFoundError("it was compiled for these inputs");
    LogDebug("cache: a program does not run and is compiled again");
  }
  return Get(inputs);
}

absl::StatusOr<ValueVariants::Made> WarmModel::Make(const std::vector<InputFacts>& inputs) {
  KILN_RETURN_IF_ERROR(graph().status());
  if (values_ != nullptr) return values_->Make(inputs);
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const Variant> variant, compiler_->Get(inputs));
  return ValueVariants::Made{std::move(variant), source_->import()};
}

void WarmModel::Keep(ValueVariants::Made made) {
  if (cache_ == nullptr || made.variant->script != nullptr) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (kept_.size() >= kMostKept || !kept_.insert(made.variant.get()).second) return;
  }
  keeping_.Add([this, made = std::move(made)] {
    cache_->Keep(*made.variant, inputs_, outputs_, *made.import);
  });
}

WeightCounts WarmModel::weights() const {
  return cache_ != nullptr ? cache_->counts() : WeightCounts();
}

}  // namespace kiln
