// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/warm_model.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kiln/base/file_system.h"
#include "kiln/base/log.h"
#include "kiln/base/status_macros.h"
#include "kiln/graph/text.h"

namespace kiln {
namespace {

constexpr int64_t kMaxTextBytes = int64_t{64} << 20;

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
    auto cache = ProgramCache::Open(model->path_, options, *store);
    if (cache.ok()) model->cache_ = *std::move(cache);
    if (!cache.ok()) LogDebug("cache: no programs: ", cache.status().message());
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
  model->outputs_ = PortInfosOf(*graph, false);
  return model;
}

absl::Status WarmModel::Read() {
  if (import_.has_value()) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportModel(path_, options_.custom_ops));
  KILN_RETURN_IF_ERROR(Verify(import.graph));
  import_ = std::move(import);
  if (cache_ != nullptr) cache_->NameConstants(*import_);
  return absl::OkStatus();
}

absl::StatusOr<const Graph*> WarmModel::graph() {
  const std::lock_guard<std::mutex> lock(mutex_);
  KILN_RETURN_IF_ERROR(Read());
  return &import_->graph;
}

absl::StatusOr<Variants*> WarmModel::Compiler() {
  const std::lock_guard<std::mutex> lock(mutex_);
  KILN_RETURN_IF_ERROR(Read());
  if (compiler_ == nullptr)
    compiler_ = std::make_unique<Variants>(import_->graph, options_, kernels_);
  return compiler_.get();
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
  KILN_ASSIGN_OR_RETURN(Variants* const compiler, Compiler());
  return compiler->Prepare();
}

std::shared_ptr<const Variant> WarmModel::FindKept(const std::vector<InputFacts>& inputs) {
  for (size_t k = 0; k < inputs_.size(); ++k) {  // the compiler says what is wrong
    const Tensor& tensor = inputs[k].tensor;
    if (tensor.dtype() != inputs_[k].type || tensor.shape().size() != inputs_[k].shape.size())
      return nullptr;
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
  KILN_ASSIGN_OR_RETURN(Variants* const compiler, Compiler());
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const Variant> made, compiler->Get(inputs));
  Keep(made);
  return made;
}

void WarmModel::Keep(std::shared_ptr<const Variant> variant) {
  if (cache_ == nullptr || variant->script != nullptr) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!kept_.insert(variant.get()).second) return;
  }
  keeping_.Add([this, variant = std::move(variant)] {
    cache_->Keep(*variant, inputs_, outputs_, *import_);
  });
}

WeightCounts WarmModel::weights() const {
  return cache_ != nullptr ? cache_->counts() : WeightCounts();
}

}  // namespace kiln
