// SPDX-License-Identifier: Apache-2.0
// kiln cache show, diff: single entries.
#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "compiler/code_figures.h"
#include "compiler/kernel_key.h"
#include "compiler/kernel_service.h"
#include "kernel/abi.h"
#include "nlohmann/json.hpp"
#include "tools/cache.h"
#include "tools/diff_lines.h"
#include "tools/elf_symbols.h"
#include "tools/entry_section.h"
#include "tools/exit_code.h"
#include "tools/report.h"

namespace kiln {
namespace {

absl::StatusOr<Entry> ReadByPrefix(Store& store, const std::string& prefix) {
  KILN_ASSIGN_OR_RETURN(const CacheKey key, FindKey(store, prefix));
  return store.Read(key);
}

// The functions of its code, without the stubs through which it calls the runtime.
std::vector<ElfSymbol> OwnFunctions(const std::string& elf) {
  std::vector<ElfSymbol> functions = FunctionsOf(elf);
  const auto is_stub = [](const ElfSymbol& function) {
    return std::find(std::begin(kImportNames), std::end(kImportNames), function.name) !=
           std::end(kImportNames);
  };
  functions.erase(std::remove_if(functions.begin(), functions.end(), is_stub), functions.end());
  return functions;
}

// What the cache knows of an entry beside its content.
struct Usage {
  const EntryInfo* info = nullptr;  // null: gone meanwhile
  uint64_t hits = 0;                // since counting began
};

std::vector<std::vector<std::string>> FigureRows(const std::vector<FunctionFigures>& figures) {
  std::vector<std::vector<std::string>> rows = {
      {"function", "level", "threads", "registers", "spilled", "local", "shared"}};
  const auto text = [](const std::optional<int64_t>& number) {
    return number ? absl::StrCat(*number) : "varies";
  };
  for (const FunctionFigures& one : figures) {
    rows.push_back({one.name, one.level, text(one.threads), absl::StrCat(one.registers),
                    absl::StrCat(one.spill_stores), absl::StrCat(one.local), text(one.shared)});
  }
  return rows;
}

nlohmann::json FiguresJson(const std::vector<FunctionFigures>& figures) {
  nlohmann::json list = nlohmann::json::array();
  const auto number = [](const std::optional<int64_t>& one) {
    return one ? nlohmann::json(*one) : nlohmann::json(nullptr);
  };
  for (const FunctionFigures& one : figures) {
    list.push_back({{"name", one.name},
                    {"level", one.level},
                    {"threads", number(one.threads)},
                    {"registers", one.registers},
                    {"spill_stores", one.spill_stores},
                    {"spill_loads", one.spill_loads},
                    {"local", one.local},
                    {"shared", number(one.shared)},
                    {"barriers", one.barriers}});
  }
  return list;
}

void PrintEntry(const Entry& entry, const Usage& usage) {
  std::vector<std::vector<std::string>> rows = {{"key", ToHex(entry.key)}};
  if (usage.info != nullptr)
    rows.push_back({"used", absl::StrCat(Ago(usage.info->mtime_ns), " ago")});
  rows.push_back({"hits", absl::StrCat(usage.hits)});
  for (const Section& section : entry.sections) {
    rows.push_back(
        {absl::StrCat("section ", section.tag), Bytes(static_cast<int64_t>(section.bytes.size()))});
  }
  for (const auto& [name, value] : MetaOf(entry)) rows.push_back({name, value});
  std::cout << Table(rows);
  if (const std::string* const elf = entry.Find("elf"); elf != nullptr) {
    std::cout << "\n[functions]\n";
    for (const ElfSymbol& symbol : OwnFunctions(*elf))
      std::cout << symbol.name << "  " << symbol.bytes << " bytes\n";
  }
  if (const std::vector<FunctionFigures> figures = FiguresOf(entry); !figures.empty())
    std::cout << "\n[functions]\n" << Table(FigureRows(figures));
  if (const std::string* const failure = entry.Find("failure"); failure != nullptr)
    std::cout << "\n[failure]\n" << *failure << "\n";
  if (const std::string* const tune = entry.Find("tune"); tune != nullptr)
    std::cout << "\n[tune]\n" << *tune;
  const auto fields = ParsePreimage(*entry.Find("preimage"));
  for (const auto& [name, value] : fields.ok() ? *fields : PreimageFields())
    std::cout << "\n[" << name << "]\n" << absl::StripSuffix(value, "\n") << "\n";
}

// What an entry says of itself, what was renamed also under its older name.
std::map<std::string, std::string> MetaForJson(const Entry& entry) {
  std::map<std::string, std::string> meta = MetaOf(entry);
  const std::pair<const char*, const char*> renamed[] = {{"validation", "proof"},
                                                         {"validated_on", "proved_on"}};
  for (const auto& [name, older] : renamed) {
    if (const auto found = meta.find(name); found != meta.end()) meta[older] = found->second;
  }
  return meta;
}

nlohmann::json EntryJson(const Entry& entry, const Usage& usage) {
  nlohmann::json json = {{"key", ToHex(entry.key)},
                         {"sections", nlohmann::json::object()},
                         {"preimage", nlohmann::json::object()},
                         {"meta", MetaForJson(entry)},
                         {"hits", usage.hits},
                         {"symbols", nlohmann::json::array()}};
  if (usage.info != nullptr) json["bytes"] = usage.info->bytes;
  if (const std::string* const elf = entry.Find("elf"); elf != nullptr) {
    for (const ElfSymbol& symbol : OwnFunctions(*elf))
      json["symbols"].push_back({{"name", symbol.name}, {"bytes", symbol.bytes}});
  }
  if (const std::vector<FunctionFigures> figures = FiguresOf(entry); !figures.empty())
    json["functions"] = FiguresJson(figures);
  for (const Section& section : entry.sections)
    json["sections"][section.tag] = section.bytes.size();
  const auto fields = ParsePreimage(*entry.Find("preimage"));
  for (const auto& [name, value] : fields.ok() ? *fields : PreimageFields())
    json["preimage"][name] = value;
  if (entry.Find("tune") != nullptr) json["tune"] = *entry.Find("tune");
  if (entry.Find("failure") != nullptr) json["failure"] = *entry.Find("failure");
  return json;
}

}  // namespace

int CacheShow(const CacheFlags& flags) {
  const auto store = OpenStore(flags, true);
  if (!store.ok()) return Fail(store.status(), kExitCache);
  const absl::StatusOr<Entry> entry = ReadByPrefix(**store, flags.keys[0]);
  if (!entry.ok()) return Fail(entry.status(), KeyExit(entry.status()));
  if (!flags.emit.empty()) {
    const absl::StatusOr<std::string> section = SectionOf(*entry, flags.emit);
    if (!section.ok()) return Fail(section.status(), kExitCache);
    std::cout.write(section->data(), static_cast<std::streamsize>(section->size()));
    return kExitOk;
  }
  const absl::StatusOr<std::vector<EntryInfo>> entries = (*store)->List();
  Usage usage;
  for (size_t k = 0; entries.ok() && k < entries->size(); ++k) {
    if ((*entries)[k].key == entry->key) usage.info = &(*entries)[k];
  }
  const CacheStatistics statistics = (*store)->Statistics();
  if (const auto uses = statistics.uses.find(entry->key); uses != statistics.uses.end())
    usage.hits = uses->second;
  if (flags.common.json) {
    PrintJson("cache.show", flags.common, EntryJson(*entry, usage));
  } else {
    PrintEntry(*entry, usage);
  }
  return kExitOk;
}

int CacheDiff(const CacheFlags& flags) {
  const auto store = OpenStore(flags, true);
  if (!store.ok()) return Fail(store.status(), kExitCache);
  PreimageFields fields[2];
  for (size_t k = 0; k < 2; ++k) {
    const absl::StatusOr<Entry> entry = ReadByPrefix(**store, flags.keys[k]);
    if (!entry.ok()) return Fail(entry.status(), KeyExit(entry.status()));
    auto parsed = ParsePreimage(*entry->Find("preimage"));
    if (!parsed.ok()) return Fail(parsed.status(), kExitCache);
    fields[k] = *std::move(parsed);
  }
  nlohmann::json differing = nlohmann::json::array();
  std::string text;
  for (size_t k = 0; k < std::max(fields[0].size(), fields[1].size()); ++k) {
    const auto a = k < fields[0].size() ? fields[0][k] : std::pair<std::string, std::string>();
    const auto b = k < fields[1].size() ? fields[1][k] : std::pair<std::string, std::string>();
    if (a == b) continue;
    const std::string name = a.first.empty() ? b.first : a.first;
    differing.push_back({{"field", name}, {"a", a.second}, {"b", b.second}});
    absl::StrAppend(&text, "[", name, "]\n", DiffLines(a.second, b.second), "\n");
  }
  const std::string first = differing.empty() ? "" : differing[0]["field"].get<std::string>();
  if (flags.common.json) {
    PrintJson("cache.diff", flags.common, {{"first", first}, {"fields", differing}});
  } else if (differing.empty()) {
    std::cout << "the same key\n";
  } else {
    std::cout << "first field that differs: " << first << "\n\n" << text;
  }
  return kExitOk;
}

}  // namespace kiln
