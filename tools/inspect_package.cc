// SPDX-License-Identifier: Apache-2.0
#include "tools/inspect_package.h"

#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file_system.h"
#include "base/parse_message.h"
#include "exec/package/package.h"
#include "nlohmann/json.hpp"
#include "persistent_cache/settings.h"
#include "persistent_cache/signature.h"
#include "tools/entry_section.h"
#include "tools/exit_code.h"
#include "tools/report.h"

namespace kiln {
namespace {

using nlohmann::json;

// {"key", "name", "verified"}, or null. The name is that of the user's trust file.
json SignerOf(const std::string& path, const Package& package) {
  const std::optional<PublicKey> key = package.file().pack().public_key();
  if (!key.has_value()) return nullptr;
  std::string name;
  if (const std::string trust = TrustFilePath(); !trust.empty()) {
    const auto signers = ReadTrustFile(RealFileSystem(), trust);
    if (signers.ok() && signers->count(*key) != 0) name = signers->at(*key);
  }
  PackageOptions demanding;
  demanding.signers = {{*key, name}};
  const absl::Status verified =
      Package::OpenToLookAt(PackageSource::File(path), demanding).status();
  return {{"key", ToHex(*key)}, {"name", name}, {"verified", verified.ok()}};
}

// Where the parts of a script are in the model: "" is the model, "1.0" the first callee of the
// second callee.
void ListVariants(const google::protobuf::RepeatedPtrField<packaged::Variant>& variants,
                  const std::string& target, const std::string& part, json& list) {
  for (const packaged::Variant& variant : variants) {
    program::Program program;
    ParseMessage(variant.program(), program);
    list.push_back({{"target", target},
                    {"part", part},
                    {"guards", json(std::vector<std::string>(variant.guards().begin(),
                                                             variant.guards().end()))},
                    {"kernels", program.kernels_size()},
                    {"constants", variant.constants_size() + variant.script().constants_size()},
                    {"parts", variant.script().callees_size()}});
    int number = 0;
    for (const packaged::Callee& callee : variant.script().callees()) {
      ListVariants(callee.variants(), target, absl::StrCat(part, part.empty() ? "" : ".", number++),
                   list);
    }
  }
}

json ListKernels(const Package& package) {
  json list = json::array();
  const Pack& pack = package.file().pack();
  for (const Pack::Row& row : pack.rows()) {
    const absl::StatusOr<Entry> entry = pack.Read(row.key, nullptr);
    if (!entry.ok() || entry->Find("package") != nullptr) continue;
    std::map<std::string, std::string> meta = MetaOf(*entry);
    list.push_back({{"key", ToHex(row.key)},
                    {"target", meta["target"]},
                    {"isa", meta["isa"]},
                    {"schedule", meta["schedule"]},
                    {"bytes", row.length},
                    {"validated", meta.count("unvalidated") == 0},
                    {"validated_on", meta["validated_on"]}});
  }
  return list;
}

json ConstantsOf(const packaged::Package& package) {
  std::set<int> packed;
  for (const packaged::PackedConstant& constant : package.packed())
    packed.insert(constant.packed());
  json list = json::array();
  for (int k = 0; k < package.blobs_size(); ++k) {
    const packaged::Blob& blob = package.blobs(k);
    list.push_back({{"offset", blob.offset()},
                    {"bytes", blob.bytes()},
                    {"stored", blob.stored()},
                    {"compression", blob.codec() == 0 ? "none" : "zstd"},
                    {"packed", packed.count(k) != 0}});
  }
  return list;
}

json NotesOf(const Package& package) {
  const ModelNotes notes = package.notes();
  json metadata = json::array();
  for (const auto& [key, value] : notes.metadata)
    metadata.push_back({{"name", key}, {"value", value}});
  return {{"user_info", notes.user_info},
          {"metadata", std::move(metadata)},
          {"model_version", notes.model_version}};
}

json ListTargets(const Package& package) {
  json list = json::array();
  for (const Package::Target& target : package.targets()) {
    list.push_back({{"name", target.name},
                    {"variants", target.variants},
                    {"kernels", target.kernels},
                    {"unvalidated", target.unvalidated},
                    {"bytes", target.bytes}});
  }
  return list;
}

std::string Text(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// The rows of a list, if there are any, with these fields as columns.
void PrintTable(const json& list, const std::vector<std::string>& columns) {
  if (list.empty()) return;
  std::vector<std::vector<std::string>> rows = {columns};
  for (const json& item : list) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const std::string& column : columns) {
      const json& value = item.at(column);
      row.push_back(column == "bytes" || column == "stored" ? Bytes(value.get<int64_t>())
                    : column == "key"                       ? Text(value).substr(0, 12)
                    : column == "validated" && !item["validated_on"].get<std::string>().empty()
                        ? absl::StrCat("on ", Text(item["validated_on"]))
                    : value.is_array() ? absl::StrJoin(value.get<std::vector<std::string>>(), ", ")
                                       : Text(value));
    }
  }
  std::cout << Table(rows);
}

void PrintPackage(const json& results) {
  PrintPorts(results["inputs"], "input ");
  PrintPorts(results["outputs"], "output");
  const json& package = results["package"];
  std::cout << "format  " << package["format"] << ", " << Bytes(package["bytes"].get<int64_t>())
            << "\nsigner  ";
  if (const json& signer = package["signer"]; signer.is_null()) {
    std::cout << "not signed\n";
  } else {
    const std::string name = Text(signer["name"]);
    std::cout << Text(signer["key"]) << " " << (name.empty() ? "(not a trusted signer)" : name)
              << (signer["verified"].get<bool>() ? "" : " (NOT verified)") << "\n";
  }
  if (package["test_cases"] != 0) std::cout << "tests   " << package["test_cases"] << "\n";
  const json& notes = package["notes"];
  if (notes["model_version"] != 0) std::cout << "version " << notes["model_version"] << "\n";
  if (!notes["user_info"].get<std::string>().empty())
    std::cout << "info    "
              << notes["user_info"].dump(-1, ' ', false, json::error_handler_t::replace) << "\n";
  PrintTable(notes["metadata"], {"name", "value"});
  PrintTable(results["targets"], {"name", "variants", "kernels", "unvalidated", "bytes"});
  PrintTable(package["variants"], {"target", "part", "kernels", "constants", "parts", "guards"});
  PrintTable(package["kernels"], {"key", "target", "bytes", "validated", "schedule"});
  PrintTable(package["constants"], {"offset", "bytes", "stored", "compression", "packed"});
}

}  // namespace

