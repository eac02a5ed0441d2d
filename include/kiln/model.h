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

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/dim.h"
#include "kiln/status.h"
#include "kiln/tensor.h"

namespace kiln {

class Runtime;          // kiln/runtime.h
class VariantProvider;  // where a Model has its Programs from; inside Kiln

// An input or output as the model declares it. Symbols in `shape` stand for any extent.
struct PortInfo {
  std::string name;
  DType type = DType::kF32;
  Shape shape;
  bool optional = false;
  bool any_rank = false;  // of an output: a run tells its shape; `shape` is empty
};

// Called for every plan that is made, on the thread that runs: a plan as text, for those who look
// into Kiln. It neither runs nor prepares the model.
struct PlanInfo;  // exec/plan_info.h
using PlanFn = std::function<void(const PlanInfo&)>;

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using NamedShapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

// A state that a context keeps from run to run, as a cache of keys and values or a hidden state: a
// run reads it as `input`, and what it computes as `output` is the next run's input. It is written
// in place where the plan allows; else there are two buffers that take turns. Neither port is bound
// by the caller. It begins as zeros where the input's shape is known, else with Context::SetState
// (an empty tensor for a cache that holds nothing yet). Model::Run begins so each time, and cannot
// run a model with a state that needs SetState. Where the model runs on a device it stays in memory
// of that, and is copied to the host for Context::State and Context::Output alone.
struct StateBuffer {
  std::string input, output;
};

inline constexpr int kMaxThreads = 1024;          // correctness
KILN_API absl::Status CheckThreads(int threads);  // kInvalidArgument: not from 0 to kMaxThreads

// Where the temporaries of a run lie.
enum class Temporaries : int {
  kPlanned,    // in one arena, where they share memory
  kSeparate,   // in one arena, apart: to look for one that is overwritten too early
  kAllocated,  // each in memory of its own from the allocator, of exactly its bytes, anew for each
               // run and given back after it: so that tools as AddressSanitizer and Valgrind see a
               // launch that writes beyond its operand. SetArena and shared_arena are not used
};

// Where outputs lie that a context's caller has not bound.
enum class OutputMemory : int {
  kReused,  // in memory that the context keeps: a view is valid until the next run
  kFresh,   // in new memory for every run: a view is valid as long as it is held
  kBound,   // nowhere: an output that is not bound is kFailedPrecondition; so is Model::Run, which
            // binds none (and without kBound always gives new memory, as kFresh)
};

// A launch of a run with its operands, which are views of memory that later launches may reuse. Of
// a launch that works in place an input shows what was written; with Temporaries::kSeparate none
// does. One that runs in parts (batch tilings, batch_invariant) is seen part by part; operands on
// a device are shown as copies in memory of the host.
struct ThunkView {
  const char* kind = "";    // kernel, library, copy, host
  const std::string& name;  // the user's nodes
  const std::vector<Tensor>& inputs;
  const std::vector<Tensor>& outputs;  // written already
};
// Called after every launch, on the thread that runs; an error ends the run. It may run models,
// but none with the same shared_arena.
using ThunkFn = std::function<absl::Status(const ThunkView&)>;

class SharedArena;
// Memory for temporaries that models take turns to use (RunOptions::shared_arena). Thread-safe.
KILN_API std::shared_ptr<SharedArena> NewSharedArena();

struct RunOptions {
  // 0 to kMaxThreads. Hard cap of the Model, however many callers it has; 0: the CPUs of the
  // affinity mask, no more than the CPU quota of the control group. Callers beyond it wait for each
  // other.
  int threads = 0;
  // Whose threads, memory and budgets are used; null: Runtime::Default().
  std::shared_ptr<Runtime> runtime = nullptr;
  PlanFn on_plan = nullptr;
  // Bytes of memory beside its operands that a library operator, or a kernel's schedule
  // (schedule/workspace.h), may take; what cannot run with so little takes the least. 0: no limit.
  int64_t workspace_limit = 0;
  std::vector<StateBuffer> states = {};
  Temporaries temporaries = Temporaries::kPlanned;
  OutputMemory output_memory = OutputMemory::kReused;
  // Before the first run of each plan, in whichever context, it is checked: that what a launch
  // reads is what was written last, byte by byte (exec/plan_verifier.h); and, by a run in memory of
  // its own with the layout of Temporaries::kSeparate, that no launch writes but to its outputs.
  // That takes the memory of kSeparate twice, copies of inputs and outputs, and reads everything
  // once more. kInternal names the launch and the buffer. Later runs cost what they do without.
  bool check_first_run = false;
  ThunkFn on_thunk = nullptr;
  // Each sample of a batch has the same bits whatever the batch is: library operators of floats run
  // sample by sample along the first dim of their results (kernels, and operators of integers,
  // always have the same bits). kUnimplemented names one that cannot.
  bool batch_invariant = false;
  // 1: the first inputs, of Prepare or of a run, say what shapes the model has from then on; other
  // ones are kFailedPrecondition. 2: and after the first run that goes well, what could make other
  // plans (graph, variants, source, compile service) is given up, unless other models use it: other
  // outputs, or values that need another plan, are kFailedPrecondition too. Kernels that are not
  // compiled by then (CompileMode::kBackground) stay on the VM. A model whose course depends on
  // data gives up nothing.
  int record_level = 0;
  // Models that name the same one never run at once, and share the memory of their temporaries.
  std::shared_ptr<SharedArena> shared_arena = nullptr;
  // Called around every run, on the thread that runs; must not call the model.
  std::function<void()> on_start = nullptr;
  std::function<void(const absl::Status&)> on_finish = nullptr;
};

// How a run in progress is told to stop, and where on a device it goes. It is looked at before
// every launch (on a device, before launches that follow each other), and before every iteration of
// a loop; a launch that has begun goes on to its end.
//
//   kiln::RunControl control;
//   control.cancel = std::make_shared<std::atomic<bool>>(false);
//   control.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
//   context.Run(control);    // kCancelled once *control.cancel is true, kDeadlineExceeded
//
// What a run that was stopped had begun to write is not valid; memory and plans are as after any
// run, and the next one is right.
struct RunControl {
  using Clock = std::chrono::steady_clock;
  std::shared_ptr<const std::atomic<bool>> cancel;  // null: nobody cancels
  std::optional<Clock::time_point> deadline;
  // A stream of the application on the device that the runtime has, such as a cudaStream_t: the run
  // goes into it, after what is in it already and before what is put into it later. Where all
  // outputs lie on the device the run returns without waiting, and what was bound must stay as it
  // is until the stream has come that far; errors of launches may then show at the next run. Null:
  // one of Kiln's own, and a run returns when it has ended. kInvalidArgument: the runtime has no
  // device, or the stream is of another.
  void* stream = nullptr;

