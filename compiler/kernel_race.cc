// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_race.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/interleave.h"
#include "base/log.h"
#include "base/proto_add.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "compiler/fill.h"
#include "compiler/kernel_choice.h"
#include "kernel/text.h"
#include "kiln/model.h"
#include "schedule/analysis.h"

namespace kiln {
namespace {

constexpr double kMostBytes = 1 << 30;  // of the operands of a launch
constexpr char kWay[] = "way";          // the input whose extent says which candidate runs

std::vector<int64_t> ShapeOf(const std::vector<int32_t>& dims,
                             const std::vector<int64_t>& extents) {
  std::vector<int64_t> shape;
  for (const int32_t dim : dims) shape.push_back(extents[static_cast<size_t>(dim)]);
  return shape;
}

// A Program of one launch with dense operands. Its ports have the names in0, in1, ..., out0, ...
class OneLaunch {
 public:
  OneLaunch(const RacedKernel& raced, const std::vector<int64_t>& extents, const Machine& machine)
      : kernel_(*raced.kernel) {
    program_.set_parallel_grain(machine.parallel_grain);
    program::KernelDef& def = *AddTo(program_.mutable_kernels());
    def.set_text(Print(kernel_));
    def.set_grain(GrainFor(kernel_, machine));
    for (const int64_t extent : extents) def.add_example(extent);
    program::KernelThunk& thunk = *Make(AddTo(AddTo(program_.mutable_regions())->mutable_thunks()),
                                        &program::Thunk::set_allocated_kernel);
    for (const int64_t extent : extents) *AddTo(thunk.mutable_dims()) = absl::StrCat(extent);
    for (const std::string& bytes : raced.params) thunk.add_params(bytes);
    for (const KernelInput& input : kernel_.inputs)
      AddPort(input.type, ShapeOf(input.dims, extents), true, *AddTo(thunk.mutable_inputs()));
    for (const KernelOutput& output : kernel_.outputs)
      AddPort(output.type, ShapeOf(output.dims, extents), false, *AddTo(thunk.mutable_outputs()));
    program::TensorRef unused;
    AddPort(DType::kU8, {}, true, unused);
    program::Port& way = *program_.mutable_inputs(program_.inputs_size() - 1);
    way.set_name(kWay);
    way.add_shape(kWay);
    inputs_.back() = {kWay, DType::kU8, {*Dim::Parse(kWay)}, false};
    program_.mutable_buffers(way.buffer())->set_bytes(kWay);
  }

  const std::vector<PortInfo>& inputs() const { return inputs_; }
  const std::vector<PortInfo>& outputs() const { return outputs_; }

  program::Program WithSchedule(const Schedule& schedule, const SizeClass& sizes) const {
    program::Program program = program_;
    SetChoice(schedule, sizes, AddTo(program.mutable_kernels(0)->mutable_choices()));
    return program;
  }

 private:
  void AddPort(DType type, const std::vector<int64_t>& shape, bool input, program::TensorRef& ref) {
    const int index = input ? program_.inputs_size() : program_.outputs_size();
    program::Port& port =
        *(input ? AddTo(program_.mutable_inputs()) : AddTo(program_.mutable_outputs()));
    port.set_name(absl::StrCat(input ? "in" : "out", index));
    port.set_dtype(static_cast<uint32_t>(type));
    port.set_buffer(program_.buffers_size());
    ref.set_buffer(program_.buffers_size());
    ref.set_dtype(static_cast<uint32_t>(type));
    Shape dims;
    int64_t bytes = static_cast<int64_t>(SizeOf(type));
    for (const int64_t extent : shape) {
      *AddTo(port.mutable_shape()) = absl::StrCat(extent);
      *AddTo(ref.mutable_shape()) = absl::StrCat(extent);
      dims.push_back(Dim(extent));
      bytes *= extent;
    }
    program::Buffer& buffer = *AddTo(program_.mutable_buffers());
    buffer.set_kind(input ? program::Buffer::INPUT : program::Buffer::OUTPUT);
    buffer.set_index(index);
    buffer.set_bytes(absl::StrCat(bytes));
    (input ? inputs_ : outputs_).push_back({port.name(), type, std::move(dims), false});
  }

  const Kernel& kernel_;
  program::Program program_;
  std::vector<PortInfo> inputs_, outputs_;
};

// The candidates as variants of one model, so that they run on one pool.
class Candidates : public VariantProvider {
 public:
  explicit Candidates(const OneLaunch& launch) : launch_(launch) {}
  void Add(std::shared_ptr<const Variant> variant) { variants_.push_back(std::move(variant)); }
  const std::vector<PortInfo>& inputs() const override { return launch_.inputs(); }
  const std::vector<PortInfo>& outputs() const override { return launch_.outputs(); }
  absl::StatusOr<std::shared_ptr<const Variant>> Get(
      const std::vector<InputInfo>& inputs) override {
    return variants_[static_cast<size_t>(inputs.back().tensor.shape()[0] - 1)];
  }

