// SPDX-License-Identifier: Apache-2.0
#include "compiler/warm_model.h"

#include <algorithm>
#include <utility>

#include "base/catch_exceptions.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "compiler/check_options.h"
#include "compiler/const_shapes.h"
#include "exec/binding.h"
#include "exec/fits.h"

namespace kiln {
namespace {

constexpr size_t kMostKept = 16;  // variants that one process keeps; an entry has room for as many

}  // namespace

absl::StatusOr<std::shared_ptr<WarmModel>> WarmModel::Open(
    absl::string_view path, const CompileOptions& asked, std::shared_ptr<KernelService> kernels,
    bool compiles, std::shared_ptr<const onnx::ModelMemory> memory) {
  return CatchExceptions("opening the model", [&]() -> absl::StatusOr<std::shared_ptr<WarmModel>> {
    Store* const store = kernels->store();
    const std::string given(path);
    const CompileOptions options = WithTuner(asked, store);
    std::shared_ptr<WarmModel> model(new WarmModel(memory != nullptr ? given : AbsolutePath(given),
                                                   options, std::move(kernels), memory));
    if (store != nullptr && !options.dump && !options.choose && options.custom_ops.empty()) {
      // A model that no process has met is read while its digest is computed, and compiled: its
      // Program is hardly ever there. Errors come again.
      const auto meanwhile = [&] {
        const NoThreads scope(StartsNoThreads(options));
        if (compiles) model->kernels_->ExpectBuilds();
        if (!model->Read(given).ok() || !compiles) return;
        if (model->compiler_ != nullptr) model->compiler_->Prepare().IgnoreError();
      };
      auto cache = ProgramCache::Open(model->path_, options, *store, meanwhile, memory);
      if (!cache.ok()) LogDebug("cache: no programs: ", cache.status().message());
      if (cache.ok()) model->cache_ = *std::move(cache);
      model->CheckSame();
      if (model->cache_ != nullptr && model->compiler_ != nullptr)
        model->cache_->NameConstants(*model->source_->import());
    }
    if (model->TakeFound(given)) return model;
    KILN_RETURN_IF_ERROR(model->Read(given));
    KILN_ASSIGN_OR_RETURN(model->inputs_,
                          WithConstShapes(model->source_->inputs(), options.const_shapes));
    model->outputs_ = model->compiler_ != nullptr && !options.const_shapes.empty()
                          ? model->compiler_->outputs()
                          : model->source_->outputs();
    model->updatable_ = model->source_->updatable();
    return model;
  });
}

std::string WarmModel::ConstantIn(const MemoryRange& range) const {
  if (memory_ == nullptr) return "";
  const absl::string_view bytes = memory_->file->bytes();
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  return Overlap(range, MemoryRange{begin, begin + bytes.size()}) ? path_ : "";
}

OnnxImportOptions WarmModel::import_options() const {
  OnnxImportOptions options = ImportOptionsOf(options_);
  options.memory = memory_;
  if (cache_ != nullptr)
    options.memory = std::make_shared<const onnx::ModelMemory>(cache_->files());
  return options;
}

void WarmModel::CheckSame() {
  if (cache_ == nullptr || !source_ || !cache_->HasOtherFiles(*source_->import())) return;
  LogDebug("cache: \"", path_, "\" was replaced while it was opened");
  cache_.reset();
}

bool WarmModel::TakeFound(const std::string& path) {
  if (cache_ == nullptr || cache_->outputs().empty()) return false;
  absl::StatusOr<std::vector<Variant>> found = cache_->Variants();
  if (!found.ok() || found->empty()) return false;
  const std::vector<PortInfo>& inputs = cache_->inputs();
  auto values = ModelSource::ReadUpdatable(path, import_options());
  if (!values.ok() || values->size() > inputs.size()) return false;
  const bool fit = std::equal(values->begin(), values->end(),
                              inputs.end() - static_cast<std::ptrdiff_t>(values->size()),
                              [](const Tensor& value, const PortInfo& port) {
                                return CheckPort(port, {port.name, true, value}).ok();
                              });
  if (!fit) return false;
  updatable_ = *std::move(values);
  inputs_ = inputs;
  outputs_ = cache_->outputs();
  const MutexLock lock(mutex_);
  for (size_t k = 0; k < found->size(); ++k) {
    if (options_.tuner != nullptr && options_.tuner->IsStale((*found)[k].program, options_))
      continue;
    found_.push_back({std::make_shared<Variant>(std::move((*found)[k])), k});
  }
  return true;
}

absl::Status WarmModel::Read(const std::string& path) {
  const LongMutexLock reading(reading_);
  {
    const MutexLock lock(mutex_);
    if (source_.has_value()) return absl::OkStatus();
  }
  KILN_ASSIGN_OR_RETURN(ModelSource source, ModelSource::Read(path, import_options()));
  std::unique_ptr<ValueVariants> values;
  std::unique_ptr<Variants> compiler;
  if (source.needs_inputs()) {
    values = std::make_unique<ValueVariants>(source, options_, kernels_);
  } else {
    KILN_RETURN_IF_ERROR(Verify(source.graph()));
    if (cache_ != nullptr) cache_->NameConstants(*source.import());
    KILN_ASSIGN_OR_RETURN(Graph graph, WithConstShapes(source.graph(), options_.const_shapes));
    compiler = std::make_unique<Variants>(std::move(graph), options_, kernels_);
  }
  const MutexLock lock(mutex_);
  values_ = std::move(values);
  compiler_ = std::move(compiler);
  source_ = std::move(source);
  return absl::OkStatus();
}

absl::StatusOr<const Graph*> WarmModel::graph() {
  KILN_RETURN_IF_ERROR(Read(path_));
  return &source_->graph();
}

absl::StatusOr<Graph> WarmModel::GraphFor(const std::vector<Tensor>& inputs) {
  KILN_RETURN_IF_ERROR(graph().status());
  return source_->GraphFor(inputs);
}

absl::Status WarmModel::Restore(size_t stored, Variant& variant) {
  KILN_RETURN_IF_ERROR(cache_->Restore(stored, variant));
  KILN_ASSIGN_OR_RETURN(variant.kernels, kernels_->GetAll(variant.program));
  return absl::OkStatus();
}

std::shared_ptr<const Variant> WarmModel::Finish(size_t stored) {
  const KeyedMutexLock finishing(finishing_, stored);
  const auto slot = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::find_if(found_.begin(), found_.end(),
                        [&](const Slot& one) { return one.stored == stored; });
  };
  std::shared_ptr<Variant> variant;
  {
    const MutexLock lock(mutex_);
    if (slot() == found_.end()) return nullptr;  // another thread has made it ready, or given it up
    variant = slot()->variant;
  }
  const absl::Status restored = Restore(stored, *variant);
  if (!restored.ok()) LogDebug("cache: a program is compiled again: ", restored.message());
  const MutexLock lock(mutex_);
  if (!restored.ok()) {
    found_.erase(slot());
    return nullptr;
  }
  slot()->stored.reset();
  return variant;
}

