// SPDX-License-Identifier: Apache-2.0
#include "exec/package/package.h"

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
#include "base/status.h"
#include "base/status_macros.h"
#include "base/target.h"
#include "base/try_allocate.h"
#include "base/zstd.h"
#include "exec/package/called_libraries.h"
#include "exec/package/packaged_script.h"
#include "exec/ports.h"
#include "exec/runtime_state.h"
#include "exec/support/kernel_code.h"
#include "kernel/text.h"
#include "persistent_cache/entry.h"

namespace kiln {
namespace {

absl::StatusOr<CacheKey> KeyOf(absl::string_view bytes) {
  CacheKey key{};
  if (bytes.size() != key.size()) return absl::DataLossError("a kernel or constant has no key");
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return key;
}

// The highest target whose code runs here, on the device if there is one; else, for the VM, any of
// the CPU's.
const packaged::Target* Choose(const packaged::Package& package, const ComputeDevice* on,
                               bool* run_code) {
  const packaged::Target* best = nullptr;
  *run_code = false;
  int highest = -1;
  for (const packaged::Target& target : package.targets()) {
    const std::optional<Target> level = Target::Parse(target.name());
    const bool on_device = level.has_value() && !OnHost(level->device);
    if (on_device && on == nullptr) continue;
    const bool runs =
        level.has_value() && level->RunsOn(on_device ? on->target() : HostTarget(level->device));
    const int rank =
        runs ? level->level + (on_device ? 256 : 0) : -1;  // correctness: levels are bytes
    if (best != nullptr && rank <= highest) continue;
    best = &target;
    *run_code = *run_code || runs;
    highest = std::max(highest, rank);
  }
  return best;
}

// The device that some buffers of a program are on, beside the host.
DeviceKind DeviceOfProgram(const program::Program& program) {
  for (const program::Buffer& buffer : program.buffers()) {
    const std::optional<DeviceKind> device = ParseDevice(buffer.device());
    if (device && !OnHost(*device)) return *device;
  }
  return DefaultDevice();
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

void WarnOfVm(const CacheKey& key, const absl::Status& why) {
  LogWarning("kernel ", ToHex(key).substr(0, 12),
             " of the package runs on the VM, slower and with the same results: ", why.message());
}

}  // namespace

Preimage PackagePreimage() { return Preimage().Add("schema", "2").Add("artefact", "package"); }

absl::StatusOr<std::shared_ptr<Package>> Package::Open(const PackageSource& source,
                                                       const PackageOptions& options,
                                                       const std::string& validator, DeviceUse on) {
  return CatchExceptions("opening the package", [&] {
    std::unique_ptr<Validator> made;
    if (options.validate == PackageValidation::kFirstUse)
      made = std::make_unique<Validator>(validator, 1);
    return OpenFor(Depth::kRun, source, options, std::move(made), std::move(on));
  });
}

absl::StatusOr<std::shared_ptr<Package>> Package::OpenPorts(const PackageSource& source) {
  return CatchExceptions("opening the package",
                         [&] { return OpenFor(Depth::kPorts, source, {}, nullptr, {}); });
}

absl::StatusOr<std::shared_ptr<Package>> Package::OpenToLookAt(const PackageSource& source,
                                                               const PackageOptions& options) {
  return CatchExceptions("opening the package",
                         [&] { return OpenFor(Depth::kLookAt, source, options, nullptr, {}); });
}

absl::StatusOr<std::shared_ptr<Package>> Package::OpenFor(Depth depth, const PackageSource& source,
                                                          const PackageOptions& options,
                                                          std::unique_ptr<Validator> validator,
                                                          DeviceUse on) {
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> opened, source.Open());
  std::shared_ptr<Package> made(new Package);
  made->validator_ = std::move(validator);
  made->use_ = std::move(on);
  made->on_ = made->use_.device.get();
  const auto read = [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(made->file_,
                          PackageFile::Open(std::move(opened), source.name(), options));
    return made->Read(depth);
  };
  const absl::Status status = read();
  made->validator_ = nullptr;  // its processes are not needed any more
  if (status.ok()) return made;
  const std::string text = absl::StrCat("package \"", source.name(), "\": ", status.message());
  return absl::IsUnimplemented(status) ? absl::DataLossError(text)
                                       : absl::Status(status.code(), text);
}

absl::Status Package::Read(Depth depth) {
  const Preimage preimage = PackagePreimage();
  absl::StatusOr<Entry> entry = file_->pack().Read(preimage.Key(), &preimage.bytes());
  read_.insert(preimage.Key());
  if (absl::IsNotFound(entry.status())) return absl::DataLossError("has no description of a model");
  KILN_RETURN_IF_ERROR(Annotate(entry.status(), "description"));
  const std::string* const bytes = entry->Find("package");
  const std::string* const chunks = entry->Find("chunks");
  program::Program ports;
  if (bytes == nullptr || chunks == nullptr || !ParseMessage(*bytes, stored_) ||
      !ParseMessage(stored_.ports(), ports))
    return absl::DataLossError("description: it cannot be read");
  KILN_RETURN_IF_ERROR(Annotate(ReadPorts(ports), "description"));
  if (depth == Depth::kPorts) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(file_->ReadChunks(*chunks));
  if (depth == Depth::kLookAt) {
    KILN_RETURN_IF_ERROR(file_->Check(0, file_->area()));
  } else {
    KILN_RETURN_IF_ERROR(Annotate(ReadTarget(), "description"));
  }
  return CheckOtherEntries();
}

absl::Status Package::ReadPorts(const program::Program& ports) {
  KILN_ASSIGN_OR_RETURN(std::vector<PortInfo> inputs, GetPorts(ports.inputs()));
  KILN_ASSIGN_OR_RETURN(std::vector<PortInfo> outputs, GetPorts(ports.outputs()));
  for (const auto* list : {&inputs, &outputs}) {
    std::set<std::string> names;
    for (const PortInfo& port : *list) {
      if (port.name.empty() || !names.insert(port.name).second)
        return absl::DataLossError(
            absl::StrCat("a port has no name, or the name of another: \"", port.name, "\""));
    }
  }
  weights_ = std::make_shared<PackagedWeights>(file_);
  model_ = std::make_shared<PackagedModel>(file_, weights_, std::move(inputs), std::move(outputs));
  return absl::OkStatus();
}

absl::Status Package::ReadTarget() {
  bool run_code = false;
  const packaged::Target* const target = Choose(stored_, on_, &run_code);
  if (target == nullptr && stored_.targets_size() > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "has code for ", stored_.targets(0).name(),
        " alone, and no device is open; name one in RuntimeOptions::device (--device)"));
  }
  if (target == nullptr) return absl::DataLossError("has no target");
  target_ = target->name();
  if (const auto level = kiln::Target::Parse(target_); !level || OnHost(level->device)) {
    std::vector<absl::string_view> names;
    for (const packaged::Target& one : stored_.targets()) names.emplace_back(one.name());
    KILN_RETURN_IF_ERROR(
        use_.RunOnCpu(absl::StrCat("package \"", file_->name(), "\""),
                      absl::StrCat("has code for ", absl::StrJoin(names, ", "), ", none for ",
                                   on_ != nullptr ? on_->target().name() : "")));
  }
  for (const packaged::Variant& stored : target->variants())
    KILN_RETURN_IF_ERROR(Restore(stored, run_code, *model_));
  for (const auto& [blob, elements] : blobs_) weights_->Name(elements, blob);
  for (const packaged::PackedConstant& packed : stored_.packed())
    KILN_RETURN_IF_ERROR(Restore(packed));
  return absl::OkStatus();
}

