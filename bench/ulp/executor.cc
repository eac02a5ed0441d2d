// SPDX-License-Identifier: Apache-2.0
#include "bench/ulp/executor.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cpu_features.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "exec/support/launch.h"
#include "exec/vm/vm.h"
#include "graph/graph.h"
#include "kernel/abi.h"
#include "kernel/text.h"
#include "kiln/graph.h"

namespace kiln::ulp {
namespace {

absl::StatusOr<Graph> GroupOfThree(ScalarOp op, DType type) {
  GraphBuilder b(Info(op).name);
  const Shape shape = {Dim::Symbol("n")};
  std::vector<ValueId> operands = {b.Op("neg", {b.Input("x", type, shape)})};
  if (Info(op).arity == 2) operands.push_back(b.Input("y", type, shape));
  b.Output(b.Op("neg", {b.Op(Info(op).name, operands)}), "out");
  return std::move(b).Finish();
}

absl::StatusOr<Executor> OfModel(ScalarOp op, DType type, std::string name, IsaLevel level,
                                 CompileMode mode) {
  KILN_ASSIGN_OR_RETURN(Graph graph, GroupOfThree(op, type));
  CompileOptions options;
  options.compile_mode = mode;
  options.target = CpuTarget(level);
  KILN_ASSIGN_OR_RETURN(Model model, Compile(std::move(graph), options));
  auto context = std::make_shared<Context>(model.NewContext());
  const bool binary = Info(op).arity == 2;
  const bool on_vm = mode == CompileMode::kNever;
  auto run = [context, type, binary, on_vm](void* x, void* y, void* out,
                                            int64_t n) -> absl::Status {
    KILN_RETURN_IF_ERROR(context->Bind("x", Tensor::View(x, type, {n})));
    if (binary) KILN_RETURN_IF_ERROR(context->Bind("y", Tensor::View(y, type, {n})));
    KILN_RETURN_IF_ERROR(context->BindOutput("out", Tensor::View(out, type, {n})));
    KILN_RETURN_IF_ERROR(context->Run());
    const PlanReport& report = context->report();
    if (report.kernel_launches != 1 || (report.vm_launches == 1) != on_vm) {
      return absl::InternalError(absl::StrCat("group: ", report.kernel_launches, " launches, ",
                                              report.vm_launches, " on the VM; one was wanted"));
    }
    return absl::OkStatus();
  };
  return Executor{std::move(name), std::move(run)};
}

// The VM on y = -f(-x) as a kernel.
absl::StatusOr<Executor> OfKernel(ScalarOp op, DType type) {
  const std::string type_name(Name(type));
  KILN_ASSIGN_OR_RETURN(
      const Kernel kernel,
      ParseKernel(absl::StrCat("kernel v1 math ", kMathVersion, "\ndims a\nin 0 ", type_name,
                               " [a] dense\nout 0 ", type_name, " [a] dense = neg(", Info(op).name,
                               "(neg(in0[a])))\n")));
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<VmKernel> vm, VmKernel::Compile(kernel));
  struct State {
    std::shared_ptr<VmKernel> vm;
    Pool pool{1};
    Launcher launcher{&pool};
  };
  auto state = std::make_shared<State>();
  state->vm = std::move(vm);
  auto run = [state](void* x, void*, void* out, int64_t n) -> absl::Status {
    auto extent = static_cast<int32_t>(n);
    BufferDim dim{0, extent, 1, 0};
    BufferArg in_arg, out_arg;
    in_arg.host = static_cast<uint8_t*>(x);
    out_arg.host = static_cast<uint8_t*>(out);
    in_arg.dimensions = out_arg.dimensions = 1;
    in_arg.dim = out_arg.dim = &dim;
    void* argv[] = {nullptr, &in_arg, &extent, &out_arg};
    if (state->launcher.Launch(&RunVm, state->vm.get(), argv) == 0) return absl::OkStatus();
    return absl::InternalError("the VM ran out of memory");
  };
  return Executor{"VM", std::move(run)};
}

}  // namespace

absl::StatusOr<std::vector<Executor>> Executors(ScalarOp op, DType type, bool has_operator) {
  std::vector<Executor> all;
  const auto add = [&all](absl::StatusOr<Executor> executor) {
    if (executor.ok()) all.push_back(*std::move(executor));
    return executor.status();
  };
  if (!has_operator) {
    KILN_RETURN_IF_ERROR(add(OfKernel(op, type)));
    return all;
  }
  const IsaLevel host = HostIsa();
  for (const auto& [level, name] : {std::pair(IsaLevel::kV4, "AVX-512"), {IsaLevel::kV3, "AVX2"}}) {
    if (level <= host)
      KILN_RETURN_IF_ERROR(add(OfModel(op, type, name, level, CompileMode::kBlock)));
  }
  KILN_RETURN_IF_ERROR(add(OfModel(op, type, "VM", host, CompileMode::kNever)));
  return all;
}

}  // namespace kiln::ulp