absl::Status WarmModel::Prepare() {
  std::optional<size_t> first;
  {
    const MutexLock lock(mutex_);
    if (!found_.empty() && !found_.front().stored) return absl::OkStatus();
    if (!found_.empty()) first = found_.front().stored;
  }
  if (first && Finish(*first) != nullptr) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(graph().status());
  if (compiler_ == nullptr) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(compiler_->Prepare());
  compiled_ = true;
  return absl::OkStatus();
}

std::list<WarmModel::Slot>::iterator WarmModel::Fitting(const std::vector<InputInfo>& inputs) {
  return std::find_if(found_.begin(), found_.end(), [&](const Slot& slot) {
    const Guard* broken = nullptr;
    return Fits(*slot.variant, inputs, &broken);
  });
}

std::shared_ptr<const Variant> WarmModel::FindKept(const std::vector<InputInfo>& inputs) {
  while (true) {
    std::optional<size_t> stored;
    {
      const MutexLock lock(mutex_);
      const auto found = Fitting(inputs);
      if (found == found_.end()) return nullptr;
      found_.splice(found_.begin(), found_, found);
      if (!found->stored) return found->variant;
      stored = found->stored;
    }
    if (auto finished = Finish(*stored)) return finished;
  }
}

absl::StatusOr<std::shared_ptr<const Variant>> WarmModel::Get(
    const std::vector<InputInfo>& inputs) {
  const NoThreads scope(StartsNoThreads(options_));
  const bool fit = std::equal(
      inputs_.begin(), inputs_.end(), inputs.begin(), inputs.end(),
      [](const PortInfo& port, const InputInfo& input) { return CheckPort(port, input).ok(); });
  if (fit) {  // else the compiler says what is wrong
    if (auto kept = FindKept(inputs); kept != nullptr) return kept;
  }
  KILN_ASSIGN_OR_RETURN(ValueVariants::Made made, Make(inputs));
  Keep(made);
  return std::move(made.variant);
}

absl::StatusOr<std::shared_ptr<const Variant>> WarmModel::Instead(
    const std::shared_ptr<const Variant>& refused, const std::vector<InputInfo>& inputs) {
  {
    const MutexLock lock(mutex_);
    const size_t before = found_.size();
    found_.remove_if([&](const Slot& slot) { return slot.variant == refused; });
    if (found_.size() == before) return absl::NotFoundError("it was compiled for these inputs");
    LogDebug("cache: a program does not run and is compiled again");
  }
  return Get(inputs);
}

absl::StatusOr<ValueVariants::Made> WarmModel::Make(const std::vector<InputInfo>& inputs) {
  KILN_RETURN_IF_ERROR(graph().status());
  if (values_ != nullptr) return values_->Make(inputs);
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const Variant> variant, compiler_->Get(inputs));
  return ValueVariants::Made{std::move(variant), source_->import()};
}

void WarmModel::Keep(ValueVariants::Made made) {
  if (cache_ == nullptr || made.variant->script != nullptr) return;
  {
    const MutexLock lock(mutex_);
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
