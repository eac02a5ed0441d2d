// SPDX-License-Identifier: Apache-2.0
#include "tests/trace/host_function.h"

#include <memory>
#include <thread>

#include "base/status_macros.h"
#include "kiln/trace_ops.h"

namespace kiln {
namespace {

// In a thread of its own, whose arrays end with it.
template <typename F>
void Elsewhere(F work) {
  std::thread other([&] {  // NOLINT: a test's
    (void)SetLazyOptions(OnVm());
    work();
  });
  other.join();
}

bool IsNegative(const Tensor& tensor) {
  return tensor.num_elements() > 0 && *static_cast<const float*>(tensor.Clone().data()) < 0;
}

// Whether the function goes the other way. A read.
bool GoesOtherwise(const Array& there) {
  const absl::StatusOr<Tensor> value = there.tensor();
  return value.ok() && IsNegative(*value);
}

bool Branches(const Host& host) {
  return host.deed == Deed::kBranch || host.deed == Deed::kBranchOnArgument;
}

// What is done before the step that `host.at` says, with the values so far.
void Do(Program& program, std::vector<Array>& values) {
  Array& there = values.back();
  switch (program.host.deed) {
    case Deed::kThrow:
      throw 7;
    case Deed::kForget:
      return program.forget();
    case Deed::kKeep:
      return program.kept.push_back(there);
    case Deed::kLetGoElsewhere: {
      // The value is computed again for the steps that follow.
      Array copy = there;
      there = -(-copy);
      return Elsewhere(
          [gone = std::make_shared<Array>(std::move(copy))]() mutable { gone.reset(); });
    }
    case Deed::kUseReadElsewhere:
      (void)there.eval();
      [[fallthrough]];
    case Deed::kUseElsewhere:
      return Elsewhere([&] { program.told = (there + 1.0f).status(); });
    case Deed::kNest:
      there = program.inner(there);
      return;
    case Deed::kNestExcluded: {
      const ExcludeFromTrace scope;
      there = program.inner(there);
      return;
    }
    case Deed::kCallItself:
      return program.call(values[0], values[1]);
    default:
      return;
  }
}

// Regions left out begin and end between steps.
class Region {
 public:
  explicit Region(const Host& host)
      : host_(host), is_(host.deed == Deed::kExclude || host.deed == Deed::kExcludeMore) {}
  void Before(size_t step, std::vector<Array>& values) {
    if (is_ && step == host_.at) scope_ = std::make_unique<ExcludeFromTrace>();
    if (scope_ == nullptr || step != host_.until) return;
    if (host_.deed == Deed::kExcludeMore) values.back() = -(-values.back());
    scope_ = nullptr;
  }

 private:
  const Host& host_;
  const bool is_;
  std::unique_ptr<ExcludeFromTrace> scope_;
};

}  // namespace

std::vector<Array> Run(Program& program, const Array& a, const Array& b) {
  const Host& host = program.host;
  const Array last = host.makes ? Array::of(host.inputs[3]) : host.captured[1];
  Region region(host);
  bool otherwise = false;
  const auto before = [&](size_t step, std::vector<Array>& values) {
    region.Before(step, values);
    if (step != host.at) return;
    if (Branches(host))
      otherwise = GoesOtherwise(host.deed == Deed::kBranch ? values.back() : values[0]);
    else
      Do(program, values);
  };
  if (!Branches(host)) return Compute(host.f, {a, b, host.captured[0], last}, before);
  // The steps before the branch are the same in both.
  RandomFunction taken = host.f;
  const auto both = [&](size_t step, std::vector<Array>& values) {
    before(step, values);
    if (step == host.at && otherwise) taken = host.otherwise;
  };
  return Compute(taken, {a, b, host.captured[0], last}, both);
}

std::pair<Array, Array> ArgumentsOf(const Host& host) {
  const Tensor& x = host.inputs[0];
  Array a = host.argument_is_captured ? host.captured[0] : Array::of(x);
  if (host.argument_on_gpu) {
    a = Array::of(Tensor::View(x.data(), x.dtype(), x.shape(), {}, std::make_shared<Tensor>(x),
                               {DeviceKind::kCuda, 0}));
  }
  if (host.wide_argument) a = cast(a, {.to = DType::kF64});
  if (host.source == Source::kPending) a = -(-a);
  if (host.source == Source::kPendingElsewhere || host.source == Source::kComputedElsewhere) {
    Elsewhere([&] {
      a = -(-a);
      if (host.source == Source::kComputedElsewhere) (void)a.eval();
    });
  }
  return {a, host.one_argument_twice ? a : Array::of(host.inputs[1])};
}

absl::StatusOr<std::vector<Tensor>> Want(const Host& host, EagerRunner& eager) {
  std::vector<Tensor> inputs = host.inputs;
  if (host.argument_is_captured) inputs[0] = inputs[2];
  if (host.one_argument_twice) inputs[1] = inputs[0];
  if (!Branches(host)) return eager.Run(host.f, inputs);
  RandomFunction prefix = host.f;
  prefix.steps.resize(host.at);
  KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> values, eager.RunAll(prefix, inputs));
  const Tensor& decides = host.deed == Deed::kBranch ? values.back() : values[0];
  return eager.Run(IsNegative(decides) ? host.otherwise : host.f, inputs);
}

}  // namespace kiln
