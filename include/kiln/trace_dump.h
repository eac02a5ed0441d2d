// SPDX-License-Identifier: Apache-2.0
// What Traced::dump (trace.h) writes: the newest record of a traced function, as a model.
//
//   kiln::TraceOptions trace_options;
//   trace_options.capture_as_const = true;       // captured arrays and numbers are constants of it
//   auto step = kiln::trace(Step, trace_options);
//   step(x);
//   kiln::DumpOptions options;
//   options.arg_names = {"x"};
//   options.input_data = {"x:#rand(0, 1)"};      // a test case, with what the trace gives for it
//   absl::StatusOr<kiln::DumpInfo> info = step.dump("step.kiln", options);
//   // $ kiln run --self-test step.kiln
//
// The end of the file's name says what it becomes: `.onnx`, a model for any runtime (operator set
// 20); `.graph`, Kiln's text; `.kiln`, a package, compiled with TraceOptions::compile. All of them
// give the bits of the trace when Kiln runs them, library operators excepted. The extents are those
// of the record. docs/trace.md says what becomes of each option in which file.
#ifndef KILN_TRACE_DUMP_H_
#define KILN_TRACE_DUMP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

// Exact simplifications before the file is written: constants are folded, equal operations are one.
// And on demand what rounds otherwise, or holds for a package alone.
struct OptimizeForInference {
  // Floats of 32 bits between operations, and results, become f16; arguments stay f32. Each
  // operation computes in f32 and rounds once.
  bool enable_io16xc32 = false;
  // kUnimplemented: Kiln has no arithmetic of 16 bits; enable_io16xc32 stores in 16.
  bool enable_ioc16 = false;
  // Of activations, in a package: "nhwc" lays those around convolutions out so where the target
  // gains, "nchw" leaves them; empty: as TraceOptions::compile says. kUnimplemented: the blocked
  // ones (nchw4, nchw32, nchw44, nchw44_dot, nchw64, nchw88, chwn4, nhwcd4), which weights alone
  // have here.
  std::string layout;
  // In a package, whatever levels TraceOptions::compile has: a convolution takes the bias and
  // activation behind it along; an addend of its shape too; what is element-wise is one kernel.
  bool fuse_conv_bias_nonlinearity = false;
  bool fuse_conv_bias_with_z = false;
  bool fuse_preprocess = false;
};

struct DumpOptions {
  // Of arguments and results, in their order; none: "arg_0", "arg_1", ...; "out_0", ...
  std::vector<std::string> arg_names, output_names;
  // kUnimplemented: a file has one model.
  bool append = false;
  // Which names values have: 0, arguments alone (and output_names are an error); 1, results too; 2,
  // all, after operator and line: "mul:step.cc:12". A package has no others than those of ports.
  int keep_var_name = 1;
  // Operations are called after operator and line, with "[1]", "[2]" where there are several: in
  // profiles of packages, too.
  bool keep_opr_name = false;
  // Captured arrays are "param_0", ..., in the order in which operations take them: names for
  // CompileOptions::updatable of whoever loads the file. A package has none: kUnimplemented.
  bool keep_param_name = false;
  std::optional<OptimizeForInference> optimize_for_inference;

  // Test cases, of a package: "NAME:VALUE;NAME:VALUE", a value for each argument, or "VALUE" where
  // there is one. A value is the path of a .npy file or "#rand(LO, HI)", "#rand(LO, HI, 2, 3)" of
  // that shape; "#rand(LO, HI)" alone is for all arguments. "@FILE" is a file with one of these a
  // line. What the function gives for them is stored beside.
  std::vector<std::string> input_data;
  // Of what files hold, in this order: each axis but the first is resized to the argument's, by
  // linear interpolation; the whole stands so often behind each other along the first axis; and an
  // expression over `data` in f64, of numbers, + - * / %, ** and operators of docs/ops.md by name:
  // "(data - reduce_mean(data)) / 255". Then it is cast to the argument's type.
  bool resize_input = false;
  int repeat = 1;
  std::string input_transform;
  double maxerr = 1e-4;    // of floats: |got - want| <= maxerr + maxerr * |want|
  bool silent = false;     // the self-test says nothing of cases that are right
  bool no_assert = false;  // it runs them, and compares nothing

  // A JSON file (kiln.strip_info/1) with the operators and types of the model, for who builds a
  // runtime of no others. append_json: as a further model of the file that is there.
  std::string strip_info_file;
  bool append_json = false;

  // Stored in the file, for people. Text in UTF-8; comments of a `.graph`.
  std::string user_info;
  std::vector<std::pair<std::string, std::string>> metadata;
  int64_t model_version = 0;
};

struct DumpInfo {
  int64_t operations = 0;  // of the model
  int64_t bytes = 0;       // of the file
  int64_t kernels = 0;     // of a package
  int64_t on_vm = 0;       // of these, without code
  std::vector<std::string> inputs, outputs, parameters;
};

}  // namespace kiln

#endif  // KILN_TRACE_DUMP_H_
