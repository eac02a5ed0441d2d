// SPDX-License-Identifier: Apache-2.0
// kiln ops: the op registry as a table.
#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_join.h"
#include "graph/gradient/gradients.h"
#include "graph/onnx/converter.h"
#include "graph/op.h"
#include "nlohmann/json.hpp"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/report.h"

namespace kiln {
namespace {

constexpr char kComposed[] = "-";  // in place of an operator

struct OpsFlags {
  CommonOptions common;
  bool onnx = false;
  bool gradients = false;
};

const char* KindName(OpKind kind) {
  switch (kind) {
    case OpKind::kScalar:
      return "scalar";
    case OpKind::kReduce:
      return "reduce";
    case OpKind::kIndex:
      return "index";
    case OpKind::kScatter:
      return "scatter";
    case OpKind::kComposite:
      return "composite";
    case OpKind::kLibrary:
      return "library";
    case OpKind::kControl:
      return "control";
    case OpKind::kHost:
      return "host";
  }
  return "?";
}

// ONNX operators that no record names: the importer writes them with others.
std::set<std::string> ComposedOperators() {
  std::set<std::string> names;
  for (const onnx::Converter& row : onnx::AllConverters()) names.insert(row.op);
  for (const OpDef* op : AllOps()) {
    for (const absl::string_view name : OnnxNames(*op)) names.erase(std::string(name));
  }
  return names;
}

// The rows of the table by ONNX name; what is composed has no operator of Kiln's.
nlohmann::json OnnxJson(const std::vector<std::vector<std::string>>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (auto row = rows.begin() + 1; row != rows.end(); ++row) {
    list.push_back({{"name", (*row)[0]}, {"op", nullptr}, {"kind", (*row)[2]}});
    if ((*row)[1] != kComposed) list.back()["op"] = (*row)[1];
  }
  return list;
}

// Where each operator's gradient comes from; of one that has none, why.
int RunGradients(const OpsFlags& flags) {
  std::vector<std::vector<std::string>> rows = {
      {"op", "gradient", "at kinks and ties, or why not"}};
  nlohmann::json list = nlohmann::json::array();
  for (const OpDef* op : AllOps()) {
    const char* const source = gradient::SourceOf(*op);
    const char* const none = op->gradient.none;
    rows.push_back({op->name, source, none != nullptr ? none : op->gradient.note});
    list.push_back({{"name", op->name}, {"gradient", source}, {"note", op->gradient.note}});
    list.back()["none"] = none != nullptr ? nlohmann::json(none) : nlohmann::json();
  }
  if (flags.common.json) {
    PrintJson("ops", flags.common, {{"gradients", std::move(list)}});
  } else {
    std::cout << Table(rows);
  }
  return kExitOk;
}

int RunOps(const OpsFlags& flags) {
  if (flags.gradients) return RunGradients(flags);
  std::vector<std::vector<std::string>> rows;
  nlohmann::json list = nlohmann::json::array();
  const std::vector<std::string> head =
      flags.onnx ? std::vector<std::string>{"onnx", "op", "kind"}
                 : std::vector<std::string>{"op", "kind", "onnx", "meaning"};
  rows.push_back(head);
  for (const OpDef* op : AllOps()) {
    const std::vector<absl::string_view> names = OnnxNames(*op);
    const std::vector<std::string> onnx(names.begin(), names.end());
    list.push_back(
        {{"name", op->name}, {"kind", KindName(op->kind)}, {"onnx", onnx}, {"doc", op->doc}});
    if (!flags.onnx) {
      rows.push_back({op->name, KindName(op->kind), absl::StrJoin(onnx, " "), op->doc});
    }
    for (const std::string& name : onnx) {
      if (flags.onnx) rows.push_back({name, op->name, KindName(op->kind)});
    }
  }
  if (flags.onnx) {
    for (const std::string& name : ComposedOperators())
      rows.push_back({name, kComposed, "composed"});
    std::sort(rows.begin() + 1, rows.end());
  }
  if (flags.common.json) {
    nlohmann::json results = {{"ops", list}};
    if (flags.onnx) results["onnx"] = OnnxJson(rows);
    PrintJson("ops", flags.common, std::move(results));
  } else {
    std::cout << Table(rows);
  }
  return kExitOk;
}

}  // namespace

void AddOps(Flags& command) {
  auto flags = std::make_shared<OpsFlags>();
  command.Switch("--onnx", flags->onnx, "By ONNX operator");
  command.Switch("--gradients", flags->gradients,
                 "Where gradients come from, and what they are at kinks");
  AddOutputFlags(command, flags->common);
  command.Runs([flags] { return RunOps(*flags); });
}

}  // namespace kiln
