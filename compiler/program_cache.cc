// SPDX-License-Identifier: Apache-2.0
#include "compiler/program_cache.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/parse_message.h"
#include "base/proto_add.h"
#include "base/status_macros.h"
#include "base/task_queue.h"
#include "base/tensor_bytes.h"
#include "compiler/build_id.h"
#include "compiler/device_library.h"
#include "compiler/model_source.h"
#include "compiler/tuner.h"
#include "compiler/variants.h"
#include "exec/ports.h"
#include "schedule/machine.h"

namespace kiln {
namespace {

constexpr int64_t kMostHere = 16384;  // bytes of a constant that the entry itself holds

constexpr KeyOption kOwnOptions[] = {
    {"graph_opt_level", true, "field level"},
    {"jit_level", true, "field jit"},
    {"threads", false, "no Program depends on the number of threads"},
    {"math", true, "field math"},
    {"compile_mode", false, "decides when kernels are there, not which"},
    {"cache", false, "decides where"},
    {"build_jobs", false, "decides how fast, not what"},
    {"codegen", false, "kernels have keys of their own"},
    {"validator", false, "kernels have keys of their own"},
    {"target", true, "field isa"},
    {"kernel_timeout_ms", false, "kernels have keys of their own"},
    {"kernel_cpu_ms", false, "kernels have keys of their own"},
    {"max_weight_bytes", false, "a Program knows its model's bytes: Variants() looks"},
    {"external_data_links", false, "files are opened by it before a Program is looked up"},
    {"disabled_passes", true, "field disabled_passes"},
    {"device_library", true, "field libraries: those it comes to"},
    {"updatable", true, "a field updatable each"},
    {"const_shapes", true, "a field const_shape each"},
    {"fusion_rules", true, "field fusion_rules"},
    {"forced_fusion", true, "fields forced_producer, forced_consumer"},
    {"machine", true, "field machine"},
    {"no_fuse", true, "a field no_fuse each"},
    {"choose", false, "with it nothing is looked up, and nothing kept"},
    {"schedule_choice", true, "field tuned, where it has measurements looked up"},
    {"workspace_limit", true, "field workspace"},
    {"tune_at", false, "decides what is measured; a Program that is chosen otherwise is stale"},
    {"tuner", true, "field tuned: the machine whose measurements choose"},
    {"dump", false, "with it nothing is looked up, so that there is something to see"},
    {"custom_ops", false, "with them nothing is looked up, and nothing kept"},
};
constexpr auto kOptions = WithKeylessOptions(kOwnOptions);

Preimage KeyOf(const std::vector<ModelFile>& files, const CompileOptions& options) {
  Preimage preimage;
  preimage.Add("schema", "1").Add("artefact", "program").Add("build", kCompilerBuildId);
  for (const ModelFile& file : files) {
    if (!file.location.empty()) preimage.Add("external", file.location);
    preimage.Add("model", ToHex(file.digest));
  }
  preimage.Add("level", absl::StrCat(options.graph_opt_level))
      .Add("jit", absl::StrCat(options.jit_level))
      .Add("math", options.math == MathMode::kStrict ? "strict" : "fast")
      .Add("isa", TargetOf(options).name())
      .Add("disabled_passes", absl::StrJoin(options.disabled_passes, "\n"))
      .Add("fusion_rules", options.fusion_rules == FusionRules::kPriced ? "priced" : "greedy");
  if (const LibrarySet libraries = LibrariesOf(options); libraries != kHostLibrary)
    preimage.Add("libraries", absl::StrCat(libraries));
  for (const std::string& node : options.no_fuse) preimage.Add("no_fuse", node);
  for (const std::string& name : options.updatable) preimage.Add("updatable", name);
  for (const auto& [name, shape] : options.const_shapes)
    preimage.Add("const_shape", absl::StrCat(name, "=", absl::StrJoin(shape, "x")));
  for (const auto& [producer, consumer] : options.forced_fusion)
    preimage.Add("forced_producer", producer).Add("forced_consumer", consumer);
  if (options.machine) preimage.Add("machine", ToString(*options.machine));
  if (options.workspace_limit > 0) preimage.Add("workspace", absl::StrCat(options.workspace_limit));
  if (options.tuner) preimage.Add("tuned", options.tuner->records().machine());
  return preimage;
}

std::string SignatureOf(const Variant& variant) {
  std::string text;
  for (const Guard& guard : variant.guards) absl::StrAppend(&text, guard.ToString(), "\n");
  for (const program::Port& port : variant.program.inputs())
    absl::StrAppend(&text, "[", absl::StrJoin(port.shape(), ", "), "]\n");
  return text;
}

// The constants that something other than a library operator on f32 reads: those must lie at
// addresses that suit their type. Library operators take their weights from anywhere.
std::set<int> ReadByKernels(const program::Program& program) {
  std::set<int> tight;
  const auto add = [&](int buffer) {
    if (buffer < 0 || buffer >= program.buffers_size()) return;
    const program::Buffer& b = program.buffers(buffer);
    if (b.kind() == program::Buffer::CONSTANT) tight.insert(b.index());
  };
  for (const program::Region& region : program.regions()) {
    for (const program::Thunk& thunk : region.thunks()) {
      for (const program::TensorRef& ref : thunk.kernel().inputs()) add(ref.buffer());
      if (thunk.has_view()) add(thunk.view().from().buffer());
      if (thunk.has_copy()) add(thunk.copy().from().buffer());
      for (const program::TensorRef& ref : thunk.library().inputs()) {
        if (ref.dtype() != static_cast<uint32_t>(DType::kF32)) add(ref.buffer());
      }
    }
  }
  for (const program::Port& port : program.outputs()) add(port.buffer());
  return tight;
}

bool Aligned(const void* data, DType type) {
  return reinterpret_cast<uintptr_t>(data) % SizeOf(type) == 0;
}

}  // namespace

std::span<const KeyOption> ProgramKeyOptions() { return kOptions; }

absl::StatusOr<std::unique_ptr<ProgramCache>> ProgramCache::Open(
    const std::string& path, const CompileOptions& options, Store& store,
    const std::function<void()>& beside, std::shared_ptr<const onnx::ModelMemory> memory) {
  OnnxImportOptions import_options = ImportOptionsOf(options);
  import_options.memory = std::move(memory);
  KILN_ASSIGN_OR_RETURN(std::vector<ModelFile> files,
                        OpenModelFiles(path, import_options, store, beside));
  Preimage preimage = KeyOf(files, options);
  std::unique_ptr<ProgramCache> cache(
      new ProgramCache(store, std::move(files), std::move(preimage), options));
  std::shared_ptr<const stored::Model> found = cache->Find();
  program::Program ports;
  if (found == nullptr || !ParseMessage(found->ports(), ports)) return cache;
  auto inputs = GetPorts(ports.inputs());
  auto outputs = GetPorts(ports.outputs());
  if (!inputs.ok() || !outputs.ok()) return cache;
  cache->found_ = std::move(found);
  cache->inputs_ = *std::move(inputs);
  cache->outputs_ = *std::move(outputs);
  return cache;
}

ProgramCache::ProgramCache(Store& store, std::vector<ModelFile> files, Preimage preimage,
                           const CompileOptions& options)
    : store_(store),
      files_(std::move(files)),
      preimage_(std::move(preimage)),
      target_(TargetOf(options)),
      max_weight_bytes_(options.max_weight_bytes),
      blobs_(store, preimage_.Key()),
      packed_(blobs_, KeepingOf(options)),
      memory_plans_(store, KeepingOf(options)) {
  for (const ModelFile& file : files_) packed_.NameFile(file.file->bytes(), file.digest, 0);
}

std::shared_ptr<const stored::Model> ProgramCache::Find() {
  const std::optional<Entry> entry = store_.Lookup(preimage_);
  const std::string* const bytes = entry.has_value() ? entry->Find("program") : nullptr;
  auto model = std::make_shared<stored::Model>();
  if (bytes == nullptr || !ParseMessage(*bytes, *model)) return nullptr;
  if (static_cast<size_t>(model->variants_size()) > kMaxVariants) return nullptr;
  return model;
}

onnx::ModelMemory ProgramCache::files() const {
  onnx::ModelMemory files{files_[0].file, "", {}};
  for (const ModelFile& file : files_) files.external[file.location] = file.file;
  return files;
}

WeightCounts ProgramCache::counts() const {
  const MutexLock lock(mutex_);
  return {counts_.mapped + packed_.mapped(), counts_.copied + packed_.made()};
}

absl::StatusOr<std::vector<Variant>> ProgramCache::Variants() const {
  std::vector<Variant> variants;
  if (found_ == nullptr) return variants;
  for (const stored::Variant& kept : found_->variants()) {
    Variant variant;
    for (const std::string& text : kept.guards()) {
      KILN_ASSIGN_OR_RETURN(Guard guard, Guard::Parse(text));
      variant.guards.push_back(std::move(guard));
    }
    if (!ParseMessage(kept.program(), variant.program))
      return absl::DataLossError("a cached program cannot be read");
    KILN_RETURN_IF_ERROR(CheckPorts(variant.program, inputs_, outputs_));
    if (kept.weight_bytes() > max_weight_bytes_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a cached program: its model has ", kept.weight_bytes(),
                       " bytes of tensors, more than ", max_weight_bytes_));
    }
    variants.push_back(std::move(variant));
  }
  return variants;
}

