// SPDX-License-Identifier: Apache-2.0
// What stands behind the handles of kiln/kiln.h, and the border between C and C++: statuses,
// structs that begin with their size, and exceptions that do not pass.
#ifndef KILN_C_API_HANDLES_H_
#define KILN_C_API_HANDLES_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "kiln/cache.h"
#include "kiln/kiln.h"
#include "kiln/model.h"
#include "kiln/runtime.h"
#include "kiln/tensor.h"

struct kiln_tensor {
  kiln::Tensor tensor;
};

struct kiln_cache {
  std::shared_ptr<kiln::Cache> cache;
};

struct kiln_runtime {
  std::shared_ptr<kiln::Runtime> runtime;
};

struct kiln_shared_arena {
  std::shared_ptr<kiln::SharedArena> arena;
};

struct kiln_cancel {
  std::shared_ptr<std::atomic<bool>> flag;
};

namespace kiln::c_api {

// Ports as C sees them: arrays of a kiln_port that lie here.
class Ports {
 public:
  explicit Ports(const std::vector<PortInfo>& ports);
  size_t size() const { return ports_.size(); }
  // kInvalidArgument: there is no port `index`; `what` is "input", ...
  absl::Status Get(size_t index, absl::string_view what, kiln_port* out) const;

 private:
  struct Port {
    std::string name;
    DType type;
    bool optional, any_rank;
    std::vector<int64_t> shape = {};
    std::vector<std::string> texts = {};
    std::vector<const char*> dims = {};  // into `texts`
  };
  std::vector<Port> ports_;
};

// Null for an OK status.
kiln_status* ToC(const absl::Status& status);

// Calls `body`, which returns an absl::Status; what it throws is a status too.
template <typename Body>
kiln_status* Call(const char* what, Body&& body) {
  return ToC(CatchExceptions(what, std::forward<Body>(body)));
}

// kInvalidArgument unless the pointer is there; `what` is the name of the argument.
absl::Status CheckPointer(const void* pointer, absl::string_view what);

// The same for a function of a handle, which must be there; `what` is its kind.
template <typename Body>
kiln_status* CallOn(const void* handle, const char* what, Body&& body) {
  return Call(what, [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(handle, what));
    return body();
  });
}

// A new handle, or null where there is no memory.
template <typename Handle, typename Make>
Handle* NewHandle(Make&& make) {
  try {
    return new Handle{make()};
  } catch (...) {
    return nullptr;
  }
}

// The fields that a caller of this or an older version has set, and defaults for the others.
template <typename Struct>
Struct Read(const Struct* given, Struct defaults) {
  if (given == nullptr) return defaults;
  std::memcpy(static_cast<void*>(&defaults), given, std::min(given->struct_size, sizeof(Struct)));
  defaults.struct_size = sizeof(Struct);
  return defaults;
}

// Writes the fields that the caller's version has.
template <typename Struct>
void Write(Struct value, Struct* out) {
  if (out == nullptr) return;
  value.struct_size = out->struct_size;
  std::memcpy(static_cast<void*>(out), &value, std::min(out->struct_size, sizeof(Struct)));
}

// kInvalidArgument: no element type has this number; `subject` begins the message.
absl::Status CheckType(kiln_dtype type, absl::string_view subject);

// kInvalidArgument: an enum of kiln.h whose values are 0 to `last` has another one.
absl::Status CheckEnum(unsigned value, unsigned last, absl::string_view what);

// Names of a C array. kInvalidArgument: one of them is null.
absl::StatusOr<std::vector<std::string>> Names(const char* const* names, size_t count,
                                               absl::string_view what);
absl::StatusOr<NamedShapes> Shapes(const kiln_shape* shapes, size_t count);
absl::StatusOr<RunOptions> RunOptionsOf(const kiln_run_options* options);
RunControl ControlOf(const kiln_run_control* control);
inline std::string TextOf(const char* text) { return text != nullptr ? text : ""; }

}  // namespace kiln::c_api

struct kiln_model {
  explicit kiln_model(kiln::Model made)
      : model(std::move(made)),
        inputs(model.inputs()),
        outputs(model.outputs()),
        updatable(model.updatable()) {}

  kiln::Model model;
  const kiln::c_api::Ports inputs, outputs, updatable;
};

struct kiln_context {
  kiln::Context context;
};

#endif  // KILN_C_API_HANDLES_H_
