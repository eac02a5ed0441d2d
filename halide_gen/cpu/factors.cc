// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/factors.h"

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

Factors::Factors(const std::vector<Halide::Func>& funcs) {
  std::map<std::string, Function> functions;
  for (const Halide::Func& func : funcs)
    functions.merge(Halide::Internal::find_transitive_calls(func.function()));
  for (auto& [name, function] : functions) {
    Visit(function);
    // Calls go to wrappers only once Halide lowers them.
    for (const auto& [caller, wrapper] : function.schedule().wrappers()) Visit(Function(wrapper));
  }
}

void Factors::Visit(const Function& function) {
  Visit(function.definition());
  for (const Definition& update : function.updates()) Visit(update);
}

void Factors::Visit(Definition definition) {
  for (Split& split : definition.schedule().splits()) {
    if (split.split_type != Split::SplitVar) continue;
    split.factor = Halide::Internal::simplify(split.factor);
    if (!Halide::Internal::is_const(split.factor)) split.factor = VariableFor(split.factor);
  }
  for (const auto& special : definition.specializations()) Visit(special.definition);
}

Expr Factors::VariableFor(const Expr& value) {
  const auto known = std::find_if(factors_.begin(), factors_.end(), [&](const Factor& factor) {
    return Halide::Internal::equal(factor.value, value);
  });
  if (known != factors_.end()) return known->variable;
  factors_.push_back(
      {Halide::Param<int32_t>("factor" + std::to_string(factors_.size()) + "v"), value});
  return factors_.back().variable;
}

std::vector<Halide::Argument> Factors::arguments() const {
  std::vector<Halide::Argument> arguments;
  for (const Factor& factor : factors_) arguments.emplace_back(factor.variable);
  return arguments;
}

void Factors::Define(LoweredFunc& entry) const {
  for (const Factor& factor : factors_) {
    const std::string& name = factor.variable.name();
    entry.body = LetStmt::make(name, factor.value, entry.body);
    std::erase_if(entry.args, [&](const auto& argument) { return argument.name == name; });
  }
}

}  // namespace kiln
