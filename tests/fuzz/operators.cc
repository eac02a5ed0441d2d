// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/operators.h"

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "graph/onnx/converter.h"

namespace kiln {
namespace {

std::map<std::string, Operator> Published() {
  std::map<std::string, Operator> all;
  std::ifstream in(std::string(KILN_SOURCE_DIR) + "/tests/fuzz/operators.txt");
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Operator op;
    words >> op.name >> op.least >> op.most >> op.kinds;
    if (op.kinds == "-") op.kinds.clear();
    for (std::string word; words >> word;)
      op.attributes.emplace_back(word.substr(0, word.size() - 2), word.back());
    all[op.name] = op;
  }
  return all;
}

std::vector<Operator> OfTheTable() {
  const std::map<std::string, Operator> published = Published();
  std::vector<Operator> all;
  for (const onnx::Converter& row : onnx::AllConverters()) {
    if (!all.empty() && all.back().name == row.op) continue;
    const auto known = published.find(row.op);
    Operator op = known == published.end() ? Operator() : known->second;
    op.name = row.op;
    all.push_back(op);
  }
  return all;
}

}  // namespace

const std::vector<Operator>& AllOperators() {
  static const auto* const all = new std::vector<Operator>(OfTheTable());
  return *all;
}

const std::vector<std::pair<std::string, char>>& AllAttributes() {
  static const auto* const all = [] {
    std::set<std::pair<std::string, char>> names;
    for (const Operator& op : AllOperators())
      names.insert(op.attributes.begin(), op.attributes.end());
    return new std::vector<std::pair<std::string, char>>(names.begin(), names.end());
  }();
  return *all;
}

}  // namespace kiln
