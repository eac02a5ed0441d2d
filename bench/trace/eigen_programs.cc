// SPDX-License-Identifier: Apache-2.0
#if __has_include(<Eigen/Core>)
#include <Eigen/Core>
#endif
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/trace/programs.h"

namespace kiln::bench {

#if __has_include(<Eigen/Core>)
namespace {

using Rows = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Operand = Eigen::Map<const Rows>;
using Operands = std::vector<Operand>;

// A vector is one row.
void SaxpyChain(const Operands& in, Rows& out) {
  const auto x = in[0];
  const auto term = [&](const auto& y, int k) {
    return y * 0.9f + x * (0.1f * static_cast<float>(k));
  };
  out = term(term(term(term(in[1], 1), 2), 3), 4);
  out = term(term(term(term(out, 5), 6), 7), 8);
}

void Polynomial(const Operands& in, Rows& out) {
  const auto x = in[0];
  out = x + 0.5f;
  for (int k = 1; k < 15; ++k) out = out * x + (0.5f - 0.0625f * static_cast<float>(k));
}

void SoftmaxRows(const Operands& in, Rows& out) {
  for (Eigen::Index i = 0; i < out.rows(); ++i) {
    out.row(i) = (in[0].row(i) - in[0].row(i).maxCoeff()).exp();
    out.row(i) /= out.row(i).sum();
  }
}

void BlackScholes(const Operands& in, Rows& out) {
  const auto cdf = [](const auto& d) {
    return 0.5f * (1.0f + (0.7978845608f * (d + 0.044715f * d * d * d)).tanh());
  };
  const auto spot = in[0], strike = in[1], years = in[2];
  const Rows deviation = 0.3f * years.sqrt();
  const Rows d = ((spot / strike).log() + (0.02f + 0.045f) * years) / deviation;
  const Rows rest = d - deviation;
  out = spot * cdf(d) - strike * (-0.02f * years).exp() * cdf(rest);
}

void MandelbrotSteps(const Operands& in, Rows& out) {
  Rows x = in[0], y = in[1], next(x.rows(), x.cols());
  out.setZero();
  for (int k = 0; k < 16; ++k) {
    out += (x * x + y * y < 4.0f).cast<float>();
    next = (x * x + y * y < 4.0f).select(x * x - y * y + in[0], x);
    y = (x * x + y * y < 4.0f).select(2.0f * x * y + in[1], y);
    x.swap(next);
  }
}

void NormaliseRows(const Operands& in, Rows& out) {
  for (Eigen::Index i = 0; i < out.rows(); ++i) {
    out.row(i) = in[0].row(i) - in[0].row(i).mean();
    out.row(i) /= std::sqrt(out.row(i).square().mean() + 1e-5f);
  }
}

void KmeansDistances(const Operands& in, Rows& out) {
  for (Eigen::Index i = 0; i < in[0].rows(); ++i)
    out(0, i) = (in[1].rowwise() - in[0].row(i)).square().rowwise().sum().minCoeff();
}

void HeatStep(const Operands& in, Rows& out) {
  const auto u = in[0];
  const Eigen::Index n = u.rows() - 2, m = u.cols() - 2;
  const auto inner = u.block(1, 1, n, m);
  out = inner + 0.1f * (u.block(2, 1, n, m) + u.block(0, 1, n, m) + u.block(1, 2, n, m) +
                        u.block(1, 0, n, m) - 4.0f * inner);
}

void SumOfSquares(const Operands& in, Rows& out) { out(0, 0) = (in[0] - in[1]).square().sum(); }

void LogisticGradient(const Operands& in, Rows& out) {
  const auto samples = in[0].matrix();
  const Eigen::VectorXf product = samples * in[2].row(0).matrix().transpose();
  const Eigen::ArrayXf error = 1.0f / (1.0f + (-product.array()).exp()) - in[1].row(0).transpose();
  out.row(0) = (error.matrix().transpose() * samples).array() / static_cast<float>(samples.rows());
}

struct Program {
  void (*run)(const Operands& in, Rows& out);
  // Of the result, for extents of the first operand.
  std::vector<int64_t> (*shape)(const std::vector<int64_t>& first);
};

std::vector<int64_t> Same(const std::vector<int64_t>& first) { return first; }
std::vector<int64_t> None(const std::vector<int64_t>& /*first*/) { return {}; }

const std::map<std::string, Program> kPrograms = {
    {"saxpy_chain", {SaxpyChain, Same}},
    {"polynomial", {Polynomial, Same}},
    {"softmax_rows", {SoftmaxRows, Same}},
    {"black_scholes", {BlackScholes, Same}},
    {"mandelbrot_steps", {MandelbrotSteps, Same}},
    {"normalise_rows", {NormaliseRows, Same}},
    {"kmeans_distances",
     {KmeansDistances, [](const std::vector<int64_t>& s) { return std::vector<int64_t>{s[0]}; }}},
    {"heat_step",
     {HeatStep,
      [](const std::vector<int64_t>& s) {
        return std::vector<int64_t>{s[0] - 2, s[1] - 2};
      }}},
    {"sum_of_squares", {SumOfSquares, None}},
    {"logistic_gradient",
     {LogisticGradient, [](const std::vector<int64_t>& s) { return std::vector<int64_t>{s[1]}; }}}};

}  // namespace

absl::StatusOr<Prepared> PrepareEigen(const std::string& name, const std::vector<Tensor>& inputs) {
  const auto found = kPrograms.find(name);
  if (found == kPrograms.end()) return absl::NotFoundError(absl::StrCat("program \"", name, "\""));
  struct State {
    std::vector<Tensor> inputs;
    Operands operands;
    Rows out;
  };
  const auto rows = [](const std::vector<int64_t>& s) { return s.size() < 2 ? 1 : s[0]; };
  const auto state = std::make_shared<State>();
  state->inputs = inputs;
  for (const Tensor& tensor : inputs)
    state->operands.emplace_back(static_cast<const float*>(tensor.data()), rows(tensor.shape()),
                                 tensor.shape().back());
  const std::vector<int64_t> shape = found->second.shape(inputs[0].shape());
  state->out.resize(rows(shape), shape.empty() ? 1 : shape.back());
  return Prepared{[state, run = found->second.run] {
                    run(state->operands, state->out);
                    return absl::OkStatus();
                  },
                  [state, shape]() -> absl::StatusOr<Tensor> {
                    return Tensor::View(state->out.data(), DType::kF32, shape);
                  }};
}
#else
absl::StatusOr<Prepared> PrepareEigen(const std::string& /*name*/,
                                      const std::vector<Tensor>& /*inputs*/) {
  return absl::UnimplementedError("eigen: built without it; install libeigen3-dev");
}
#endif

}  // namespace kiln::bench