absl::StatusOr<Tensor> ProgramCache::Restore(const stored::Place& place) {
  KILN_ASSIGN_OR_RETURN(const DType type, ToDType(place.dtype()));
  std::vector<int64_t> shape(place.shape().begin(), place.shape().end());
  const int64_t bytes = CheckedBytes(type, shape);
  const auto view = [&](absl::string_view at, std::shared_ptr<const void> owner,
                        bool loose) -> absl::StatusOr<Tensor> {
    if (bytes < 0 || static_cast<int64_t>(at.size()) != bytes)
      return absl::DataLossError(absl::StrCat("constant: ", at.size(), " bytes, expected ", bytes));
    if (!Aligned(at.data(), type) && !loose) return absl::DataLossError("constant: not aligned");
    return Tensor::View(const_cast<char*>(at.data()), type, std::move(shape), {},
                        std::const_pointer_cast<void>(std::move(owner)));
  };
  switch (place.bytes_case()) {
    case stored::Place::kHere:
      packed_.NameContent(place.here(), Sha256(place.here()), found_);
      return view(place.here(), found_, false);
    case stored::Place::kRange: {
      const stored::FileRange& range = place.range();
      if (range.file() >= files_.size()) return absl::DataLossError("constant: no such file");
      const auto& file = files_[range.file()].file;
      const auto size = static_cast<int64_t>(file->bytes().size());
      if (bytes < 0 || range.offset() < 0 || range.offset() > size || bytes > size - range.offset())
        return absl::DataLossError("constant: lies outside its file");
      return view(
          file->bytes().substr(static_cast<size_t>(range.offset()), static_cast<size_t>(bytes)),
          file, range.loose());
    }
    case stored::Place::kBlob: {
      Sha256Digest digest;
      if (place.blob().size() != digest.size()) return absl::DataLossError("constant: no digest");
      std::memcpy(digest.data(), place.blob().data(), digest.size());
      std::optional<MappedBlob> blob = blobs_.Find(Blobs::ByContent(digest));
      if (!blob.has_value()) return absl::NotFoundError("constant: its blob is not in the cache");
      packed_.NameContent(blob->bytes, digest, blob->owner);
      return view(blob->bytes, std::move(blob->owner), false);
    }
    case stored::Place::BYTES_NOT_SET:
      break;
  }
  return absl::DataLossError("constant: is nowhere");
}