// That of a constant that the target in use does not have is left alone.
absl::Status Package::Restore(const packaged::PackedConstant& stored) {
  if (stored.packed() < 0 || stored.packed() >= stored_.blobs_size())
    return absl::DataLossError(absl::StrCat("constants: there is no number ", stored.packed()));
  const auto of = blobs_.find(stored.blob());
  const packaged::Blob& blob = stored_.blobs(stored.packed());
  if (of == blobs_.end() || blob.codec() != 0) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const Tensor bytes, Elements(blob));
  weights_->Add({stored.blob(), stored.offset(), stored.bytes(), stored.layout()}, bytes,
                {blob.offset(), blob.stored()});
  return absl::OkStatus();
}

absl::Status Package::CheckOtherEntries() {
  for (const Pack::Row& row : file_->pack().rows()) {
    if (read_.count(row.key) == 0)
      KILN_RETURN_IF_ERROR(file_->pack().Read(row.key, nullptr).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<Entry> Package::ReadEntry(const CacheKey& key, const std::string* preimage) {
  absl::StatusOr<Entry> entry = file_->pack().Read(key, preimage);
  if (absl::IsNotFound(entry.status())) {
    return absl::DataLossError(absl::StrCat("names the entry ", ToHex(key).substr(0, 12),
                                            ", which it does not have; compile it again"));
  }
  if (entry.ok()) read_.insert(key);
  return entry;
}

absl::Status Package::Restore(const packaged::Variant& stored, bool run_code,
                              PackagedModel& model) {
  Variant variant;
  for (const std::string& text : stored.guards()) {
    KILN_ASSIGN_OR_RETURN(variant.guards.emplace_back(), Guard::Parse(text));
  }
  if (!ParseMessage(stored.program(), variant.program))
    return absl::DataLossError("a program cannot be read");
  KILN_RETURN_IF_ERROR(CheckPorts(variant.program, model.inputs(), model.outputs()));
  KILN_RETURN_IF_ERROR(CheckCalledLibraries(variant.program, on_));
  const auto restore = [&](const packaged::Constant& constant) { return Restore(constant); };
  for (const packaged::Constant& constant : stored.constants()) {
    KILN_ASSIGN_OR_RETURN(variant.constants.emplace_back(), restore(constant));
  }
  const DeviceKind device = DeviceOfProgram(variant.program);
  for (const program::KernelDef& def : variant.program.kernels()) {
    auto& choices = variant.kernels.emplace_back();
    for (const program::KernelChoice& choice : def.choices()) {
      KILN_ASSIGN_OR_RETURN(choices.emplace_back(), Kernel(def, choice, run_code, device));
    }
  }
  if (stored.has_script()) {
    KILN_ASSIGN_OR_RETURN(
        variant.script,
        RestoreScript(stored.script(), model.inputs(), model.outputs(), restore,
                      [&](const packaged::Callee& callee) { return Restore(callee, run_code); }));
  }
  model.Add(std::move(variant));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<PackagedModel>> Package::Restore(const packaged::Callee& stored,
                                                                bool run_code) {
  program::Program ports;
  if (!ParseMessage(stored.ports(), ports))
    return absl::DataLossError("the ports of a part cannot be read");
  KILN_ASSIGN_OR_RETURN(std::vector<PortInfo> inputs, GetPorts(ports.inputs()));
  KILN_ASSIGN_OR_RETURN(std::vector<PortInfo> outputs, GetPorts(ports.outputs()));
  auto made =
      std::make_shared<PackagedModel>(file_, weights_, std::move(inputs), std::move(outputs));
  for (const packaged::Variant& variant : stored.variants())
    KILN_RETURN_IF_ERROR(Restore(variant, run_code, *made));
  return made;
}

absl::StatusOr<Tensor> Package::Restore(const packaged::Constant& stored) {
  KILN_ASSIGN_OR_RETURN(const DType type, ToDType(stored.dtype()));
  const std::vector<int64_t> shape(stored.shape().begin(), stored.shape().end());
  if (stored.blob() < 0 || stored.blob() >= stored_.blobs_size())
    return absl::DataLossError(absl::StrCat("constants: there is no number ", stored.blob()));
  const packaged::Blob& blob = stored_.blobs(stored.blob());
  if (const int64_t bytes = CheckedBytes(type, shape); bytes < 0 || bytes != blob.bytes())
    return absl::DataLossError("constants: one has another size than its shape says");
  if (blobs_.count(stored.blob()) == 0) {
    KILN_ASSIGN_OR_RETURN(blobs_[stored.blob()], Elements(blob));
  }
  const Tensor& elements = blobs_[stored.blob()];
  return Tensor::View(elements.data(), type, shape, {}, elements.owner());
}

// Where they lie, or decompressed.
absl::StatusOr<Tensor> Package::Elements(const packaged::Blob& blob) {
  KILN_ASSIGN_OR_RETURN(const ReadableFile::Mapping view,
                        file_->View(blob.offset(), blob.stored()));
  if (blob.codec() == 0) {
    if (blob.stored() != blob.bytes())
      return absl::DataLossError("constants: one has another size than it takes");
    return Tensor::View(const_cast<char*>(view.bytes.data()), DType::kU8, {blob.bytes()}, {},
                        std::const_pointer_cast<void>(view.owner));
  }
  if (blob.codec() != 1) {
    return absl::DataLossError(
        absl::StrCat("constants: one has the codec ", blob.codec(), ", this Kiln knows 0 and 1"));
  }
  KILN_RETURN_IF_ERROR(file_->Check(blob.offset(), blob.stored()));
  KILN_ASSIGN_OR_RETURN(const int64_t bytes, ZstdSize(view.bytes));
  if (bytes != blob.bytes())
    return absl::DataLossError("constants: a compressed one has another size than it says");
  KILN_ASSIGN_OR_RETURN(Tensor elements, TryAllocate(DType::kU8, {bytes}));
  KILN_RETURN_IF_ERROR(Annotate(ZstdDecompress(view.bytes, elements.data(), bytes), "constants"));
  return elements;
}

bool Package::MayRun(const Entry& entry, const program::KernelDef& def) {
  if (validator_ == nullptr) return true;
  const absl::StatusOr<Validation> validation =
      validator_->Validate(ValidationOf(entry, {def.example().begin(), def.example().end()}, on_));
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
  WarnOfVm(entry.key, validation.status());
  return false;
}

absl::StatusOr<std::shared_ptr<KernelHandle>> Package::Kernel(const program::KernelDef& def,
                                                              const program::KernelChoice& choice,
                                                              bool run_code, DeviceKind device) {
  const DeviceKind wanted = device;  // of the program
  if (choice.key().empty()) device = DefaultDevice();
  // A choice without code is on the VM, and known by its text.
  const std::string name = choice.key().empty()
                               ? def.text()
                               : absl::StrCat(choice.key(), choice.schedule(), "\n",
                                              FormatClass(choice.at_most()), "\n", def.text());
  if (const auto known = kernels_.find(name); known != kernels_.end()) return known->second;
  std::shared_ptr<const KernelFunction> function;
  if (run_code && !choice.key().empty()) {
    KILN_ASSIGN_OR_RETURN(const CacheKey key, KeyOf(choice.key()));
    KILN_ASSIGN_OR_RETURN(const Entry entry, ReadEntry(key, nullptr));
    KILN_RETURN_IF_ERROR(CheckIsOf(entry, def, choice));
    const std::optional<KernelCode> code = CodeOf(entry);
    if (code && code->RunsHere(on_) && MayRun(entry, def)) {
      absl::StatusOr<LoadedKernel> loaded = code->Load(on_);
      if (loaded.ok()) {
        function = CompiledFunction(*std::move(loaded), code->device->device);
      } else if (absl::IsUnavailable(loaded.status()) ||
                 absl::IsResourceExhausted(loaded.status())) {  // as for want of a descriptor
        WarnOfVm(key, loaded.status());
      } else {
        return loaded.status();
      }
    }
  }
  if (function == nullptr) {
    const bool told = std::exchange(warned_of_cpu_, true);
    if (!OnHost(wanted) && (!told || use_.required)) {
      KILN_RETURN_IF_ERROR(
          use_.RunOnCpu(absl::StrCat("package \"", file_->name(), "\""),
                        absl::StrCat("kernel \"", def.name(), "\" has no code that runs there")));
    }
    KILN_ASSIGN_OR_RETURN(const kiln::Kernel kernel, ParseKernel(def.text()));
    KILN_ASSIGN_OR_RETURN(function, VmFunction(kernel, device));
  }
  ++(function->vm ? on_vm_ : compiled_);
  return kernels_[name] = std::make_shared<KernelHandle>(std::move(function));
}

namespace {

// The keys of all kernels of a variant and of what its script calls.
void CollectKeys(const packaged::Variant& variant, std::set<std::string>& keys) {
  program::Program program;
  if (ParseMessage(variant.program(), program)) {
    for (const program::KernelDef& def : program.kernels()) {
      for (const program::KernelChoice& choice : def.choices()) keys.insert(choice.key());
    }
  }
  for (const packaged::Callee& callee : variant.script().callees()) {
    for (const packaged::Variant& part : callee.variants()) CollectKeys(part, keys);
  }
}

}  // namespace

std::vector<Package::Target> Package::targets() const {
  std::vector<Target> list;
  for (const packaged::Target& target : stored_.targets()) {
    std::set<std::string> keys;
    for (const packaged::Variant& variant : target.variants()) CollectKeys(variant, keys);
    Target& made = list.emplace_back();
    made.name = target.name();
    made.variants = target.variants_size();
    for (const Pack::Row& row : file_->pack().rows()) {
      if (keys.count(std::string(row.key.begin(), row.key.end())) == 0) continue;
      ++made.kernels;
      made.bytes += row.length;
      const absl::StatusOr<Entry> entry = file_->pack().Read(row.key, nullptr);
      made.unvalidated += entry.ok() && MetaOf(*entry).count("unvalidated") != 0 ? 1 : 0;
    }
  }
  return list;
}

absl::StatusOr<TestCase> Package::Restore(const packaged::TestCase& stored) {
  TestCase test;
  const auto restore = [&](const google::protobuf::RepeatedPtrField<packaged::Constant>& list,
                           std::vector<Tensor>& tensors) -> absl::Status {
    for (const packaged::Constant& constant : list) {
      KILN_ASSIGN_OR_RETURN(const Tensor& tensor, Restore(constant));
      KILN_RETURN_IF_ERROR(file_->CheckMemory(tensor.data(), tensor.size_bytes()));
      tensors.push_back(tensor);
    }
    return absl::OkStatus();
  };
  KILN_RETURN_IF_ERROR(restore(stored.inputs(), test.inputs));
  KILN_RETURN_IF_ERROR(restore(stored.outputs(), test.outputs));
  test.max_error = stored.max_error();
  test.silent = stored.silent();
  KILN_RETURN_IF_ERROR(CheckTestCase(test, inputs(), outputs()));
  return test;
}

absl::StatusOr<std::vector<TestCase>> Package::TestCases() {
  return CatchExceptions("reading test cases", [&]() -> absl::StatusOr<std::vector<TestCase>> {
    std::vector<TestCase> tests;
    for (const packaged::TestCase& stored : stored_.test_cases()) {
      absl::StatusOr<TestCase> test = Restore(stored);
      if (!test.ok()) {
        return absl::DataLossError(absl::StrCat("package \"", file_->name(), "\": test case ",
                                                tests.size(), ": ", test.status().message()));
      }
      tests.push_back(*std::move(test));
    }
    return tests;
  });
}

ModelNotes Package::notes() const {
  ModelNotes notes{stored_.user_info(), {}, stored_.model_version()};
  for (const packaged::Note& note : stored_.metadata())
    notes.metadata.emplace_back(note.key(), note.value());
  return notes;
}

absl::StatusOr<Model> LoadPackage(const PackageSource& source, const RunOptions& options,
                                  const PackageOptions& package) {
  return CatchExceptions("loading the package", [&]() -> absl::StatusOr<Model> {
    KILN_ASSIGN_OR_RETURN(
        std::shared_ptr<Package> opened,
        Package::Open(source, package, /*validator=*/"", DeviceUseOf(options.runtime)));
    return Model::Create(std::move(opened), options);
  });
}

absl::StatusOr<Model> LoadPackage(absl::string_view path, const RunOptions& options,
                                  PackageValidation validate) {
  return CatchExceptions("loading the package", [&] {  // the source's name is memory too
    PackageOptions package;
    package.validate = validate;
    return LoadPackage(PackageSource::File(path), options, package);
  });
}

}  // namespace kiln
