// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/warm_model.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kiln/base/file_system.h"
#include "kiln/base/log.h"
#include "kiln/base/status_macros.h"
#include "kiln/exec/fits.h"
#include "kiln/graph/text.h"

namespace kiln {
namespace {

constexpr int64_t kMaxTextBytes = int64_t{64} << 20;
constexpr size_t kMostKept = 16;  // variants that one process keeps; an entry has room for as many

}  // namespace

absl::StatusOr<OnnxImport> ImportModel(const std::string& path, const CustomOps& custom_ops) {
  if (!absl::EndsWith(path, ".graph")) return ImportOnnx(path, {.custom_ops = custom_ops});
  KILN_ASSIGN_OR_RETURN(const std::string text, RealFileSystem().ReadFile(path, kMaxTextBytes));
  absl::StatusOr<Graph> graph = ParseGraph(text);
  if (!graph.ok()) {
    return absl::Status(graph.status().code(),
                        absl::StrCat("\"", path, "\": ", graph.status().message()));
  }
  OnnxImport import;
  import.graph = *std::move(graph);
  return import;
}

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
      model->cache_->NameConstants(*model->import_);
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
  KILN_ASSIGN_OR_RETURN(const Graph* const graph, model->graph());
  model->inputs_ = PortInfosOf(*graph, true);
  model->outputs_ =
      model->values_ != nullptr ? model->values_->outputs() : PortInfosOf(*graph, false);
  return model;
}

absl::Status WarmModel::Read() {
  if (import_ != nullptr) return absl::OkStatus();
  absl::StatusOr<OnnxImport> import = ImportModel(path_, options_.custom_ops);
  if (absl::IsUnimplemented(import.status()) && !absl::EndsWith(path_, ".graph")) {
    KILN_RETURN_IF_ERROR(ReadWithoutValues());
    return import_ != nullptr ? absl::OkStatus() : import.status();
  }
  KILN_RETURN_IF_ERROR(import.status());
  KILN_RETURN_IF_ERROR(Verify(import->graph));
  import_ = std::make_shared<const OnnxImport>(*std::move(import));
  if (cache_ != nullptr) cache_->NameConstants(*import_);
  compiler_ = std::make_unique<Variants>(import_->graph, options_, kernels_);
  return absl::OkStatus();
}

absl::Status WarmModel::ReadWithoutValues() {
  KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportOnnx(path_, {.allow_unsupported = true,
                                                              .custom_ops = options_.custom_ops}));
  if (!MayNeedInputs(path_, import, {.custom_ops = options_.custom_ops})) return absl::OkStatus();
  CompileOptions options = options_;
  options.kernels = kernels_;
  KILN_ASSIGN_OR_RETURN(values_, ValueVariants::Create(path_, import, options));
  import_ = std::make_shared<const OnnxImport>(std::move(import));
  return absl::OkStatus();
}

absl::StatusOr<const Graph*> WarmModel::graph() {
  const std::lock_guard<std::mutex> lock(mutex_);
  KILN_RETURN_IF_ERROR(Read());
  return &import_->graph;
}

absl::StatusOr<Graph> WarmModel::GraphFor(const std::vector<Tensor>& inputs) {
  KILN_ASSIGN_OR_RETURN(const Graph* const any, graph());
  if (values_ == nullptr) return *any;
  std::map<std::string, Tensor> named;
  for (size_t k = 0; k < inputs.size() && k < inputs_.size(); ++k)
    named[inputs_[k].name] = inputs[k].is_dense() ? inputs[k] : inputs[k].Clone();
  KILN_ASSIGN_OR_RETURN(OnnxImport import,
                        ImportOnnxFor(path_, named, {.custom_ops = options_.custom_ops}));
  return std::move(import.graph);
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

absl::StatusOr<ValueVariants::Made> WarmModel::Make(const std::vector<InputFacts>& inputs) {
  KILN_RETURN_IF_ERROR(graph().status());
  if (values_ != nullptr) return values_->Make(inputs);
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const Variant> variant, compiler_->Get(inputs));
  return ValueVariants::Made{std::move(variant), import_};
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
