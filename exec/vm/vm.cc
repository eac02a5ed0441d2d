// SPDX-License-Identifier: Apache-2.0
#include "exec/vm/vm.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "exec/vm/program.h"
#include "exec/vm/run.h"
#include "exec/vm/sweep.h"
#include "kernel/abi.h"

namespace kiln {
namespace vm {
namespace {

// Element operations that are worth a task.
constexpr int64_t kTaskWork = int64_t{1} << 16;  // speed
constexpr int64_t kMaxTasks = 128;               // speed

// Scratch that returns with the scope.
class Scratch {
 public:
  Scratch(LaunchContext* context, size_t bytes)
      : context_(context), data_(context->allocate(context, bytes)) {}
  ~Scratch() {
    if (data_ != nullptr) context_->release(context_, data_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  uint8_t* data() const { return static_cast<uint8_t*>(data_); }

 private:
  LaunchContext* context_;
  void* data_;
};

bool Cancelled(const LaunchContext* context) {
  return context->cancel != nullptr && *context->cancel;
}

int64_t WorkOf(const Pass& pass, const int64_t* extents) {
  double elements = 1;
  for (const int32_t d : pass.rows) elements *= static_cast<double>(extents[d]);
  if (pass.vec >= 0) elements *= static_cast<double>(extents[pass.vec]);
  if (pass.shape == Pass::Shape::kOuter) elements *= static_cast<double>(extents[pass.over]);
  return static_cast<int64_t>(std::min(elements * static_cast<double>(pass.operations + 1), 1e15));
}

int64_t TasksFor(int64_t work, int64_t units) {
  return std::max<int64_t>(1, std::min({work / kTaskWork, units, kMaxTasks}));
}

// Calls f(begin, end) -> int for `tasks` equal ranges of [0, n) in parallel.
template <typename F>
int Parallel(LaunchContext* context, int64_t n, int64_t tasks, F f) {
  if (tasks == 1) return f(int64_t{0}, n);
  struct Closure {
    F* f;
    int64_t n, tasks;
  } closure = {&f, n, tasks};
  const TaskFn task = [](void*, int index, uint8_t* raw) {
    const auto& c = *reinterpret_cast<const Closure*>(raw);
    return (*c.f)(c.n * index / c.tasks, c.n * (index + 1) / c.tasks);
  };
  return context->parallel_for(context, task, 0, static_cast<int>(tasks),
                               reinterpret_cast<uint8_t*>(&closure));
}

// Bytes of the partial results of one reduction.
size_t PartialBytes(const Sink& sink, const Units& units) {
  if (sink.kind != Sink::Kind::kReduce || units.parts <= 1) return 0;
  return RoundUp(static_cast<size_t>(units.parts * units.results) * sink.size);
}

// Passes [first, last) of a program.
struct PassRange {
  size_t first, last;
  size_t size() const { return last - first; }
};

// Memory for the partial results of some passes.
class Partials {
 public:
  Partials(const Launch& launch, PassRange range)
      : range_(range),
        each_(launch.program->max_sinks),
        memory_(launch.context, PointerBytes() + Bytes(launch, range)) {
    if (!ok()) return;
    uint8_t* at = memory_.data() + PointerBytes();
    for (size_t p = range.first; p < range.last; ++p) {
      const std::vector<Sink>& sinks = launch.program->passes[p].sinks;
      for (size_t s = 0; s < sinks.size(); ++s) {
        (*this)[p][s] = at;
        at += PartialBytes(sinks[s], launch.units[p]);
      }
    }
  }
  bool ok() const { return memory_.data() != nullptr; }
  // For each sink of the pass.
  uint8_t** operator[](size_t pass) const {
    return reinterpret_cast<uint8_t**>(memory_.data()) + (pass - range_.first) * each_;
  }

 private:
  size_t PointerBytes() const { return RoundUp(range_.size() * each_ * sizeof(uint8_t*)); }
  static size_t Bytes(const Launch& launch, PassRange range) {
    size_t bytes = 0;
    for (size_t p = range.first; p < range.last; ++p) {
      for (const Sink& sink : launch.program->passes[p].sinks)
        bytes += PartialBytes(sink, launch.units[p]);
    }
    return bytes;
  }

  const PassRange range_;
  const size_t each_;
  const Scratch memory_;
};

// Frames for some passes.
class Frames {
 public:
  Frames(const Launch& launch, PassRange range, Worker& worker)
      : range_(range), memory_(launch.context, Bytes(launch, range)) {
    if (!ok()) return;
    auto* const frames = reinterpret_cast<Frame*>(memory_.data());
    uint8_t* at = memory_.data() + FramesBytes(range);
    for (size_t p = range.first; p < range.last; ++p) {
      const Pass& pass = launch.program->passes[p];
      StartFrame(pass, worker, at, *new (&frames[p - range.first]) Frame);
      at += FrameBytes(pass);
    }
  }
  bool ok() const { return memory_.data() != nullptr; }
  Frame& operator[](size_t pass) const {
    return reinterpret_cast<Frame*>(memory_.data())[pass - range_.first];
  }

 private:
  static size_t FramesBytes(PassRange range) { return RoundUp(range.size() * sizeof(Frame)); }
  static size_t Bytes(const Launch& launch, PassRange range) {
    size_t bytes = FramesBytes(range);
    for (size_t p = range.first; p < range.last; ++p)
      bytes += FrameBytes(launch.program->passes[p]);
    return bytes;
  }

  const PassRange range_;
  const Scratch memory_;
};

class Runner {
 public:
  // `tail` is for the last cell along the program's group, which may be smaller.
  Runner(const Launch& launch, const Launch& tail)
      : launch_(launch), tail_(tail), program_(*launch.program), context_(launch.context) {}

  int Run() {
    if (Scatters(program_.kernel) && !Clear()) return 0;
    int64_t cells = 1, work = 0;
    for (int32_t d = 0; d < program_.prefix; ++d) cells *= launch_.extents[d];
    cells *= Groups();
    if (cells == 0) return 0;
    for (const Pass& pass : program_.passes) work += WorkOf(pass, launch_.extents);
    const int64_t total = work > (int64_t{1} << 50) / cells ? int64_t{1} << 50 : work * cells;
    const int64_t tasks = TasksFor(total, cells);
    if (tasks >= std::min<int64_t>(TasksFor(total, kMaxTasks), 16)) {
      return Parallel(context_, cells, tasks,
                      [this](int64_t begin, int64_t end) { return Cells(begin, end); });
    }
    return CellsOneByOne(cells);
  }

 private:
  // The output that sums are added to; false if it has no elements.
  bool Clear() const {
    const KernelOutput& output = program_.kernel.outputs[0];
    size_t bytes = SizeOf(output.type);
    for (const int32_t d : output.dims) bytes *= static_cast<size_t>(launch_.sizes[d]);
    std::memset(launch_.outputs[0]->host, 0, bytes);
    return bytes > 0;
  }

  int64_t Groups() const {
    if (program_.group < 0) return 1;
    const int64_t each = launch_.extents[program_.group];
    return (launch_.sizes[program_.group] + each - 1) / each;
  }

  void EnterCell(int64_t cell, Worker& worker) const {
    if (program_.group >= 0) {
      const int64_t groups = Groups(), group = cell % groups;
      cell /= groups;
      worker.launch = group == groups - 1 ? &tail_ : &launch_;
      worker.group_first = group * launch_.extents[program_.group];
      worker.coordinate[program_.group] = worker.group_first;
    }
    for (int32_t d = program_.prefix - 1; d >= 0; --d) {
      worker.coordinate[d] = cell % launch_.extents[d];
      cell /= launch_.extents[d];
    }
  }

  // Non-temporal stores are not ordered with others: before a task ends they are waited for.
  void EndNonTemporal() const {
    if (launch_.non_temporal) program_.ops->end_non_temporal();
  }

  // Cells [begin, end) on this thread alone.
  int Cells(int64_t begin, int64_t end) const {
    const PassRange all = {0, program_.passes.size()};
    const Scratch temps(context_, launch_.temp_bytes);
    const Partials partials(launch_, all);
    if (temps.data() == nullptr || !partials.ok()) return kVmOutOfMemory;
    Worker worker;
    worker.temps = temps.data();
    EnterCell(begin, worker);
    worker.launch = &launch_;  // whose blocks are the longest
    const Frames frames(launch_, all, worker);
    if (!frames.ok()) return kVmOutOfMemory;
    for (int64_t cell = begin; cell < end; ++cell) {
      if (Cancelled(context_)) return kVmCancelled;
      EnterCell(cell, worker);
      for (size_t p = 0; p < all.last; ++p) {
        const Pass& pass = program_.passes[p];
        const Units& units = worker.launch->units[p];
        RunUnits(pass, units, 0, units.count(), partials[p], worker, frames[p]);
        FinishPass(pass, units, partials[p], worker);
      }
    }
    EndNonTemporal();
    return 0;
  }

  // Few cells with much work: the passes of each run in parallel.
  int CellsOneByOne(int64_t cells) const {
    const Scratch temps(context_, launch_.temp_bytes);
    if (temps.data() == nullptr) return kVmOutOfMemory;
    Worker worker;
    worker.launch = &launch_;
    worker.temps = temps.data();
    const size_t swept = MaySweep(launch_) ? program_.swept : 0;
    for (int64_t cell = 0; cell < cells; ++cell) {
      EnterCell(cell, worker);
      for (size_t p = 0; p < program_.passes.size();) {
        const PassRange range = {p, p < swept ? swept : p + 1};
        if (const int error = ParallelPasses(range, worker); error != 0) return error;
        p = range.last;
      }
    }
    return 0;
  }

  // One pass, or those that are swept together.
  int ParallelPasses(PassRange range, const Worker& worker) const {
    const Launch& launch = *worker.launch;
    const Partials partials(launch, range);
    if (!partials.ok()) return kVmOutOfMemory;
    int64_t work = 0;
    for (size_t p = range.first; p < range.last; ++p)
      work += WorkOf(program_.passes[p], launch_.extents);
    const bool sweep = range.size() > 1;
    const int64_t parts = sweep ? SweptBlocks(launch) : launch.units[range.first].count();
    const auto task = [&](int64_t begin, int64_t end) -> int {
      if (Cancelled(context_)) return kVmCancelled;
      Worker mine = worker;
      const Frames frames(launch, range, mine);
      if (!frames.ok()) return kVmOutOfMemory;
      const auto run = [&](size_t p, std::pair<int64_t, int64_t> units) {
        RunUnits(program_.passes[p], launch.units[p], units.first, units.second, partials[p], mine,
                 frames[p]);
      };
      if (!sweep) run(range.first, {begin, end});
      for (int64_t block = begin; block < end && sweep; ++block) {
        for (size_t p = range.first; p < range.last; ++p) run(p, UnitsOfBlock(launch, p, block));
      }
      EndNonTemporal();
      return 0;
    };
    const bool in_order = program_.passes[range.first].sums;
    const int error = Parallel(context_, parts, in_order ? 1 : TasksFor(work, parts), task);
    for (size_t p = range.first; p < range.last && error == 0; ++p)
      FinishPass(program_.passes[p], launch.units[p], partials[p], worker);
    return error;
  }

  const Launch& launch_;
  const Launch& tail_;
  const Program& program_;
  LaunchContext* const context_;
};

constexpr int kUnbound = 1;  // correctness

// kUnbound: nothing ran, since BindLaunch refused.
int RunProgram(const Program& program, void** argv, bool large, int64_t group_extent) {
  LaunchContext* context = *static_cast<LaunchContext**>(argv[0]);
  const size_t bytes = LaunchBytes(program);
  const Scratch arrays(context, program.group < 0 ? bytes : 2 * bytes);
  if (arrays.data() == nullptr) return kVmOutOfMemory;
  Launch launch, tail;
  if (!BindLaunch(program, argv, large, group_extent, arrays.data(), launch)) return kUnbound;
  if (program.group < 0) return Runner(launch, launch).Run();
  const int64_t rest = launch.sizes[program.group] % group_extent;
  if (rest == 0) return Runner(launch, launch).Run();
  if (!BindLaunch(program, argv, large, rest, arrays.data() + bytes, tail)) return kUnbound;
  return Runner(launch, tail).Run();
}

int Run(void** argv, bool large) {
  const LaunchContext* context = *static_cast<LaunchContext**>(argv[0]);
  const auto& kernel = *static_cast<const VmKernel*>(context->kernel);
  const Program* wide = kernel.wide();
  if (wide != nullptr) {
    int64_t extents[kMaxDims];
    for (size_t d = 0; d < static_cast<size_t>(wide->num_iterated); ++d)
      extents[d] = ExtentArgument(wide->kernel, argv, d, large);
    const int64_t group = GroupExtent(*wide, extents);
    if (group > 0) {
      const int error = RunProgram(*wide, argv, large, group);
      if (error != kUnbound) return error;
    }
  }
  const int error = RunProgram(kernel.program(), argv, large, 0);
  return error == kUnbound ? kVmOutOfMemory : error;
}

}  // namespace
}  // namespace vm

VmKernel::VmKernel(std::unique_ptr<vm::Program> program, std::unique_ptr<vm::Program> wide)
    : program_(std::move(program)), wide_(std::move(wide)) {}
VmKernel::~VmKernel() = default;

absl::StatusOr<std::unique_ptr<VmKernel>> VmKernel::Compile(const Kernel& kernel, IsaLevel isa) {
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<vm::Program> program,
                        vm::CompileProgram(kernel, vm::OpsFor(isa), /*wide=*/false));
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<vm::Program> wide,
                        vm::CompileProgram(kernel, vm::OpsFor(isa), /*wide=*/true));
  return std::unique_ptr<VmKernel>(new VmKernel(std::move(program), std::move(wide)));
}

int RunVm(void** argv) { return vm::Run(argv, /*large=*/false); }
int RunLargeVm(void** argv) { return vm::Run(argv, /*large=*/true); }

}  // namespace kiln
