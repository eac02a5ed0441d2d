// SPDX-License-Identifier: Apache-2.0
// Library operators: what Kiln does not generate itself, behind one table. Nothing outside this
// folder knows who computes.
//
// - matmul: A, B by numpy's rules (batch dims broadcast, rank-1 operands); trans_a and trans_b swap
//   the last two axes.
// - conv: x [N, C, D...], w [M, C/group, K...], optional bias [M]; strides, pads (all begins, then
//   all ends), dilations, group.
// - conv_transpose: likewise with w [C, M/group, K...] and output_padding (the output's shape
//   decides).
// - max_pool: x [N, C, D...]; kernel, strides, pads, dilations, ceil_mode; padding never wins, NaN
//   does.
// - average_pool: the same and count_include_pad.
// - lookup: x of bytes, table [rows, 256] of bytes; axis.
//
// Operands may be strided views where the operator can use them (matmul, pools, channels-last for
// conv). f32 conv and matmul are oneDNN's or loops of ours; the rest is plain loops.
// Each operator has implementations in order of preference; the first that accepts a request
// computes it, and what the others said is kept for `kiln explain --library`.
//
// A Primitive is made for exact shapes and belongs to one plan; a Session is what all plans of a
// Model share: the pool, and constant weights that a primitive has packed into a layout of its own,
// one copy per layout.
#ifndef KILN_EXEC_LIBRARY_LIBRARY_H_
#define KILN_EXEC_LIBRARY_LIBRARY_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/mutex.h"
#include "kernel/abi.h"

namespace kiln {
class PackedConstants;
class Pool;
}  // namespace kiln

namespace kiln::library {

struct Operand {
  bool present = true;  // false: an optional input left out
  DType type = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // elements, one per axis
  // The elements, if they never change; alive as long as the primitive.
  const void* constant = nullptr;
};

// Absent attributes have ONNX's defaults; one that the operator does not know is refused.
using Attributes = std::map<std::string, std::vector<int64_t>>;

// An element-wise step after the operator (post_ops.h has the table).
struct PostOp {
  std::string name;
  std::vector<double> numbers;
};

struct Request {
  Attributes attributes;
  std::vector<Operand> inputs;   // the operator's own, then the operands of post-ops, in order
  std::vector<Operand> outputs;  // present, and without zero extents
  std::vector<PostOp> post_ops;
};

struct Arguments {
  void* const* inputs = nullptr;  // null where absent
  void* const* outputs = nullptr;
  void* scratch = nullptr;           // scratch_bytes(), 64-byte aligned
  LaunchContext* context = nullptr;  // for loops that use the pool; null: serial
};

// An implementation that was asked for a request, and why it does not take it; empty if it does.
struct Considered {
  std::string implementation, refusal;
};

// Belongs to one thread at a time.
class Primitive {
 public:
  virtual ~Primitive() = default;
  virtual int64_t scratch_bytes() const { return 0; }
  virtual int64_t packed_bytes() const { return 0; }  // weights kept in another layout
  // What is known of the code that runs beyond its implementation's name; may be empty.
  virtual std::string description() const { return {}; }
  virtual absl::Status Run(const Arguments& arguments) = 0;

  // Who was asked, in order; the last one computes.
  const std::vector<Considered>& considered() const { return considered_; }
  void set_considered(std::vector<Considered> considered) { considered_ = std::move(considered); }

 private:
  std::vector<Considered> considered_;
};

// Thread-safe.
class Session {
 public:
  virtual ~Session() = default;
  // Operators work on `pool`, which must outlive the session and its primitives, with exactly its
  // threads; with null, on the calling thread alone.
  // What was packed before comes from `kept`, which must live as long too; null: from nowhere.
  static absl::StatusOr<std::shared_ptr<Session>> Create(Pool* pool,
                                                         PackedConstants* kept = nullptr);
  // For primitives that work on the calling thread alone; shares the packed weights.
  virtual std::shared_ptr<Session> Serial() const = 0;
  virtual int threads() const = 0;

  // The `bytes` bytes at `constant` in another layout, of which `layout` tells everything: the
  // `packed_bytes` bytes that `pack` fills, made once for a Model and kept for later processes.
  virtual absl::StatusOr<std::shared_ptr<const void>> Packed(
      const void* constant, size_t bytes, const std::string& layout, size_t packed_bytes,
      absl::FunctionRef<void(void* packed)> pack) = 0;

  // How many primitives have said before that they read the constant. Each second one may walk it
  // backwards: it meets first what its neighbour left in the caches.
  int AddReader(const void* constant);

 private:
  Mutex mutex_;
  std::map<const void*, int> readers_;
};

// kUnimplemented: not for such operands, and why; any other error is the request's, whoever is
// asked.
using MakeFn = absl::StatusOr<std::unique_ptr<Primitive>> (*)(
    const Request& request, const std::shared_ptr<Session>& session);

struct Implementation {
  const char* name = nullptr;
  MakeFn make = nullptr;
  bool post_ops = false;  // takes them; the others leave them to a loop that follows
};

struct Operator {
  const char* name;
  int min_inputs, max_inputs, outputs;
  std::array<Implementation, 7> implementations;  // the first that accepts computes; then nulls
  // The first axis of input 0 and of the output counts images, which are computed each by itself.
  bool by_images = false;
};

// Null for an unknown name.
const Operator* Find(absl::string_view name);

// Checks what no operator can do without (counts, ranks, types), then makes the primitive.
// kInvalidArgument: operands that do not fit together; kUnimplemented: what no implementation
// takes.
absl::StatusOr<std::unique_ptr<Primitive>> Make(const Operator& op, const Request& request,
                                                const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_LIBRARY_H_