void PrintPorts(const nlohmann::json& ports, const char* what) {
  for (const nlohmann::json& port : ports) {
    std::cout << what << "  " << port["name"].get<std::string>() << " : "
              << port["dtype"].get<std::string>() << " " << port["shape"].dump() << "\n";
  }
}

int EmitOfPackage(const std::string& path, const std::string& key, const std::string& emit) {
  const auto package = Package::OpenToLookAt(PackageSource::File(path));
  if (!package.ok()) return Fail(package.status(), ModelExit(package.status()));
  const Pack& pack = (*package)->file().pack();
  std::vector<Entry> found;
  for (const Pack::Row& row : pack.rows()) {
    absl::StatusOr<Entry> entry = pack.Read(row.key, nullptr);
    if (entry.ok() && entry->Find("package") == nullptr && absl::StartsWith(ToHex(row.key), key))
      found.push_back(*std::move(entry));
  }
  if (found.size() != 1) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
                    "--kernel \"", key, "\": ", found.size(), " kernels of the package have a key ",
                    "that begins so; give more of one that kiln inspect lists")),
                kExitUsage);
  }
  if (const std::optional<Target> target = Target::Parse(MetaOf(found[0])["target"])) {
    if (const absl::Status known = CheckEmit(emit, *target); !known.ok())
      return Fail(known, kExitUsage);
  }
  const absl::StatusOr<std::string> section = SectionOf(found[0], emit);
  if (!section.ok()) {
    return Fail(section.status(),
                absl::IsNotFound(section.status()) ? kExitDevice : kExitUnsupported);
  }
  std::cout.write(section->data(), static_cast<std::streamsize>(section->size()));
  return kExitOk;
}

int InspectPackage(const std::string& path, const CommonOptions& common) {
  const auto package = Package::OpenToLookAt(PackageSource::File(path));
  if (!package.ok()) return Fail(package.status(), ModelExit(package.status()));
  json variants = json::array();
  for (const packaged::Target& target : (*package)->stored().targets())
    ListVariants(target.variants(), target.name(), "", variants);
  json results = {{"inputs", json::array()},
                  {"outputs", json::array()},
                  {"opset", nullptr},
                  {"nodes", 0},
                  {"unsupported", json::array()},
                  {"targets", ListTargets(**package)},
                  {"package",
                   {{"format", kPackageVersion},
                    {"bytes", (*package)->file().size()},
                    {"signer", SignerOf(path, **package)},
                    {"variants", variants},
                    {"kernels", ListKernels(**package)},
                    {"constants", ConstantsOf((*package)->stored())},
                    {"test_cases", (*package)->stored().test_cases_size()},
                    {"notes", NotesOf(**package)}}}};
  for (const PortInfo& port : (*package)->inputs()) results["inputs"].push_back(ToJson(port));
  for (const PortInfo& port : (*package)->outputs()) results["outputs"].push_back(ToJson(port));
  if (common.json) {
    PrintJson("inspect", common, results);
  } else {
    PrintPackage(results);
  }
  return kExitOk;
}

}  // namespace kiln
