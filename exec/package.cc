// SPDX-License-Identifier: Apache-2.0
#include "exec/package.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/catch_exceptions.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/parse_message.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/target.h"
#include "base/try_allocate.h"
#include "exec/fits.h"
#include "exec/ports.h"
#include "exec/support/kernel_code.h"
#include "exec/vm/vm.h"
#include "kernel/text.h"
#include "kiln/dim.h"
#include "persistent_cache/entry.h"

namespace kiln {
namespace {

absl::StatusOr<CacheKey> KeyOf(absl::string_view bytes) {
  CacheKey key{};
  if (bytes.size() != key.size()) return absl::DataLossError("a kernel or constant has no key");
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return key;
}

// The highest target whose code runs here; else, for the VM, any.
const packaged::Target* Choose(const packaged::Package& package, bool* run_code) {
  const packaged::Target* best = nullptr;
  *run_code = false;
  int highest = -1;
  for (const packaged::Target& target : package.targets()) {
    const std::optional<Target> level = Target::Parse(target.name());
    const bool runs = level.has_value() && level->RunsOn(HostTarget(level->device));
    if (best != nullptr && (!runs || (*run_code && level->level <= highest))) continue;
    best = &target;
    *run_code = *run_code || runs;
    if (runs) highest = level->level;
  }
  return best;
}

// The first extent that no variant takes, with those that they take; "" if there is none.
std::string OtherExtent(const std::vector<std::shared_ptr<const Variant>>& variants,
                        const std::vector<InputInfo>& inputs) {
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].present) continue;
    const std::vector<int64_t>& shape = inputs[k].tensor.shape();
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      std::set<int64_t> taken;
      bool open = false;
      for (const std::shared_ptr<const Variant>& variant : variants) {
        const absl::StatusOr<Dim> dim =
            Dim::Parse(variant->program.inputs(static_cast<int>(k)).shape(static_cast<int>(axis)));
        const auto extent = dim.ok() ? dim->constant() : std::nullopt;
        open = open || !extent.has_value();
        if (extent.has_value()) taken.insert(*extent);
      }
      if (open || taken.count(shape[axis]) != 0) continue;
      return absl::StrCat("input \"", inputs[k].name, "\": dim ", axis, " is ", shape[axis],
                          ", the package has variants for ", absl::StrJoin(taken, ", "));
    }
  }
  return "";
}

// Whether an entry is of this very kernel, and right for all extents that it is launched for: its
// key alone says so only as long as nobody has written another one, or other bounds, into the
// program.
absl::Status CheckIsOf(const Entry& entry, const program::KernelDef& def,
                       const program::KernelChoice& choice) {
  const std::string* const preimage = entry.Find("preimage");
  const auto wrong = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("kernel \"", def.name(), "\" (", choice.schedule(),
                                            ") has the key ", ToHex(entry.key).substr(0, 12),
                                            ", under which there is code ", what,
                                            "; compile the package again"));
  };
  if (preimage == nullptr) return wrong("of no kernel");
  if (FieldOf(*preimage, "kernel") != def.text() ||
      FieldOf(*preimage, "schedule") != choice.schedule())
    return wrong("of another kernel or schedule");
  const std::string at_most = MetaOf(entry)["at_most"];
  if (!IsWithinClass(choice.at_most(), ParseClass(at_most))) {
    return wrong(absl::StrCat("for extents of at most [", at_most, "], not [",
                              FormatClass(choice.at_most()), "]"));
  }
  return absl::OkStatus();
}

}  // namespace

Preimage PackagePreimage() { return Preimage().Add("schema", "1").Add("artefact", "package"); }

Preimage ConstantPreimage(absl::string_view digest) {
  return Preimage().Add("schema", "1").Add("artefact", "constant").Add("digest", digest);
}

