// SPDX-License-Identifier: Apache-2.0
#include "compiler/package_writer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "base/cuda_device.h"
#include "base/parse_message.h"
#include "base/proto_add.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "base/tensor_bytes.h"
#include "base/zstd.h"
#include "compiler/compile_script.h"
#include "compiler/kernel_entry.h"
#include "compiler/kernel_key.h"
#include "exec/package/package.h"
#include "exec/package/package_file.h"
#include "exec/package/packaged_script.h"
#include "exec/ports.h"
#include "exec/script.h"
#include "exec/support/kernel_code.h"
#include "exec/validate/validation.h"
#include "persistent_cache/entry.h"
#include "persistent_cache/pack.h"

namespace kiln {
namespace {

constexpr int64_t kPageBytes = 4096, kLineBytes = 64;
constexpr size_t kLargeBytes = 64 << 10;  // of a constant that gets pages of its own
constexpr size_t kLeastSaving = 10;       // a tenth

template <typename Array>
std::string Text(const Array& bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace

void LeaveOutWhatWasMeasured(Entry& entry) {
  for (Section& section : entry.sections) {
    if (section.tag != "meta") continue;
    std::map<std::string, std::string> meta = ParseMeta(section.bytes);
    meta.erase("wall_ms");
    // That it was the emulator stays, as that it was nobody: no GPU has run it.
    if (!absl::StrContains(meta["validated_on"], kEmulatedModel)) meta.erase("validated_on");
    section.bytes = FormatMeta(meta);
  }
}

PackageWriter::PackageWriter(const std::vector<PortInfo>& inputs,
                             const std::vector<PortInfo>& outputs, MathMode math)
    : math_(math), inputs_(inputs), outputs_(outputs) {
  program::Program ports;
  SetPorts(inputs, ports.mutable_inputs());
  SetPorts(outputs, ports.mutable_outputs());
  package_.set_ports(ports.SerializeAsString());
}

packaged::Target& PackageWriter::TargetOf(Target target) {
  for (packaged::Target& known : *package_.mutable_targets()) {
    if (known.name() == target.name()) return known;
  }
  packaged::Target* const made = AddTo(package_.mutable_targets());
  made->set_name(std::string(target.name()));
  return *made;
}

packaged::Constant PackageWriter::Stored(const Tensor& constant) {
  const Tensor dense = constant.is_dense() ? constant : constant.Clone();
  packaged::Constant stored;
  stored.set_dtype(static_cast<uint32_t>(dense.dtype()));
  for (const int64_t extent : dense.shape()) stored.add_shape(extent);
  const absl::string_view bytes = BytesOf(dense);
  // What was hashed is kept, so nothing else lies there later.
  if (const auto known = at_.find({bytes.data(), bytes.size()}); known != at_.end()) {
    stored.set_blob(known->second);
    return stored;
  }
  const auto [blob, is_new] =
      blob_of_.emplace(Text(Sha256(bytes)), static_cast<int>(blobs_.size()));
  if (is_new) {
    blobs_.push_back(dense);
    at_.emplace(std::pair(bytes.data(), bytes.size()), blob->second);
  }
  stored.set_blob(blob->second);
  return stored;
}

absl::StatusOr<packaged::Variant> PackageWriter::Stored(Target target, const Variant& variant) {
  packaged::Variant stored;
  for (const Guard& guard : variant.guards) *AddTo(stored.mutable_guards()) = guard.ToString();
  program::Program program = variant.program;
  for (program::KernelDef& def : *program.mutable_kernels()) {
    for (program::KernelChoice& choice : *def.mutable_choices()) {
      const CacheKey key =
          KernelPreimage(IdentityOf(def.text(), choice.schedule(), target, math_)).Key();
      choice.set_key(Text(key));
      std::vector<int64_t> at_most(choice.at_most().begin(), choice.at_most().end());
      const auto [known, is_new] = kernels_.emplace(key, std::move(at_most));
      if (!is_new) known->second = UnionOfClasses(known->second, choice.at_most());
    }
  }
  stored.set_program(program.SerializeAsString());
  for (const Tensor& constant : variant.constants)
    *AddTo(stored.mutable_constants()) = Stored(constant);
  if (variant.script == nullptr) return stored;
  KILN_RETURN_IF_ERROR(StoreScript(*variant.script, *stored.mutable_script()));
  for (const auto& [slot, constant] : variant.script->constants) {
    packaged::SlotConstant* const made = AddTo(stored.mutable_script()->mutable_constants());
    made->set_slot(slot);
    *made->mutable_value() = Stored(constant);
  }
  for (const Script::Callee& callee : variant.script->callees) {
    packaged::Callee* const made = AddTo(stored.mutable_script()->mutable_callees());
    program::Program ports;
    SetPorts(callee.program->inputs(), ports.mutable_inputs());
    SetPorts(callee.program->outputs(), ports.mutable_outputs());
    made->set_ports(ports.SerializeAsString());
    made->mutable_symbols()->Add(callee.symbols.begin(), callee.symbols.end());
    for (const std::shared_ptr<const Variant>& part : VariantsOf(*callee.program)) {
      KILN_ASSIGN_OR_RETURN(*AddTo(made->mutable_variants()), Stored(target, *part));
    }
  }
  return stored;
}

absl::Status PackageWriter::Add(Target target, const Variant& variant) {
  KILN_ASSIGN_OR_RETURN(packaged::Variant stored, Stored(target, variant));
  packaged::Target& all = TargetOf(target);
  const std::string bytes = stored.SerializeAsString();
  for (const packaged::Variant& known : all.variants()) {
    if (known.SerializeAsString() == bytes) return absl::OkStatus();
  }
  *AddTo(all.mutable_variants()) = std::move(stored);
  return absl::OkStatus();
}

void PackageWriter::AddPacked(const PackagedWeights::Packed& packed) {
  packaged::PackedConstant& made = *AddTo(package_.mutable_packed());
  made.set_blob(packed.key.blob);
  made.set_offset(packed.key.offset);
  made.set_bytes(packed.key.bytes);
  made.set_layout(packed.key.layout);
  made.set_packed(Stored(packed.bytes).blob());
}

absl::Status PackageWriter::AddTestCase(const TestCase& test) {
  KILN_RETURN_IF_ERROR(Annotate(CheckTestCase(test, inputs_, outputs_), "test case"));
  packaged::TestCase& made = *AddTo(package_.mutable_test_cases());
  for (const Tensor& tensor : test.inputs) *AddTo(made.mutable_inputs()) = Stored(tensor);
  for (const Tensor& tensor : test.outputs) *AddTo(made.mutable_outputs()) = Stored(tensor);
  made.set_max_error(test.max_error);
  made.set_silent(test.silent);
  return absl::OkStatus();
}

void PackageWriter::SetNotes(const ModelNotes& notes) {
  package_.set_user_info(notes.user_info);
  package_.set_model_version(notes.model_version);
  for (const auto& [key, value] : notes.metadata) {
    packaged::Note& note = *AddTo(package_.mutable_metadata());
    note.set_key(key);
    note.set_value(value);
  }
}

namespace {

// Leaves the kernels of a variant, and of what its script calls, to the VM where their key is not
// `there`.
void LeaveToVm(packaged::Variant& variant, const std::set<std::string>& there) {
  program::Program program;
  ParseMessage(variant.program(), program);
  for (program::KernelDef& def : *program.mutable_kernels()) {
    for (program::KernelChoice& choice : *def.mutable_choices())
      if (there.count(choice.key()) == 0) choice.clear_key();
  }
  variant.set_program(program.SerializeAsString());
  if (!variant.has_script()) return;
  for (packaged::Callee& callee : *variant.mutable_script()->mutable_callees()) {
    for (packaged::Variant& part : *callee.mutable_variants()) LeaveToVm(part, there);
  }
}

// The code is right for whatever has its parameters; the entry tells of the extents of whoever
// asked first, and was validated with those. In a package it tells of the extents there, so that
// what else a cache has served changes no byte of it.
void DescribeFor(const std::vector<int64_t>& at_most, Entry& entry) {
  LeaveOutWhatWasMeasured(entry);
  for (Section& section : entry.sections) {
    if (section.tag != "meta") continue;
    std::map<std::string, std::string> meta = ParseMeta(section.bytes);
    // Built for a CPU that the builder is not.
    if (meta["validation"].empty()) meta["unvalidated"] = std::string("1");  // g++ 12 warns of "1"
    meta.erase("validation");
    meta.erase("example");
    meta["at_most"] = FormatClass(at_most);
    section.bytes = FormatMeta(meta);
  }
}

// The area of the file: hands it on in chunks, and keeps the sums of each.
class AreaWriter {
 public:
  explicit AreaWriter(const PackageWriter::AppendFn& append) : append_(append) {}

  int64_t size() const { return size_; }
  absl::Status Append(absl::string_view bytes) {
    while (!bytes.empty()) {
      const size_t taken =
          std::min(bytes.size(), static_cast<size_t>(kPackageChunkBytes) - chunk_.size());
      chunk_.append(bytes.data(), taken);
      size_ += static_cast<int64_t>(taken);
      bytes.remove_prefix(taken);
      if (chunk_.size() == static_cast<size_t>(kPackageChunkBytes)) KILN_RETURN_IF_ERROR(Flush());
    }
    return absl::OkStatus();
  }
  absl::Status AlignTo(int64_t alignment) {
    return Append(
        std::string(static_cast<size_t>((alignment - size_ % alignment) % alignment), '\0'));
  }
  // The sums of all chunks, which are whole now.
  absl::StatusOr<std::string> Finish() {
    if (!chunk_.empty()) KILN_RETURN_IF_ERROR(Flush());
    return sums_;
  }

 private:
  absl::Status Flush() {
    sums_ += PackageChunkSums(chunk_);
    KILN_RETURN_IF_ERROR(append_(chunk_));
    chunk_.clear();
    return absl::OkStatus();
  }

  const PackageWriter::AppendFn& append_;
  std::string chunk_, sums_;
  int64_t size_ = 0;
};

// Large ones begin at a page, so that a process has no page of a neighbour's.
absl::StatusOr<packaged::Blob> WriteBlob(absl::string_view bytes, bool compress, AreaWriter& area) {
  packaged::Blob blob;
  blob.set_bytes(static_cast<int64_t>(bytes.size()));
  std::string frame;
  if (compress && !bytes.empty()) {
    KILN_ASSIGN_OR_RETURN(frame, ZstdCompress(bytes));
    if (frame.size() < bytes.size() - bytes.size() / kLeastSaving) {
      blob.set_codec(1);
      bytes = frame;
    }
  }
  KILN_RETURN_IF_ERROR(area.AlignTo(bytes.size() >= kLargeBytes ? kPageBytes : kLineBytes));
  blob.set_offset(area.size());
  blob.set_stored(static_cast<int64_t>(bytes.size()));
  KILN_RETURN_IF_ERROR(area.Append(bytes));
  return blob;
}

}  // namespace

absl::Status PackageWriter::Write(Store& store, const PackageWriteOptions& options,
                                  const AppendFn& append) const {
  std::vector<Entry> entries;
  for (const auto& [key, at_most] : kernels_) {
    absl::StatusOr<Entry> entry = store.Read(key);
    if (!entry.ok() || !CodeOf(*entry)) continue;
    DescribeFor(at_most, *entry);
    entries.push_back(*std::move(entry));
  }
  return WriteEntries(std::move(entries), options, append);
}

absl::Status PackageWriter::WriteForVm(const AppendFn& append) const {
  return WriteEntries({}, {}, append);
}

absl::Status PackageWriter::WriteEntries(std::vector<Entry> entries,
                                         const PackageWriteOptions& options,
                                         const AppendFn& append) const {
  if (package_.targets().empty()) return absl::InvalidArgumentError("package: nothing is in it");
  std::set<std::string> there;
  for (const Entry& entry : entries) there.insert(Text(entry.key));
  packaged::Package package = package_;
  for (packaged::Target& target : *package.mutable_targets()) {
    for (packaged::Variant& variant : *target.mutable_variants()) LeaveToVm(variant, there);
  }
  AreaWriter area(append);
  KILN_RETURN_IF_ERROR(area.Append(PackageHead()));
  for (const Tensor& constant : blobs_) {
    KILN_ASSIGN_OR_RETURN(*AddTo(package.mutable_blobs()),
                          WriteBlob(BytesOf(constant), options.compress, area));
  }
  KILN_ASSIGN_OR_RETURN(std::string sums, area.Finish());
  Entry head;
  head.key = PackagePreimage().Key();
  head.Add("preimage", PackagePreimage().bytes(), true);
  head.Add("meta", FormatMeta({{"kind", "package"}}), true);
  head.Add("package", package.SerializeAsString(), false);
  head.Add("chunks", std::move(sums), false);
  entries.push_back(std::move(head));
  KILN_ASSIGN_OR_RETURN(const std::string pack, EncodePack(std::move(entries), options.key));
  KILN_RETURN_IF_ERROR(append(pack));
  return append(PackageFooter(pack, area.size()));
}

absl::StatusOr<std::string> PackageWriter::Encode(Store& store,
                                                  const PackageWriteOptions& options) const {
  std::string file;
  KILN_RETURN_IF_ERROR(Write(store, options, [&](absl::string_view bytes) {
    file.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }));
  return file;
}

}  // namespace kiln