 private:
  const OneLaunch& launch_;
  std::vector<std::shared_ptr<const Variant>> variants_;
};

// The contexts of all candidates, with the same operands.
class Lane {
 public:
  absl::Status Prepare(std::shared_ptr<Candidates> provider, size_t ways, int threads) {
    RunOptions options;
    options.threads = threads;
    KILN_ASSIGN_OR_RETURN(model_, Model::Create(provider, options));
    std::vector<Tensor> inputs, outputs;
    const auto allocate = [](const PortInfo& port) -> absl::StatusOr<Tensor> {
      KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, Evaluate(port.shape, {}));
      Tensor tensor = Tensor::Allocate(port.type, shape);
      FillNearOne(tensor);
      return tensor;
    };
    for (size_t k = 0; k + 1 < provider->inputs().size(); ++k) {
      KILN_ASSIGN_OR_RETURN(inputs.emplace_back(), allocate(provider->inputs()[k]));
    }
    for (const PortInfo& port : provider->outputs()) {
      KILN_ASSIGN_OR_RETURN(outputs.emplace_back(), allocate(port));
    }
    for (size_t way = 0; way < ways; ++way) {
      Context& context = contexts_.emplace_back(model_.NewContext());
      for (size_t k = 0; k < inputs.size(); ++k)
        KILN_RETURN_IF_ERROR(context.Bind(provider->inputs()[k].name, inputs[k]));
      for (size_t k = 0; k < outputs.size(); ++k)
        KILN_RETURN_IF_ERROR(context.BindOutput(provider->outputs()[k].name, outputs[k]));
      KILN_RETURN_IF_ERROR(
          context.Bind(kWay, Tensor::Allocate(DType::kU8, {static_cast<int64_t>(way) + 1})));
    }
    return absl::OkStatus();
  }
  absl::Status Run(size_t way) { return contexts_[way].Run(); }

 private:
  Model model_;
  std::vector<Context> contexts_;
};

double BytesOf(const Kernel& kernel, const std::vector<int64_t>& extents) {
  double bytes = 0;
  const auto add = [&](DType type, const std::vector<int32_t>& dims) {
    double own = static_cast<double>(SizeOf(type));
    for (const int64_t extent : ShapeOf(dims, extents)) own *= static_cast<double>(extent);
    bytes += own;
  };
  for (const KernelInput& input : kernel.inputs) add(input.type, input.dims);
  for (const KernelOutput& output : kernel.outputs) add(output.type, output.dims);
  return bytes;
}

CompileOptions RaceOptions(CompileOptions options, const Store* store) {
  options.compile_mode = CompileMode::kBlock;
  options.cache = {store != nullptr, store != nullptr ? store->directory() : "", true};
  options.kernels = nullptr;
  options.tuner = nullptr;
  options.dump = nullptr;
  return options;
}

}  // namespace

KernelRace::KernelRace(const CompileOptions& options, const Store* store)
    : options_(RaceOptions(options, store)), machine_(MachineOf(options)), service_(options_) {}

std::optional<Measured> KernelRace::Run(const RacedKernel& raced,
                                        const std::vector<Candidate>& candidates) {
  Measured measured;
  std::vector<std::string> at;
  std::vector<std::unique_ptr<OneLaunch>> launches;
  for (const std::vector<int64_t>& extents : raced.extents) {
    at.push_back(absl::StrJoin(extents, ","));
    if (BytesOf(*raced.kernel, extents) > kMostBytes) continue;
    launches.push_back(std::make_unique<OneLaunch>(raced, extents, machine_));
  }
  measured.at = absl::StrJoin(at, ";");
  if (raced.extents.empty() || candidates.empty()) return std::nullopt;
  if (launches.empty()) return measured;
  std::vector<std::shared_ptr<KernelHandle>> handles(candidates.size());
  ForEachInParallel(candidates.size(), [&](size_t k) {
    const program::Program program = launches[0]->WithSchedule(candidates[k].schedule, raced.sizes);
    const auto handle = service_.Get(program.kernels(0), program.kernels(0).choices(0));
    if (handle.ok() && !(*handle)->Get()->vm) handles[k] = *handle;
  });
  std::vector<size_t> ways;  // candidates that were built
  for (size_t k = 0; k < candidates.size(); ++k)
    if (handles[k] != nullptr) ways.push_back(k);
  if (ways.empty()) return std::nullopt;
  std::vector<Lane> lanes(launches.size());
  for (size_t p = 0; p < launches.size(); ++p) {
    auto provider = std::make_shared<Candidates>(*launches[p]);
    for (const size_t k : ways) {
      auto variant = std::make_shared<Variant>();
      variant->program = launches[p]->WithSchedule(candidates[k].schedule, raced.sizes);
      variant->kernels = {{handles[k]}};
      provider->Add(std::move(variant));
    }
    const absl::Status prepared = lanes[p].Prepare(provider, ways.size(), options_.threads);
    if (!prepared.ok()) {
      LogDebug("tune: a kernel is not measured: ", prepared.message());
      return std::nullopt;
    }
  }
  const Race race = RaceWays(ways.size(), launches.size(),
                             [&](size_t way, size_t point) { return lanes[point].Run(way); });
  measured.rounds = race.rounds;
  measured.winner = candidates[ways[race.winner]].schedule.ToString();
  for (size_t k = 0; k < ways.size(); ++k)
    measured.times.push_back({candidates[ways[k]].schedule.ToString(), race.ns[k]});
  return measured;
}

}  // namespace kiln