namespace {

// Bytes in memory as a file.
class MemoryFile : public ReadableFile {
 public:
  MemoryFile(absl::string_view bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {
    info_.size = static_cast<int64_t>(bytes.size());
    info_.is_regular = true;
  }
  const FileInfo& info() const override { return info_; }
  absl::StatusOr<std::string> Read(int64_t offset, int64_t bytes) override {
    if (offset < 0 || bytes < 0 || offset > info_.size)
      return absl::InvalidArgumentError("reads beyond its bytes");
    return std::string(bytes_.substr(static_cast<size_t>(offset), static_cast<size_t>(bytes)));
  }

 private:
  const absl::string_view bytes_;
  const std::shared_ptr<const void> owner_;
  FileInfo info_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Package>> Package::Open(absl::string_view path,
                                                       PackageValidation validate,
                                                       const std::string& validator) {
  return CatchExceptions("opening the package", [&] {
    std::unique_ptr<Validator> made;
    if (validate == PackageValidation::kFirstUse) made = std::make_unique<Validator>(validator, 1);
    return OpenFile(nullptr, path, std::move(made), /*ports_only=*/false);
  });
}

absl::StatusOr<std::shared_ptr<Package>> Package::OpenBytes(absl::string_view bytes,
                                                            std::shared_ptr<const void> owner,
                                                            absl::string_view name) {
  return CatchExceptions("opening the package", [&] {
    return OpenFile(std::make_unique<MemoryFile>(bytes, std::move(owner)), name, nullptr,
                    /*ports_only=*/false);
  });
}

absl::StatusOr<std::shared_ptr<Package>> Package::OpenPorts(
    absl::string_view path, std::optional<absl::string_view> bytes) {
  return CatchExceptions("opening the package", [&] {
    std::unique_ptr<ReadableFile> file;
    if (bytes) file = std::make_unique<MemoryFile>(*bytes, nullptr);
    return OpenFile(std::move(file), path, nullptr, /*ports_only=*/true);
  });
}

absl::StatusOr<std::shared_ptr<Package>> Package::OpenFile(std::unique_ptr<ReadableFile> file,
                                                           absl::string_view path,
                                                           std::unique_ptr<Validator> validator,
                                                           bool ports_only) {
  std::shared_ptr<Package> made(new Package);
  made->validator_ = std::move(validator);
  PackTrust trust;
  trust.unsigned_too = true;
  auto pack = file == nullptr ? Pack::Open(RealFileSystem(), path, trust)
                              : Pack::Open(std::move(file), path, trust);
  if (absl::IsUnimplemented(pack.status())) return absl::DataLossError(pack.status().message());
  KILN_RETURN_IF_ERROR(pack.status());
  made->pack_ = *std::move(pack);
  const absl::Status read = made->Read(ports_only);
  made->validator_ = nullptr;  // its processes are not needed any more
  if (read.ok()) return made;
  const std::string text = absl::StrCat("package \"", path, "\": ", read.message());
  return absl::IsUnimplemented(read) ? absl::DataLossError(text) : absl::Status(read.code(), text);
}

absl::Status Package::Read(bool ports_only) {
  const Preimage preimage = PackagePreimage();
  absl::StatusOr<Entry> entry = pack_->Read(preimage.Key(), &preimage.bytes());
  read_.insert(preimage.Key());
  if (absl::IsNotFound(entry.status()))
    return absl::DataLossError("is a pack of kernels without a model");
  KILN_RETURN_IF_ERROR(entry.status());
  const std::string* const bytes = entry->Find("package");
  program::Program ports;
  if (bytes == nullptr || !ParseMessage(*bytes, stored_) || !ParseMessage(stored_.ports(), ports))
    return absl::DataLossError("its description cannot be read");
  KILN_ASSIGN_OR_RETURN(inputs_, GetPorts(ports.inputs()));
  KILN_ASSIGN_OR_RETURN(outputs_, GetPorts(ports.outputs()));
  if (ports_only) return absl::OkStatus();
  bool run_code = false;
  const packaged::Target* const target = Choose(stored_, &run_code);
  if (target == nullptr) return absl::DataLossError("has no target");
  for (const packaged::Variant& stored : target->variants()) {
    KILN_ASSIGN_OR_RETURN(Variant variant, Restore(stored, run_code));
    variants_.push_back(std::make_shared<const Variant>(std::move(variant)));
  }
  // What this CPU does not need is whole, too: damage shows on the first machine.
  for (const Pack::Row& row : pack_->rows()) {
    if (read_.count(row.key) == 0) KILN_RETURN_IF_ERROR(pack_->Read(row.key, nullptr).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<Entry> Package::ReadEntry(const CacheKey& key, const std::string* preimage) {
  absl::StatusOr<Entry> entry = pack_->Read(key, preimage);
  if (absl::IsNotFound(entry.status())) {
    return absl::DataLossError(absl::StrCat("names the entry ", ToHex(key).substr(0, 12),
                                            ", which it does not have; compile it again"));
  }
  if (entry.ok()) read_.insert(key);
  return entry;
}

absl::StatusOr<Variant> Package::Restore(const packaged::Variant& stored, bool run_code) {
  Variant variant;
  for (const std::string& text : stored.guards()) {
    KILN_ASSIGN_OR_RETURN(variant.guards.emplace_back(), Guard::Parse(text));
  }
  if (!ParseMessage(stored.program(), variant.program))
    return absl::DataLossError("a program cannot be read");
  KILN_RETURN_IF_ERROR(CheckPorts(variant.program, inputs_, outputs_));
  for (const packaged::Constant& constant : stored.constants()) {
    KILN_ASSIGN_OR_RETURN(variant.constants.emplace_back(), Restore(constant));
  }
  for (const program::KernelDef& def : variant.program.kernels()) {
    auto& choices = variant.kernels.emplace_back();
    for (const program::KernelChoice& choice : def.choices()) {
      KILN_ASSIGN_OR_RETURN(choices.emplace_back(), Kernel(def, choice, run_code));
    }
  }
  return variant;
}

absl::StatusOr<Tensor> Package::Restore(const packaged::Constant& stored) {
  KILN_ASSIGN_OR_RETURN(const DType type, ToDType(stored.dtype()));
  const std::vector<int64_t> shape(stored.shape().begin(), stored.shape().end());
  const int64_t bytes = CheckedBytes(type, shape);
  const auto view = [&](const Tensor& of) -> absl::StatusOr<Tensor> {
    if (bytes < 0 || bytes != of.size_bytes())
      return absl::DataLossError("a constant has another size than its shape says");
    return Tensor::View(of.data(), type, shape, {}, of.owner());
  };
  if (const auto known = constants_.find(stored.blob()); known != constants_.end())
    return view(known->second);
  const Preimage preimage = ConstantPreimage(stored.blob());
  KILN_ASSIGN_OR_RETURN(const Entry entry, ReadEntry(preimage.Key(), &preimage.bytes()));
  const std::string* const blob = entry.Find("blob");
  if (blob == nullptr) return absl::DataLossError("a constant has no elements");
  const Sha256Digest digest = Sha256(*blob);
  if (stored.blob() != absl::string_view(reinterpret_cast<const char*>(digest.data()), 32))
    return absl::DataLossError("a constant has other elements than its digest says");
  KILN_ASSIGN_OR_RETURN(Tensor elements,
                        TryAllocate(DType::kU8, {static_cast<int64_t>(blob->size())}));
  std::copy(blob->begin(), blob->end(), static_cast<char*>(elements.data()));
  constants_[stored.blob()] = elements;
  return view(elements);
}

bool Package::MayRun(const Entry& entry, const program::KernelDef& def) {
  if (validator_ == nullptr) return true;
  const absl::StatusOr<Validation> validation =
      validator_->Validate(ValidationOf(entry, {def.example().begin(), def.example().end()}));
  if (validation.ok()) return true;
  ++(absl::IsDataLoss(validation.status()) ? refused_ : unvalidated_);
  if (absl::IsNotFound(validation.status())) {
    if (!std::exchange(warned_of_absence_, true)) {
      LogWarning(
          "kernels of the package cannot be validated and run on the VM, slower and with "
          "the same results: ",
          validation.status().message());
    }
    return false;
  }
  LogWarning("kernel ", ToHex(entry.key).substr(0, 12),
             " of the package runs on the VM, slower and with the same results: ",
             validation.status().message());
  return false;
}

absl::StatusOr<std::shared_ptr<KernelHandle>> Package::Kernel(const program::KernelDef& def,
                                                              const program::KernelChoice& choice,
                                                              bool run_code) {
  // A choice without code is on the VM, and known by its text.
  const std::string name = choice.key().empty()
                               ? def.text()
                               : absl::StrCat(choice.key(), choice.schedule(), "\n",
                                              FormatClass(choice.at_most()), "\n", def.text());
  if (const auto known = kernels_.find(name); known != kernels_.end()) return known->second;
  auto function = std::make_shared<KernelFunction>();
  if (run_code && !choice.key().empty()) {
    KILN_ASSIGN_OR_RETURN(const CacheKey key, KeyOf(choice.key()));
    KILN_ASSIGN_OR_RETURN(const Entry entry, ReadEntry(key, nullptr));
    KILN_RETURN_IF_ERROR(CheckIsOf(entry, def, choice));
    const std::optional<KernelCode> code = CodeOf(entry);
    if (code && code->runs_here && MayRun(entry, def)) {
      KILN_ASSIGN_OR_RETURN(LoadedKernel loaded, code->Load());
      auto owner = std::make_shared<LoadedKernel>(std::move(loaded));
      function->run = owner->function();
      function->owner = std::move(owner);
    }
  }
  if (function->run == nullptr) {
    KILN_ASSIGN_OR_RETURN(const kiln::Kernel kernel, ParseKernel(def.text()));
    KILN_ASSIGN_OR_RETURN(std::shared_ptr<const VmKernel> vm, VmKernel::Compile(kernel));
    function->run = &RunVm;
    function->self = vm.get();
    function->vm = true;
    function->owner = std::move(vm);
  }
  ++(function->vm ? on_vm_ : compiled_);
  return kernels_[name] = std::make_shared<KernelHandle>(std::move(function));
}

absl::StatusOr<std::shared_ptr<const Variant>> Package::Get(const std::vector<InputInfo>& inputs) {
  for (size_t k = 0; k < inputs_.size(); ++k)
    KILN_RETURN_IF_ERROR(CheckPort(inputs_[k], inputs[k]));
  const Guard* broken = nullptr;
  for (const std::shared_ptr<const Variant>& variant : variants_) {
    const Guard* here = nullptr;
    if (Fits(*variant, inputs, &here)) return variant;
    if (here != nullptr) broken = here;
  }
  const std::string why = broken != nullptr
                              ? absl::StrCat("\"", broken->ToString(), "\" does not hold")
                              : OtherExtent(variants_, inputs);
  return absl::NotFoundError(absl::StrCat("no variant in the package fits these inputs",
                                          why.empty() ? "" : ": ", why,
                                          "; compile the package with --shapes for them"));
}

std::vector<Package::Target> Package::targets() const {
  std::vector<Target> list;
  for (const packaged::Target& target : stored_.targets()) {
    std::set<std::string> keys;
    for (const packaged::Variant& variant : target.variants()) {
      program::Program program;
      if (!ParseMessage(variant.program(), program)) continue;
      for (const program::KernelDef& def : program.kernels()) {
        for (const program::KernelChoice& choice : def.choices()) keys.insert(choice.key());
      }
    }
    Target& made = list.emplace_back();
    made.name = target.name();
    made.variants = target.variants_size();
    for (const Pack::Row& row : pack_->rows()) {
      if (keys.count(std::string(row.key.begin(), row.key.end())) == 0) continue;
      ++made.kernels;
      made.bytes += row.length;
      const absl::StatusOr<Entry> entry = pack_->Read(row.key, nullptr);
      made.unvalidated += entry.ok() && MetaOf(*entry).count("unvalidated") != 0 ? 1 : 0;
    }
  }
  return list;
}

absl::StatusOr<Model> LoadPackage(absl::string_view path, const RunOptions& options,
                                  PackageValidation validate) {
  return CatchExceptions("loading the package", [&]() -> absl::StatusOr<Model> {
    KILN_ASSIGN_OR_RETURN(std::shared_ptr<Package> package, Package::Open(path, validate));
    return Model::Create(std::move(package), options);
  });
}

}  // namespace kiln