  absl::Status Check() const {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return Cancelled();
    if (deadline && Clock::now() >= *deadline) return Late();
    return absl::OkStatus();
  }

 private:
  static absl::Status Cancelled() {
    return absl::CancelledError("the run was cancelled before its end; its outputs are not valid");
  }
  static absl::Status Late() {
    return absl::DeadlineExceededError(
        "the deadline passed before the end of the run; its outputs are not valid");
  }
};

// Where the bytes of a model are.
struct MemoryReport {
  // Weights and other constants of the newest plan, packed ones included, and updatable ones.
  int64_t constants = 0;
  int64_t arenas = 0;                         // temporaries of all contexts
  int64_t copies = 0;                         // of inputs that cannot be read where they lie
  int64_t outputs = 0;                        // owned by contexts or handed out to callers
  int64_t states = 0;                         // state buffers of all contexts
  int64_t plans = 0, plan_bytes = 0;          // kept
  int64_t idle_contexts = 0, idle_bytes = 0;  // of contexts that wait for Model::Run
  // In memory of the runtime's device: temporaries and states of all contexts, and the constants of
  // the newest plan that are read there.
  int64_t device_arenas = 0, device_constants = 0;
};

// What one context's current plan looks like: memory in bytes, work in counts.
struct PlanReport {
  // Of temporaries: what they take, sharing memory; the most of them that are alive at once, below
  // which no arena is; and what they would take apart from each other.
  int64_t arena = 0, lower_bound = 0, sum = 0, constants = 0;
  int kernel_launches = 0, library_launches = 0, other_launches = 0;
  int vm_launches = 0;      // of the kernel launches, those on the VM
  int64_t bytes_moved = 0;  // bytes read and written by all launches
};

// Time of one thunk (a step of a Program: a launch, of which a tiled batch has several) in a
// profiled run.
struct ThunkTime {
  std::string kind, name;  // kernel, library, copy, host; the user's nodes
  double ms = 0;
  int64_t bytes = 0;
  bool vm = false;
};

class Context;

class KILN_API Model {
 public:
  // Empty, as one that was moved from: no ports, Run and its contexts answer kFailedPrecondition.
  Model() = default;
  // Inside Kiln: wraps a provider. Fails if the provider's ports are malformed.
  static absl::StatusOr<Model> Create(std::shared_ptr<VariantProvider> provider,
                                      const RunOptions& options);

  const std::vector<PortInfo>& inputs() const;
  const std::vector<PortInfo>& outputs() const;
  int threads() const;

  // Constants that Update may replace: CompileOptions::updatable, in that order.
  const std::vector<PortInfo>& updatable() const;
  // Copies `value` in place of the constant with this name, for this Model (and its copies) alone;
  // runs that begin later read it. kNotFound: it is not updatable; kInvalidArgument: another type
  // or shape.
  absl::Status Update(absl::string_view name, const Tensor& value);

  // The place of a port in inputs() or outputs(): a handle that calls take in place of its name.
  absl::StatusOr<size_t> InputIndex(absl::string_view name) const;
  absl::StatusOr<size_t> OutputIndex(absl::string_view name) const;

