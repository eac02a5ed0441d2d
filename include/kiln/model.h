// SPDX-License-Identifier: Apache-2.0
// Model: a program ready to run, and Context: one caller's buffers.
//
//   absl::StatusOr<kiln::Model> model = kiln::Compile("resnet50.onnx", options);  // compile.h
//   absl::StatusOr<std::vector<kiln::Tensor>> y = model->Run({{"x", x}});
//   kiln::Context ctx = model->NewContext();
//   ctx.Bind("x", view); ctx.BindOutput("y", out); ctx.Run();
//
// A Model is cheap to copy (shared, immutable but for its caches of variants and contexts); Run is
// thread-safe for any number of callers. A Context belongs to one caller at a time and allocates
// nothing per run after the first with the same extents.
#ifndef KILN_MODEL_H_
#define KILN_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/dim.h"
#include "kiln/dtype.h"
#include "kiln/status.h"
#include "kiln/tensor.h"

namespace kiln {

class VariantProvider;  // where a Model has its Programs from; inside Kiln

// An input or output as the model declares it. Symbols in `shape` stand for any extent.
struct PortInfo {
  std::string name;
  DType type = DType::kF32;
  Shape shape;
  bool optional = false;
  bool any_rank = false;  // of an output: a run tells its shape; `shape` is empty
};

// A plan as text, for those who look into Kiln. Called for every plan that is made, on the thread
// that runs.
struct PlanInfo;
using PlanFn = std::function<void(const PlanInfo&)>;

inline constexpr int kMaxThreads = 1024;  // correctness
absl::Status CheckThreads(int threads);   // kInvalidArgument: not from 0 to kMaxThreads

struct RunOptions {
  // 0 to kMaxThreads. Hard cap of the Model, however many callers it has; 0: the CPUs of the
  // affinity mask, no more than the CPU quota of the control group. Callers beyond it wait for each
  // other.
  int threads = 0;
  PlanFn on_plan = nullptr;
  // Bytes of scratch that a library operator may take; where none of its implementations needs so
  // little, the first computes all the same. 0: no limit.
  int64_t workspace_limit = 0;
};

// What one context's current plan looks like: memory in bytes, work in counts.
struct PlanReport {
  int64_t arena = 0, lower_bound = 0, sum = 0, constants = 0;
  int kernel_launches = 0, library_launches = 0, other_launches = 0;
  int vm_launches = 0;      // of the kernel launches, those on the VM
  int64_t bytes_moved = 0;  // bytes read and written by all launches
};

// Time of one thunk in a profiled run.
struct ThunkTime {
  std::string kind, name;  // kernel, library, copy, host; the user's nodes
  double ms = 0;
  int64_t bytes = 0;
  bool vm = false;
};

class Context;

class Model {
 public:
  // Empty, as one that was moved from: no ports, Run and its contexts answer kFailedPrecondition.
  Model() = default;
  // Inside Kiln: wraps a provider. Fails if the provider's ports are malformed.
  static absl::StatusOr<Model> Create(std::shared_ptr<VariantProvider> provider,
                                      const RunOptions& options);

  const std::vector<PortInfo>& inputs() const;
  const std::vector<PortInfo>& outputs() const;
  int threads() const;

  // Runs on a pooled context and returns owned outputs, in port order.
  absl::StatusOr<std::vector<Tensor>> Run(
      const std::vector<std::pair<std::string, Tensor>>& inputs);
  // Never fails: without memory, and of an empty model, it is a Context whose calls say so.
  Context NewContext();

  struct State;

 private:
  std::shared_ptr<State> state_;
};

class Context {
 public:
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  ~Context();

  // Binds a view; the memory must live until it is replaced or the context goes. Non-dense views
  // are copied at Run.
  absl::Status Bind(absl::string_view input, Tensor view);
  // The output is written into this memory (dense, right type and shape, checked at Run). Unbound
  // outputs are owned by the context. It may be an input's memory, or overlap it in any way, which
  // is how a state is updated: the result is that of a run without overlap. No copy of the input is
  // made where it has been read before its memory is written, or where the last kernel to read it
  // works in place. Outputs that overlap each other are an error, before anything is written;
  // memory of a constant of the graph that the model was compiled from is one at once.
  absl::Status BindOutput(absl::string_view output, Tensor view);
  absl::Status Run();
  // The last run's output: a view into the context (valid until the next Run) or of the bound
  // memory. It may be bound as an input or output of the next run, which then has its unbound
  // outputs elsewhere. kFailedPrecondition after a run that failed.
  absl::StatusOr<Tensor> Output(absl::string_view name) const;

  // Of the last run. Empty before it.
  const PlanReport& report() const;
  // Runs once with a clock around every thunk.
  absl::StatusOr<std::vector<ThunkTime>> Profile();

  struct State;
  explicit Context(std::unique_ptr<State> state);

 private:
  std::unique_ptr<State> state_;
};

// What is asked of the code in a package before its first use.
enum class PackageValidation : uint8_t {
  kTrust,     // nothing: it runs as the builder left it
  kFirstUse,  // that kiln-validate finds no fault with it on this CPU; else the VM runs
};

// A model that `kiln compile` has made: it needs neither compiler nor cache. kDataLoss: damaged, of
// another version, or no package; kNotFound and the like for the file.
absl::StatusOr<Model> LoadPackage(absl::string_view path, const RunOptions& options = {},
                                  PackageValidation validate = PackageValidation::kTrust);

}  // namespace kiln

#endif  // KILN_MODEL_H_