absl::Status ProgramCache::Restore(size_t k, Variant& variant) {
  const auto& places = found_->variants(static_cast<int>(k)).constants();
  std::vector<absl::StatusOr<Tensor>> made(static_cast<size_t>(places.size()),
                                           absl::UnknownError(""));
  ForEachInParallel(made.size(), [&](size_t c) { made[c] = Restore(places[static_cast<int>(c)]); });
  std::vector<Tensor> constants;
  int64_t bytes = 0;
  for (absl::StatusOr<Tensor>& constant : made) {
    KILN_RETURN_IF_ERROR(constant.status());
    bytes += constant->size_bytes();
    constants.push_back(*std::move(constant));
  }
  variant.constants = std::move(constants);
  const MutexLock lock(mutex_);
  counts_.mapped += bytes;
  return absl::OkStatus();
}

std::shared_ptr<onnx::MappedFile> ProgramCache::ImportedFile(size_t number,
                                                             const OnnxImport& import) const {
  if (number == 0) return import.file;
  const auto external = import.external.find(files_[number].location);
  return external != import.external.end() ? external->second : nullptr;
}

bool ProgramCache::IsSame(size_t number, const onnx::MappedFile& imported) const {
  return imported.identity() == files_[number].file->identity();
}

std::shared_ptr<onnx::MappedFile> ProgramCache::FileOf(size_t number,
                                                       const OnnxImport& import) const {
  std::shared_ptr<onnx::MappedFile> mapped = ImportedFile(number, import);
  return mapped != nullptr && IsSame(number, *mapped) ? mapped : nullptr;
}

