// SPDX-License-Identifier: Apache-2.0
// A Primitive: a library operator made ready for exact shapes; what it is asked for (Request), and
// what the primitives of a Model share (Session).
//
//   absl::StatusOr<std::unique_ptr<Primitive>> made = MakeGemv(request, session);
//   KILN_RETURN_IF_ERROR((*made)->Run({inputs, outputs, scratch, context}));
//
// library.h has the table of operators; each implementation is a MakeFn in files of its own.
#ifndef KILN_EXEC_LIBRARY_PRIMITIVE_H_
#define KILN_EXEC_LIBRARY_PRIMITIVE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
  // An operand of a post-op, in memory that nothing reads after the call: the output may lie there.
  std::optional<size_t> spent = {};
};

// What one caller of a primitive keeps from one run to the next, as oneDNN's handles of operands.
// Belongs to one thread at a time.
class CallState {
 public:
  virtual ~CallState() = default;
};

struct Arguments {
  void* const* inputs = nullptr;  // null where absent
  void* const* outputs = nullptr;
  void* scratch = nullptr;           // scratch_bytes(), 64-byte aligned
  LaunchContext* context = nullptr;  // for loops that use the pool; null: serial
  CallState* state = nullptr;        // of NewState; null: made for this run alone
};

// An implementation that was asked for a request, and why it does not take it; empty if it does.
struct Considered {
  std::string implementation, refusal;
};

// Immutable: any number of callers may run it, each with a state of its own. Thread-safe.
class Primitive {
 public:
  virtual ~Primitive() = default;
  virtual int64_t scratch_bytes() const { return 0; }
  virtual int64_t packed_bytes() const { return 0; }  // weights kept in another layout
  // False: input k is a constant, and Run reads what was made of it alone.
  virtual bool ReadsInput(size_t /*k*/) const { return true; }
  // The input that may lie where output 0 does, byte by byte: Run adds to it there, and copies it
  // there first where it lies elsewhere.
  virtual std::optional<size_t> in_place() const { return std::nullopt; }
  // What is known of the code that runs beyond its implementation's name; may be empty.
  virtual std::string description() const { return {}; }
  // What a caller gives to all its runs; null: it needs none.
  virtual std::unique_ptr<CallState> NewState() const { return nullptr; }
  virtual absl::Status Run(const Arguments& arguments) const = 0;

  // Who was asked, in order; the last one computes.
  const std::vector<Considered>& considered() const { return considered_; }
  void set_considered(std::vector<Considered> considered) { considered_ = std::move(considered); }

 private:
  std::vector<Considered> considered_;
};

// Constants that were packed into other layouts, for all sessions that use them: a layout does not
// depend on threads. Thread-safe.
struct PackedStore;
// What was packed before comes from `kept`, which must live as long; null: from nowhere.
std::shared_ptr<PackedStore> NewPackedStore(PackedConstants* kept);

// Thread-safe.
class Session {
 public:
  virtual ~Session() = default;
  // Operators work on `pool`, which must outlive the session and its primitives, with exactly its
  // threads; with null, on the calling thread alone.
  // What it packs goes to `store`; null: to one of its own.
  static absl::StatusOr<std::shared_ptr<Session>> Create(
      Pool* pool, std::shared_ptr<PackedStore> store = nullptr);
  // For primitives that work on the calling thread alone; shares the packed weights.
  virtual std::shared_ptr<Session> Serial() const = 0;
  // The same, and what it packs is not kept for later processes: to be timed.
  virtual std::shared_ptr<Session> Unkept() const = 0;
  virtual int threads() const = 0;

  // The `bytes` bytes at `constant` in another layout, of which `layout` tells everything: the
  // `packed_bytes` bytes that `pack` fills, made once for a Model and kept for later processes.
  virtual absl::StatusOr<std::shared_ptr<const void>> Packed(
      const void* constant, size_t bytes, const std::string& layout, size_t packed_bytes,
      absl::FunctionRef<void(void* packed)> pack) = 0;

  // As PackedConstants::Check, before the constant is read.
  virtual absl::Status CheckConstant(const void* constant, size_t bytes) = 0;

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

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_PRIMITIVE_H_
