// SPDX-License-Identifier: Apache-2.0
#include "trace/dump_check.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/safetensors_header.h"
#include "base/status.h"
#include "base/status_macros.h"

namespace kiln::tracing {
namespace {

constexpr const char* kBlockedLayouts[] = {"nchw4",  "nchw32", "nchw44", "nchw44_dot",
                                           "nchw64", "nchw88", "chwn4",  "nhwcd4"};

absl::Status CheckNames(const std::vector<std::string>& names, size_t count, const char* option,
                        const char* what, const char* prefix, std::set<std::string>& taken) {
  if (names.empty()) {
    for (size_t k = 0; k < count; ++k) taken.insert(absl::StrCat(prefix, k));
    return absl::OkStatus();
  }
  if (names.size() != count)
    return Invalid(option, ": ", names.size(), " names, and ", count, " ", what);
  for (const std::string& name : names) {
    if (name.empty() || !IsUtf8(name) || absl::StartsWith(name, "param_"))
      return Invalid(option, " \"", absl::CHexEscape(name),
                     "\": expected UTF-8 that does not begin with param_");
    if (!taken.insert(name).second)
      return Invalid(option, " \"", name, "\": it names another one too");
  }
  return absl::OkStatus();
}

absl::Status CheckTexts(const DumpOptions& options) {
  std::vector<const std::string*> texts = {&options.user_info};
  for (const auto& [key, value] : options.metadata) texts.insert(texts.end(), {&key, &value});
  for (const std::string* text : texts) {
    if (!IsUtf8(*text))
      return Invalid("user_info and metadata are UTF-8; \"", absl::CHexEscape(text->substr(0, 40)),
                     "\" is not");
  }
  return absl::OkStatus();
}

absl::Status CheckInference(const OptimizeForInference& wanted, DumpFormat format) {
  if (wanted.enable_ioc16) {
    return absl::UnimplementedError(
        "enable_ioc16: Kiln has no arithmetic of 16 bits; enable_io16xc32 stores in 16 bits and "
        "computes in f32");
  }
  const std::string& layout = wanted.layout;
  if (std::find(std::begin(kBlockedLayouts), std::end(kBlockedLayouts), layout) !=
      std::end(kBlockedLayouts)) {
    return absl::UnimplementedError(
        absl::StrCat("layout \"", layout,
                     "\": activations are dense here, and weights are blocked as the library wants "
                     "them; say nchw or nhwc"));
  }
  if (!layout.empty() && layout != "nchw" && layout != "nhwc")
    return Invalid("layout \"", layout, "\": expected nchw or nhwc");
  const char* const packaged = !layout.empty()                      ? "layout"
                               : wanted.fuse_conv_bias_nonlinearity ? "fuse_conv_bias_nonlinearity"
                               : wanted.fuse_conv_bias_with_z       ? "fuse_conv_bias_with_z"
                               : wanted.fuse_preprocess             ? "fuse_preprocess"
                                                                    : nullptr;
  if (packaged == nullptr || format == DumpFormat::kPackage) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(packaged,
                   ": a file of operators says nothing of how they run, which is decided "
                   "when it is loaded; dump a .kiln"));
}

absl::Status CheckTests(const DumpOptions& options, DumpFormat format) {
  if (!std::isfinite(options.maxerr) || options.maxerr < 0)
    return Invalid("maxerr ", options.maxerr, ": expected a number from 0 on");
  if (options.repeat < 1) return Invalid("repeat ", options.repeat, ": expected a count from 1 on");
  if (options.input_data.empty()) {
    const char* const without = options.resize_input                     ? "resize_input"
                                : options.maxerr != DumpOptions().maxerr ? "maxerr"
                                : options.repeat != 1                    ? "repeat"
                                : !options.input_transform.empty()       ? "input_transform"
                                : options.silent                         ? "silent"
                                : options.no_assert                      ? "no_assert"
                                                                         : nullptr;
    if (without != nullptr) return Invalid(without, ": it is about input_data, and there is none");
  } else if (format != DumpFormat::kPackage) {
    return absl::UnimplementedError(
        "input_data: test cases are stored in packages alone; dump a .kiln");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DumpFormat> FormatOf(absl::string_view file) {
  if (absl::EndsWith(file, ".onnx")) return DumpFormat::kOnnx;
  if (absl::EndsWith(file, ".graph")) return DumpFormat::kGraph;
  if (absl::EndsWith(file, ".kiln")) return DumpFormat::kPackage;
  return Invalid("its name ends in none of .onnx, .graph and .kiln, which say what it becomes");
}

absl::Status CheckDump(const DumpOptions& options, DumpFormat format, const Record& record) {
  if (options.append) {
    return absl::UnimplementedError(
        "append: a file has one model, and what is there is replaced; name another file");
  }
  std::set<std::string> taken;
  KILN_RETURN_IF_ERROR(CheckNames(options.arg_names, record.arguments.size(), "arg_names",
                                  "arguments", "arg_", taken));
  KILN_RETURN_IF_ERROR(CheckNames(options.output_names, record.results.size(), "output_names",
                                  "results", "out_", taken));
  if (options.keep_var_name < 0 || options.keep_var_name > 2)
    return Invalid("keep_var_name ", options.keep_var_name, ": expected 0, 1 or 2");
  if (options.keep_var_name == 0 && !options.output_names.empty())
    return Invalid("output_names: keep_var_name 0 keeps no names of results");
  if (format == DumpFormat::kPackage && options.keep_param_name) {
    return absl::UnimplementedError(
        "keep_param_name: constants of a package have no names; dump a .onnx or .graph");
  }
  if (options.append_json && options.strip_info_file.empty())
    return Invalid("append_json: it is about strip_info_file, and there is none");
  KILN_RETURN_IF_ERROR(CheckTexts(options));
  if (options.optimize_for_inference)
    KILN_RETURN_IF_ERROR(CheckInference(*options.optimize_for_inference, format));
  return CheckTests(options, format);
}

CompileOptions PackageOptionsFor(const std::optional<OptimizeForInference>& wanted,
                                 CompileOptions options) {
  if (!wanted) return options;
  if (wanted->fuse_conv_bias_nonlinearity || wanted->fuse_conv_bias_with_z ||
      wanted->layout == "nhwc")
    options.graph_opt_level = std::max(options.graph_opt_level, 2);
  if (wanted->fuse_preprocess) {
    options.graph_opt_level = 3;
    options.jit_level = std::max(options.jit_level, 1);
  }
  if (!wanted->layout.empty()) std::erase(options.disabled_passes, "channels_last");
  if (wanted->layout == "nchw") options.disabled_passes.emplace_back("channels_last");
  return options;
}

}  // namespace kiln::tracing