  // Runs on a pooled context and returns owned outputs, in port order. kInvalidArgument: an input
  // is given twice, or does not fit; kCancelled, kDeadlineExceeded: as `control` says.
  absl::StatusOr<std::vector<Tensor>> Run(const NamedTensors& inputs,
                                          const RunControl& control = {});
  // The same on another thread: the executor's of the runtime, or one of Kiln's own. Returns at
  // once; `done` is called once, on that thread, when nothing of the inputs, the model and the
  // runtime is held for it any more; it may call the model.
  using DoneFn = std::function<void(absl::StatusOr<std::vector<Tensor>>)>;
  void RunAsync(NamedTensors inputs, DoneFn done, const RunControl& control = {});

  // Compiles and plans for inputs of these shapes, so that no run has to. Inputs that are left out
  // have the shape of their port. Where the values of an input count, what depends on them is left
  // to the first run.
  absl::Status Prepare(const NamedShapes& shapes);
  // Shapes of the outputs for inputs of these shapes, in port order; compiles where it must.
  // kFailedPrecondition: they depend on values.
  absl::StatusOr<std::vector<std::vector<int64_t>>> OutputShapes(const NamedShapes& shapes);

  MemoryReport memory() const;
  // Gives back the memory of contexts that wait for Run, and forgets all plans but the newest.
  void Trim();
  // Never fails: without memory, and of an empty model, it is a Context whose calls say so.
  Context NewContext();

  struct State;

 private:
  std::shared_ptr<State> state_;
};

class KILN_API Context {
 public:
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  ~Context();
  // False: it was moved from, or there was no memory for it; all calls are kFailedPrecondition.
  bool valid() const { return impl_ != nullptr; }

  // Binds a view; the memory must live until it is replaced or the context goes. Non-dense views
  // are copied at Run. A tensor on the device of the runtime (Tensor::device; it is dense) is read
  // there; where its values decide what runs, or the CPU computes with it, each run copies it to
  // the host.
  absl::Status Bind(absl::string_view input, Tensor view);
  // An input whose samples lie apart: it is the concatenation of `parts` along its first dim. They
  // are copied together at Run, as views that are not dense are.
  absl::Status BindParts(absl::string_view input, const std::vector<Tensor>& parts);
  // The output is written into this memory (dense, right type and shape, checked at Run). Unbound
  // outputs are owned by the context. It may be an input's memory, or overlap it in any way, which
  // is how a state is updated: the result is that of a run without overlap. No copy of the input is
  // made where it has been read before its memory is written, or where the last kernel to read it
  // works in place. Outputs that overlap each other are an error, before anything is written;
  // memory of a constant of the graph that the model was compiled from is one at once. In memory of
  // the runtime's device it is written there, or copied there where the CPU has computed it.
  absl::Status BindOutput(absl::string_view output, Tensor view);
  // The same with handles (Model::InputIndex).
  absl::Status Bind(size_t input, Tensor view);
  absl::Status BindOutput(size_t output, Tensor view);
  // Only these outputs are computed from now on, and what they need; none named: all.
  absl::Status SetOutputs(const std::vector<std::string>& names);
  // Temporaries lie in this memory from now on, which must live as long: 64-byte aligned. A plan
  // that needs more than `bytes` (PlanReport::arena) fails with kResourceExhausted. Null: memory of
  // the context's own again.
  absl::Status SetArena(void* memory, int64_t bytes);

  absl::Status Run(const RunControl& control = {});
  // The last run's output: a view into the context (valid until the next Run) or of the bound
  // memory. It may be bound as an input or output of the next run, which then has its unbound
  // outputs elsewhere. kFailedPrecondition after a run that failed.
  absl::StatusOr<Tensor> Output(absl::string_view name) const;
  absl::StatusOr<Tensor> Output(size_t output) const;

  // State buffers, by the name of their input. State: a view of what the next run reads, valid
  // until then; of a state on a device a copy. SetState copies. After a run that failed while it
  // wrote a state in place, runs answer kFailedPrecondition until SetState or ResetStates.
  absl::StatusOr<Tensor> State(absl::string_view input) const;
  absl::Status SetState(absl::string_view input, const Tensor& value);
  // As they were at the beginning.
  absl::Status ResetStates();

  // Gives back all memory but that of states.
  void Trim();

  // Of the last run. Empty before it.
  const PlanReport& report() const;
  // Runs once with a clock around every thunk.
  absl::StatusOr<std::vector<ThunkTime>> Profile();

  struct Impl;
  explicit Context(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// What is asked of the code in a package before its first use.
enum class PackageValidation : int {
  kTrust,     // nothing: it runs as the builder left it
  kFirstUse,  // that kiln-validate finds no fault with it on this CPU; else the VM runs
};

// A model that `kiln compile` has made: it needs neither compiler nor cache. kDataLoss: damaged, of
// another version, or no package; kNotFound and the like for the file.
KILN_API absl::StatusOr<Model> LoadPackage(absl::string_view path, const RunOptions& options = {},
                                           PackageValidation validate = PackageValidation::kTrust);

}  // namespace kiln

#endif  // KILN_MODEL_H_
