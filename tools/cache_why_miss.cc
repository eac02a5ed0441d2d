// SPDX-License-Identifier: Apache-2.0
// kiln cache why-miss MODEL: for each kernel a hit, or the nearest entry and what differs.
#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/kernel_service.h"
#include "exec/support/kernel_code.h"
#include "nlohmann/json.hpp"
#include "tools/cache.h"
#include "tools/exit_code.h"
#include "tools/report.h"

namespace kiln {
namespace {

struct KnownPreimage {
  CacheKey key{};
  PreimageFields fields;
};

// The preimages of all entries; those that cannot be read are left out.
std::vector<KnownPreimage> ReadAllPreimages(Store& store) {
  std::vector<KnownPreimage> known;
  const absl::StatusOr<std::vector<EntryInfo>> entries = store.List();
  for (const EntryInfo& info : entries.ok() ? *entries : std::vector<EntryInfo>()) {
    const absl::StatusOr<std::string> preimage = store.Peek(info.key, "preimage");
    if (!preimage.ok()) continue;
    auto fields = ParsePreimage(*preimage);
    if (fields.ok()) known.push_back({info.key, *std::move(fields)});
  }
  return known;
}

size_t CommonPrefix(const std::string& a, const std::string& b) {
  return static_cast<size_t>(
      std::mismatch(a.begin(),
                    a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())),
                    b.begin())
          .first -
      a.begin());
}

// How near an entry is: the number of equal fields, then how far the first unequal one agrees.
std::pair<size_t, size_t> Nearness(const PreimageFields& a, const PreimageFields& b) {
  size_t equal = 0;
  size_t prefix = 0;
  for (size_t k = 0; k < std::min(a.size(), b.size()); ++k) {
    if (a[k] == b[k]) {
      ++equal;
    } else if (prefix == 0) {
      prefix = CommonPrefix(a[k].second, b[k].second);
    }
  }
  return {equal, prefix};
}

// The part of a value that shows the difference: of texts the first line that differs.
std::string Shown(const std::string& value, const std::string& other) {
  const size_t same = CommonPrefix(value, other);
  const size_t start = same == 0 ? std::string::npos : value.rfind('\n', same - 1);
  const size_t from = start == std::string::npos ? 0 : start + 1;
  return value.substr(from, value.find('\n', same) - from);
}

nlohmann::json Explain(const PreimageFields& wanted, const std::vector<KnownPreimage>& known) {
  const KnownPreimage* nearest = nullptr;
  for (const KnownPreimage& entry : known) {
    if (nearest == nullptr || Nearness(wanted, nearest->fields) < Nearness(wanted, entry.fields))
      nearest = &entry;
  }
  nlohmann::json json = {{"nearest", nullptr}, {"field", nullptr}};
  if (nearest == nullptr) return json;
  json["nearest"] = ToHex(nearest->key);
  const PreimageFields& have = nearest->fields;
  for (size_t k = 0; k < wanted.size(); ++k) {
    if (k < have.size() && wanted[k] == have[k]) continue;
    const std::string stored = k < have.size() ? have[k].second : "";
    json["field"] = wanted[k].first;
    json["wanted"] = Shown(wanted[k].second, stored);
    json["stored"] = Shown(stored, wanted[k].second);
    break;
  }
  return json;
}

nlohmann::json Judge(Store& store, const KernelIdentity& identity,
                     const std::vector<KnownPreimage>& known) {
  const Preimage preimage = KernelPreimage(identity);
  nlohmann::json json = {{"key", ToHex(preimage.Key())},
                         {"kernel", KernelSummary(preimage.bytes())}};
  const absl::StatusOr<Entry> entry = store.Read(preimage.Key());
  if (absl::IsNotFound(entry.status())) {
    json["state"] = "miss";
    json.update(Explain(*ParsePreimage(preimage.bytes()), known));
  } else if (!entry.ok()) {
    json["state"] = "damaged";
    json["reason"] = std::string(entry.status().message());
  } else if (const std::string* const failure = entry->Find("failure"); failure != nullptr) {
    json["state"] = "fails";
    json["reason"] = *failure;
  } else if (const std::string isa = MetaOf(*entry)["isa"];
             OnHost(identity.target.device) && !RunsHere(MetaOf(*entry))) {
    json["state"] = "other cpu";
    json["reason"] = absl::StrCat("needs ", isa);
  } else {
    json["state"] = "hit";
  }
  return json;
}

std::string Text(const nlohmann::json& json, const char* name) {
  return json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : "";
}

void PrintKernel(const nlohmann::json& kernel) {
  std::cout << Text(kernel, "key").substr(0, 12) << "  " << Text(kernel, "state") << "  "
            << Fit(Text(kernel, "kernel"), 54) << "\n";
  if (!Text(kernel, "reason").empty()) std::cout << "    " << Text(kernel, "reason") << "\n";
  if (Text(kernel, "state") != "miss") return;
  if (Text(kernel, "nearest").empty()) {
    std::cout << "    the cache has no entries\n";
    return;
  }
  std::cout << "    nearest " << Text(kernel, "nearest").substr(0, 12) << ", first differs in \""
            << Text(kernel, "field") << "\"\n"
            << "      wanted  " << Text(kernel, "wanted") << "\n"
            << "      stored  " << Text(kernel, "stored") << "\n";
}

}  // namespace

int CacheWhyMiss(const CacheFlags& flags) {
  const auto store = OpenStore(flags, true);
  if (!store.ok()) return Fail(store.status(), kExitCache);
  TuneUse tune;
  tune.store = store->get();
  const auto kernels = KernelsOfModel(flags.model, flags.common, tune);
  if (!kernels.ok()) return Fail(kernels.status(), ModelExit(kernels.status()));
  const std::vector<KnownPreimage> known = ReadAllPreimages(**store);
  nlohmann::json list = nlohmann::json::array();
  int64_t hits = 0;
  for (const KernelJob& kernel : *kernels) {
    list.push_back(Judge(**store, kernel.identity, known));
    hits += list.back()["state"] == "hit" ? 1 : 0;
  }
  if (flags.common.json) {
    PrintJson(
        "cache.why-miss", flags.common,
        {{"hits", hits}, {"misses", list.size() - static_cast<size_t>(hits)}, {"kernels", list}});
    return kExitOk;
  }
  for (const nlohmann::json& kernel : list) PrintKernel(kernel);
  std::cout << hits << " of " << list.size() << " kernels are in the cache\n";
  return kExitOk;
}

}  // namespace kiln
