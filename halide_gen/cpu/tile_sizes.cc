// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/tile_sizes.h"

#include <algorithm>
#include <map>
#include <string>

namespace kiln {

using Halide::Expr;
using Halide::Internal::Definition;
using Halide::Internal::Function;
using Halide::Internal::LetStmt;
using Halide::Internal::LoweredFunc;
using Halide::Internal::Split;

RuntimeTileSizes::RuntimeTileSizes(const std::vector<Halide::Func>& funcs) {
  std::map<std::string, Function> functions;
  for (const Halide::Func& func : funcs)
    functions.merge(Halide::Internal::find_transitive_calls(func.function()));
  for (auto& [name, function] : functions) {
    Visit(function);
    // Calls go to wrappers only once Halide lowers them.
    for (const auto& [caller, wrapper] : function.schedule().wrappers()) Visit(Function(wrapper));
  }
}

void RuntimeTileSizes::Visit(const Function& function) {
  Visit(function.definition());
  for (const Definition& update : function.updates()) Visit(update);
}

void RuntimeTileSizes::Visit(Definition definition) {
  for (Split& split : definition.schedule().splits()) {
    if (split.split_type != Split::SplitVar) continue;
    split.factor = Halide::Internal::simplify(split.factor);
    if (!Halide::Internal::is_const(split.factor)) split.factor = VariableFor(split.factor);
  }
  for (const auto& special : definition.specializations()) Visit(special.definition);
}

Expr RuntimeTileSizes::VariableFor(const Expr& value) {
  const auto known = std::find_if(sizes_.begin(), sizes_.end(), [&](const TileSize& size) {
    return Halide::Internal::equal(size.value, value);
  });
  if (known != sizes_.end()) return known->variable;
  sizes_.push_back({Halide::Param<int32_t>("tile" + std::to_string(sizes_.size()) + "v"), value});
  return sizes_.back().variable;
}

std::vector<Halide::Argument> RuntimeTileSizes::arguments() const {
  std::vector<Halide::Argument> arguments;
  for (const TileSize& size : sizes_) arguments.emplace_back(size.variable);
  return arguments;
}

void RuntimeTileSizes::Define(LoweredFunc& entry) const {
  for (const TileSize& size : sizes_) {
    const std::string& name = size.variable.name();
    entry.body = LetStmt::make(name, size.value, entry.body);
    std::erase_if(entry.args, [&](const auto& argument) { return argument.name == name; });
  }
}

}  // namespace kiln