bool ProgramCache::HasOtherFiles(const OnnxImport& import) const {
  for (size_t f = 0; f < files_.size(); ++f) {
    const std::shared_ptr<onnx::MappedFile> mapped = ImportedFile(f, import);
    if (mapped != nullptr && !IsSame(f, *mapped)) return true;
  }
  return false;
}

void ProgramCache::NameConstants(const OnnxImport& import) {
  for (size_t f = 0; f < files_.size(); ++f) {
    const std::shared_ptr<onnx::MappedFile> mapped = FileOf(f, import);
    if (mapped == nullptr) continue;
    const absl::string_view bytes = mapped->bytes();
    packed_.NameFile(bytes, files_[f].digest, 0);
    for (const onnx::TensorOrigin& origin : import.origins) {
      const bool here = origin.at >= bytes.data() && origin.at < bytes.data() + bytes.size();
      if (here && origin.tensor.data() != origin.at)
        packed_.NameFile(BytesOf(origin.tensor), files_[f].digest, origin.at - bytes.data());
    }
  }
}

// True if the elements are somewhere in the model's files, at a place that `loose` or their type
// allows.
bool ProgramCache::SetRange(const Tensor& constant, bool loose, const OnnxImport& import,
                            stored::Place* place) {
  const auto origin =
      std::find_if(import.origins.begin(), import.origins.end(),
                   [&](const onnx::TensorOrigin& o) { return o.tensor.data() == constant.data(); });
  if (origin == import.origins.end() || constant.size_bytes() > origin->tensor.size_bytes())
    return false;
  for (size_t f = 0; f < files_.size(); ++f) {
    const std::shared_ptr<onnx::MappedFile> mapped = FileOf(f, import);
    if (mapped == nullptr) continue;
    const char* const begin = mapped->bytes().data();
    if (origin->at < begin || origin->at >= begin + mapped->bytes().size()) continue;
    if (!loose && !Aligned(origin->at, constant.dtype())) return false;
    place->mutable_range()->set_file(static_cast<uint32_t>(f));
    place->mutable_range()->set_offset(origin->at - begin);
    place->mutable_range()->set_loose(loose);
    return true;
  }
  return false;
}

