// SPDX-License-Identifier: Apache-2.0
#include "compiler/package_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/parse_message.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/tensor_bytes.h"
#include "compiler/kernel_entry.h"
#include "compiler/kernel_key.h"
#include "exec/package.h"
#include "exec/ports.h"
#include "exec/support/kernel_code.h"
#include "exec/validate/validation.h"
#include "persistent_cache/entry.h"
#include "persistent_cache/pack.h"

namespace kiln {
namespace {

template <typename Array>
std::string Text(const Array& bytes) {
  return {bytes.begin(), bytes.end()};
}

Entry EntryFor(const Preimage& preimage, const char* kind) {
  Entry entry;
  entry.key = preimage.Key();
  entry.Add("preimage", preimage.bytes(), true);
  entry.Add("meta", FormatMeta({{"kind", kind}}), true);
  return entry;
}

}  // namespace

void LeaveOutWhatWasMeasured(Entry& entry) {
  for (Section& section : entry.sections) {
    if (section.tag != "meta") continue;
    std::map<std::string, std::string> meta = ParseMeta(section.bytes);
    meta.erase("wall_ms");
    meta.erase("validated_on");
    section.bytes = FormatMeta(meta);
  }
}

PackageWriter::PackageWriter(const std::vector<PortInfo>& inputs,
                             const std::vector<PortInfo>& outputs, MathMode math)
    : math_(math) {
  program::Program ports;
  SetPorts(inputs, ports.mutable_inputs());
  SetPorts(outputs, ports.mutable_outputs());
  package_.set_ports(ports.SerializeAsString());
}

packaged::Target& PackageWriter::TargetOf(Target target) {
  for (packaged::Target& known : *package_.mutable_targets()) {
    if (known.name() == target.name()) return known;
  }
  packaged::Target* const made = package_.add_targets();
  made->set_name(std::string(target.name()));
  return *made;
}

void PackageWriter::Add(Target target, const Variant& variant) {
  packaged::Variant stored;
  for (const Guard& guard : variant.guards) *stored.add_guards() = guard.ToString();
  program::Program program = variant.program;
  for (program::KernelDef& def : *program.mutable_kernels()) {
    for (program::KernelChoice& choice : *def.mutable_choices()) {
      const CacheKey key = KernelPreimage({def.text(), choice.schedule(), target, math_}).Key();
      choice.set_key(Text(key));
      std::vector<int64_t> at_most(choice.at_most().begin(), choice.at_most().end());
      const auto [known, is_new] = kernels_.emplace(key, std::move(at_most));
      if (!is_new) known->second = UnionOfClasses(known->second, choice.at_most());
    }
  }
  stored.set_program(program.SerializeAsString());
  for (const Tensor& constant : variant.constants) {
    const Tensor dense = constant.is_dense() ? constant : constant.Clone();
    packaged::Constant* const made = stored.add_constants();
    made->set_dtype(static_cast<uint32_t>(dense.dtype()));
    for (const int64_t extent : dense.shape()) made->add_shape(extent);
    made->set_blob(Text(Sha256(BytesOf(dense))));
    constants_.emplace(made->blob(), dense);
  }
  packaged::Target& all = TargetOf(target);
  const std::string bytes = stored.SerializeAsString();
  for (const packaged::Variant& known : all.variants()) {
    if (known.SerializeAsString() == bytes) return;
  }
  *all.add_variants() = std::move(stored);
}

absl::StatusOr<std::string> PackageWriter::Encode(Store& store) {
  if (package_.targets().empty()) return absl::InvalidArgumentError("package: nothing is in it");
  std::vector<Entry> entries;
  for (const auto& [key, at_most] : kernels_) {
    absl::StatusOr<Entry> entry = store.Read(key);
    if (!entry.ok() || !CodeOf(*entry)) continue;
    LeaveOutWhatWasMeasured(*entry);
    // The code is right for whatever has its parameters; the entry tells of the extents of whoever
    // asked first.
    if (const std::vector<int64_t> known = ParseClass(MetaOf(*entry)["at_most"]);
        !IsWithinClass(at_most, known))
      SetMeta(*entry, {{"at_most", FormatClass(UnionOfClasses(at_most, known))}});
    // Built for a CPU that the builder is not.
    if (MetaOf(*entry)["validation"].empty()) SetMeta(*entry, {{"unvalidated", "1"}});
    entries.push_back(*std::move(entry));
  }
  std::set<std::string> there;
  for (const Entry& entry : entries) there.insert(Text(entry.key));
  packaged::Package package = package_;
  for (packaged::Target& target : *package.mutable_targets()) {
    for (packaged::Variant& variant : *target.mutable_variants()) {
      program::Program program;
      ParseMessage(variant.program(), program);
      for (program::KernelDef& def : *program.mutable_kernels()) {
        for (program::KernelChoice& choice : *def.mutable_choices())
          if (there.count(choice.key()) == 0) choice.clear_key();
      }
      variant.set_program(program.SerializeAsString());
    }
  }
  for (const auto& [digest, constant] : constants_) {
    if (constant.size_bytes() > kMaxEntryBytes / 2) {
      return absl::ResourceExhaustedError(
          absl::StrCat("package: a constant of ", constant.size_bytes(), " bytes is larger than ",
                       kMaxEntryBytes / 2, "; ship the model with a kernel pack instead"));
    }
    Entry entry = EntryFor(ConstantPreimage(digest), "constant");
    entry.Add("blob", std::string(BytesOf(constant)), true);
    entries.push_back(std::move(entry));
  }
  Entry head = EntryFor(PackagePreimage(), "package");
  head.Add("package", package.SerializeAsString(), false);
  entries.push_back(std::move(head));
  return EncodePack(std::move(entries), nullptr);
}

}  // namespace kiln
