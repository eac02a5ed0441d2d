// SPDX-License-Identifier: Apache-2.0
// How the device code of one Kernel is launched: grids, blocks, shared memory and arguments, each
// an expression over what a launch knows. It is data: whoever launches needs no host code of the
// kernel.
//
// A recipe is a list of launches, run in order on one stream; each may have a condition, and is
// left out where that is 0. Text form, an entry's section "launch":
//
//   kiln launch 1
//   launch k_vector
//   when (and (<= 16 (align in0)) (== (% extent1 4) 0))
//   grid (/ (+ extent0 7) 8) 1 1
//   block 16 8 1
//   shared 0
//   arg buffer in0
//   arg i32 extent1
//   arg param 0
//   arg buffer out0
//
// Expressions are prefix terms over 64-bit integers: numbers; extentK, of dim K; (stride OPERAND
// AXIS), in elements, axis 0 innermost; (align OPERAND), the greatest power of two up to 256 that
// divides its address; and + - * / % min max == != < <= and or not, where / and % round down. An
// OPERAND is inK, outK, or scratchK: memory that lives from the first launch to the last.
//
//   KILN_ASSIGN_OR_RETURN(const LaunchRecipe recipe, LaunchRecipe::Parse(text));
//   KILN_ASSIGN_OR_RETURN(const int64_t blocks, recipe.launches[0].grid[0].Evaluate(facts));
#ifndef KILN_KERNEL_LAUNCH_RECIPE_H_
#define KILN_KERNEL_LAUNCH_RECIPE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

struct LaunchOperand {
  enum class Kind : uint8_t { kInput, kOutput, kScratch };
  Kind kind = Kind::kInput;
  int32_t number = 0;
  friend bool operator==(const LaunchOperand&, const LaunchOperand&) = default;
};

// What expressions are evaluated over.
class LaunchFacts {
 public:
  virtual ~LaunchFacts() = default;
  // kInvalidArgument where the kernel has no such dim, operand or axis.
  virtual absl::StatusOr<int64_t> Extent(int64_t dim) const = 0;
  virtual absl::StatusOr<int64_t> Stride(LaunchOperand operand, int64_t axis) const = 0;
  virtual absl::StatusOr<int64_t> Address(LaunchOperand operand) const = 0;
};

// Immutable once parsed; thread-safe.
class LaunchExpr {
 public:
  LaunchExpr() = default;  // 0
  // kDataLoss names the word that is wrong.
  static absl::StatusOr<LaunchExpr> Parse(absl::string_view text);
  std::string ToString() const;
  // Its value, if that is the same for all launches.
  std::optional<int64_t> Constant() const;
  // kInvalidArgument for a division by zero, or what the facts refuse. Sums and products wrap.
  absl::StatusOr<int64_t> Evaluate(const LaunchFacts& facts) const;
  // Whether it asks where an operand lies.
  bool asks_addresses() const;

 private:
  friend class LaunchExprParser;
  enum class Op : uint8_t;
  struct Term {
    Op op{};
    int64_t number = 0;  // a constant; a dim; an axis
    LaunchOperand operand;
  };
  static absl::StatusOr<int64_t> Apply(Op op, int64_t a, int64_t b);
  std::vector<Term> terms_;  // postfix
};

struct LaunchArgument {
  enum class Kind : uint8_t { kBuffer, kInt32, kInt64, kParam };
  Kind kind = Kind::kInt32;
  LaunchOperand operand;  // kBuffer
  LaunchExpr value;       // kInt32, kInt64
  int32_t param = 0;      // kParam: the kernel's scalar operand, as it is in memory
};

struct DeviceLaunch {
  std::string entry;             // the function's name in the code
  std::vector<LaunchExpr> when;  // none: always; else one
  std::array<LaunchExpr, 3> grid, block;
  LaunchExpr shared_bytes;
  std::vector<LaunchArgument> arguments;
};

struct LaunchRecipe {
  std::vector<LaunchExpr> scratch_bytes;
  std::vector<DeviceLaunch> launches;

  // kDataLoss names the line.
  static absl::StatusOr<LaunchRecipe> Parse(absl::string_view text);
  std::string ToString() const;
  // Whether more than the address of an argument changes where an operand lies elsewhere.
  bool asks_addresses() const;
};

// The greatest power of two up to 256 that divides it, as (align OPERAND) has it.
int64_t AlignmentOf(int64_t address);

}  // namespace kiln

#endif  // KILN_KERNEL_LAUNCH_RECIPE_H_
