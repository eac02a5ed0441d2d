// SPDX-License-Identifier: Apache-2.0
// Split sizes that a launch works out, as variables.
//
// How many tiles make a task is an expression of the extents. Halide repeats the size of a split
// in every bound that it infers, and in the code of every task; a variable it need not look into.
//
//   RuntimeTileSizes sizes(funcs);                // once they are scheduled
//   arguments += sizes.arguments();
//   Module module = pipeline.compile_to_module(arguments, "k", ...);
//   sizes.Define(entry of module);                // they are no arguments any more
#ifndef KILN_HALIDE_GEN_CPU_TILE_SIZES_H_
#define KILN_HALIDE_GEN_CPU_TILE_SIZES_H_

#include <Halide.h>

#include <vector>

namespace kiln {

class RuntimeTileSizes {
 public:
  // Gives the splits of all Funcs that these call variables for sizes that are no constants,
  // equal ones the same.
  explicit RuntimeTileSizes(const std::vector<Halide::Func>& funcs);

  std::vector<Halide::Argument> arguments() const;
  void Define(Halide::Internal::LoweredFunc& entry) const;

 private:
  struct TileSize {
    Halide::Param<int32_t> variable;
    Halide::Expr value;
  };
  void Visit(const Halide::Internal::Function& function);
  void Visit(Halide::Internal::Definition definition);
  Halide::Expr VariableFor(const Halide::Expr& value);
  std::vector<TileSize> sizes_;
};

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_TILE_SIZES_H_
