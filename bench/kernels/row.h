// SPDX-License-Identifier: Apache-2.0
// A graph ready to run, its operands in memory of their own.
#ifndef KILN_BENCH_KERNELS_ROW_H_
#define KILN_BENCH_KERNELS_ROW_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "kiln/model.h"

namespace kiln::bench {

struct Row {
  std::string name;
  Model model;
  std::unique_ptr<Context> context;
  std::vector<Tensor> operands;
  int64_t read = 0, written = 0;  // bytes
  double probe = 0;               // seconds; 0: not measured
};

// Binds numbers to all inputs and memory to all outputs, and runs the model once. Fails where an
// extent is no number.
absl::StatusOr<std::unique_ptr<Row>> MakeRow(Model model, const std::string& name);

}  // namespace kiln::bench

#endif  // KILN_BENCH_KERNELS_ROW_H_