void ProgramCache::SetPlace(const Tensor& constant, bool loose, const OnnxImport& import,
                            stored::Place* place) {
  place->set_dtype(static_cast<uint32_t>(constant.dtype()));
  for (const int64_t extent : constant.shape()) place->add_shape(extent);
  const absl::string_view bytes = BytesOf(constant);
  const bool here = constant.size_bytes() <= kMostHere;
  if (!here && SetRange(constant, loose, import, place)) return;
  const Sha256Digest digest = Sha256(bytes);
  packed_.NameContent(bytes, digest, std::make_shared<Tensor>(constant));
  if (here) {
    place->set_here(bytes.data(), bytes.size());
    return;
  }
  blobs_.Keep(Blobs::ByContent(digest), bytes, "constant");
  place->set_blob(digest.data(), digest.size());
}

void ProgramCache::Keep(const Variant& variant, const std::vector<PortInfo>& inputs,
                        const std::vector<PortInfo>& outputs, const OnnxImport& import) {
  {
    int64_t copied = 0, mapped = 0;
    for (const Tensor& constant : variant.constants) {
      const bool view = std::any_of(
          import.origins.begin(), import.origins.end(), [&](const onnx::TensorOrigin& o) {
            return o.tensor.data() == constant.data() && o.at == constant.data();
          });
      (view ? mapped : copied) += constant.size_bytes();
    }
    const MutexLock lock(mutex_);
    counts_.copied += copied;
    counts_.mapped += mapped;
  }
  if (store_.read_only() || HasOtherFiles(import) || !Unchanged(files_)) return;
  stored::Variant kept;
  kept.set_signature(SignatureOf(variant));
  kept.set_weight_bytes(import.tensor_bytes);
  for (const Guard& guard : variant.guards) *AddTo(kept.mutable_guards()) = guard.ToString();
  kept.set_program(variant.program.SerializeAsString());
  const std::set<int> tight = ReadByKernels(variant.program);
  std::vector<stored::Place> places(variant.constants.size());
  ForEachInParallel(places.size(), [&](size_t c) {
    SetPlace(variant.constants[c], tight.count(static_cast<int>(c)) == 0, import, &places[c]);
  });
  for (stored::Place& place : places) *AddTo(kept.mutable_constants()) = std::move(place);

  const KeyLock lock = store_.LockKey(preimage_.Key(), absl::Seconds(5));
  const std::shared_ptr<const stored::Model> before = Find();  // other processes add variants too
  stored::Model model;
  program::Program ports;
  SetPorts(inputs, ports.mutable_inputs());
  SetPorts(outputs, ports.mutable_outputs());
  model.set_ports(ports.SerializeAsString());
  for (size_t f = 1; f < files_.size(); ++f) model.add_external(files_[f].location);
  bool placed = false;
  for (int k = 0; before != nullptr && k < before->variants_size(); ++k) {
    const bool same = before->variants(k).signature() == kept.signature();
    *AddTo(model.mutable_variants()) = same ? kept : before->variants(k);
    placed = placed || same;
  }
  if (!placed) *AddTo(model.mutable_variants()) = std::move(kept);
  if (static_cast<size_t>(model.variants_size()) > kMaxVariants)
    model.mutable_variants()->DeleteSubrange(1, 1);
  Entry entry;
  entry.key = preimage_.Key();
  entry.Add("preimage", preimage_.bytes(), true);
  entry.Add("meta",
            FormatMeta({{"device", std::string(Name(target_.device))},
                        {"kind", "program"},
                        {"target", std::string(target_.name())}}),
            true);
  entry.Add("program", model.SerializeAsString(), true);
  const absl::Status done = store_.Publish(entry);
  if (!done.ok()) LogDebug("cache: the program is not kept: ", done.message());
}

}  // namespace kiln
