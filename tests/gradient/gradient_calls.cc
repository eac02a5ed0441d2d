// SPDX-License-Identifier: Apache-2.0
#include "tests/gradient/gradient_calls.h"

#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "graph/gradient/gradients.h"
#include "graph/reference/gradient_check.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "tests/gradient/distinct_numbers.h"

namespace kiln {
namespace {

// An input as it is written: "i64 [2, n] -4..4".
struct Written {
  std::string type, shape;
  bool has_range = false;
  double lo = 0, hi = 0;
};

Written ParseInput(absl::string_view text) {
  Written w;
  const size_t open = text.find('['), close = text.find(']');
  w.type = std::string(absl::StripAsciiWhitespace(text.substr(0, open)));
  w.shape = std::string(text.substr(open, close - open + 1));
  const std::string range(absl::StripAsciiWhitespace(text.substr(close + 1)));
  if (const size_t dots = range.find(".."); dots != std::string::npos) {
    w.has_range = absl::SimpleAtod(range.substr(0, dots), &w.lo) &&
                  absl::SimpleAtod(range.substr(dots + 2), &w.hi);
  }
  return w;
}

// At commas outside brackets.
std::vector<std::string> Operands(absl::string_view text) {
  std::vector<std::string> parts;
  int depth = 0;
  std::string part;
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.push_back(std::exchange(part, ""));
    } else {
      part += c;
    }
  }
  if (!absl::StripAsciiWhitespace(part).empty()) parts.push_back(part);
  return parts;
}

// Too long for a line of the table.
constexpr char kGroupedConv[] =
    "conv(f64 [2, 4, 5, 6], f64 [6, 2, 3, 3], f64 [6]) {group = 2, pads = [1, 1, 0, 1], "
    "strides = [2, 1]}";
constexpr char kPaddedTranspose[] =
    "conv_transpose(f64 [2, 4, 3, 2], f64 [4, 3, 3, 3], f64 [3]) {strides = [2, 2], "
    "output_padding = [1, 0]}";
constexpr char kCeilPool[] =
    "average_pool(f64 [1, 2, 6]) {kernel = [3], strides = [2], ceil_mode = 1, "
    "count_include_pad = 1, pads = [1, 1]}";
constexpr char kDilatedPool[] =
    "average_pool(f64 [1, 1, 8]) {kernel = [2], dilations = [3], strides = [2], "
    "count_include_pad = 1, pads = [1, 0]}";

constexpr char kWeightsOfGroups[] =
    "conv_backward_weights(f64 [2, 4, 5, 6], f64 [2, 6, 2, 6]) {kernel = [3, 3], group = 2, "
    "pads = [1, 1, 0, 1], strides = [2, 1]}";
constexpr char kWeightsOfSymbols[] =
    "conv_backward_weights(f64 [b, 2, s, 3], f64 [b, 3, s, 2]) {kernel = [3, 2], "
    "pads = [1, 0, 1, 0]}";
constexpr char kWeightsOfVolumes[] =
    "conv_backward_weights(f64 [1, 1, 4, 3, 4], f64 [1, 2, 3, 2, 3]) {kernel = [2, 2, 2]}";
constexpr char kStridedWeights[] =
    "conv_backward_weights(f64 [b, 2, 6], f64 [b, 2, 3]) {kernel = [2], group = 2, strides = [3], "
    "pads = [0, 2]}";
constexpr char kDilatedMaximum[] =
    "max_pool_backward(f64 [1, 1, 8], f64 [1, 1, 3]) {kernel = [2], dilations = [3], "
    "strides = [2]}";
constexpr char kMaximumOfSymbols[] =
    "max_pool_backward(f64 [b, 2, n], f64 [b, 2, n]) {kernel = [3], pads = [1, 1]}";
constexpr char kCeilParts[] =
    "average_pool_backward(f64 [1, 2, 4]) {kernel = [3], strides = [2], ceil_mode = 1, "
    "count_include_pad = 1, pads = [1, 1], shape = [1, 2, 6]}";
constexpr char kPartsOfSymbols[] =
    "average_pool_backward(f64 [b, 2, n]) {kernel = [3], pads = [1, 1], shape = [b, 2, n]}";

struct Calls {
  const char* op;
  std::vector<std::string> calls;
};

const std::vector<Calls>& StructuredCalls() {
  static const auto* const calls = new std::vector<Calls>{
      {"cast",
       {"cast(f64 [2, 3]) {to = f64}", "cast(f64 [1, 1]) {to = f64}", "cast(f64 []) {to = f64}",
        "cast(f64 [z]) {to = f64}", "cast(f64 [n]) {to = f64}"}},
      {"where",
       {"where(bool [2, 3], f64 [2, 3], f64 [3])", "where(bool [], f64 [2], f64 [2, 1])",
        "where(bool [], f64 [], f64 [])", "where(bool [z], f64 [1], f64 [z])",
        "where(bool [n, 1], f64 [m], f64 [n, m])"}},
      {"clip",
       {"clip(f64 [2, 3], f64 [] -1..-0.5, f64 [] 0.5..1)", "clip(f64 [], f64 [], f64 [])",
        "clip(f64 [6], f64 [6], f64 [6])", "clip(f64 [z], f64 [], f64 [])",
        "clip(f64 [n], f64 [1], f64 [])", "clip(f64 [6], _, f64 [])", "clip(f64 [6], f64 [])"}},
      {"pow",
       {"pow(f64 [2, 3], f64 [3] -3..3)", "pow(f64 [], f64 [])", "pow(f64 [2, 1], f64 [3])",
        "pow(f64 [z], f64 [])", "pow(f64 [n, m], f64 [n, 1])", "pow(f64 [4], i64 [4] -2..3)"}},
      {"mod",
       {"mod(f64 [2, 3], f64 [3] 2..3)", "mod(f64 [], f64 [] 2..3) {fmod = 1}",
        "mod(f64 [n], f64 [1] -3..-2)", "mod(f64 [z], f64 [])",
        "mod(f64 [6], f64 [6] 1..3) {fmod = 1}"}},
      {"transpose",
       {"transpose(f64 [2, 3, 4]) {perm = [1, 2, 0]}", "transpose(f64 [])", "transpose(f64 [n, m])",
        "transpose(f64 [z, 3])", "transpose(f64 [2, 3])"}},
      {"expand",
       {"expand(f64 [2, 1]) {shape = [4, 1, 3]}", "expand(f64 []) {shape = [2, 2]}",
        "expand(f64 [n, 1]) {shape = [n, 3]}", "expand(f64 [1]) {shape = [0]}",
        "expand(f64 [2, 3]) {shape = [2, 3]}", "expand(f64 [1, m]) {shape = [2, m]}"}},
      {"concat",
       {"concat(f64 [2, 3], f64 [2, 1], f64 [2, 2]) {axis = 1}",
        "concat(f64 [n], f64 [m]) {axis = 0}", "concat(f64 [2, n], f64 [2, z]) {axis = -1}",
        "concat(f64 [3]) {axis = 0}", "concat(f64 [2, n], f64 [2, 3], f64 [2, m]) {axis = 1}"}},
      {"split",
       {"2 split(f64 [2, 4]) {axis = 1, split = [1, 3]}",
        "3 split(f64 [3, 2]) {axis = 0, split = [1, 1, 1]}",
        "2 split(f64 [n]) {axis = 0, split = [2, n - 2]}",
        "2 split(f64 [3]) {axis = 0, split = [0, 3]}", "2 split(f64 [2, n, 2]) {axis = 1}"}},
      {"gather",
       {"gather(f64 [4, 3], i64 [2, 2] -4..4) {axis = 0}",
        "gather(f64 [4, 3], i64 [] 0..3) {axis = 1}",
        "gather(f64 [n, m], i32 [7] -9..9) {axis = 1}", "gather(f64 [4, 3], i64 [z]) {axis = 0}",
        "gather(f64 [2, n, 3], i64 [k, 2] 0..4) {axis = 1}"}},
      {"gather_elements",
       {"gather_elements(f64 [4, 3], i64 [2, 3] -4..4) {axis = 0}",
        "gather_elements(f64 [4, 3], i64 [4, 5] 0..3) {axis = 1}",
        "gather_elements(f64 [n], i64 [7] -9..9) {axis = 0}",
        "gather_elements(f64 [4, 3], i64 [0, 3]) {axis = 0}",
        "gather_elements(f64 [n, m], i32 [2, m] 0..4) {axis = 0}"}},
      {"take",
       {"take(f64 [4, 3, 2], i64 [5] 0..4, i64 [5] 0..3)", "take(f64 [4, 3], i64 [] 0..4)",
        "take(f64 [2, 4, 3], i64 [2, 5] -4..4) {batch = 1}", "take(f64 [4, 3], i64 [z], i64 [z])",
        "take(f64 [b, n, 3], i64 [b, 2] 0..4, i64 [b, 2] 0..3) {batch = 1}"}},
      {"pad",
       {"pad(f64 [2, 3]) {pads = [1, 0, 0, 2], value = 1.5}", "pad(f64 [4]) {pads = [-1, -1]}",
        "pad(f64 [n, 2]) {pads = [2, -1, 1, 1]}", "pad(f64 [z]) {pads = [1, 2]}",
        "pad(f64 [2, n]) {pads = [0, n, 0, 1]}"}},
      {"upsample",
       {"upsample(f64 [2, 3]) {scales = [1, 2]}", "upsample(f64 [n]) {scales = [3]}",
        "upsample(f64 [2, z]) {scales = [2, 2]}",
        "upsample(f64 [1, 1, 2, 2]) {scales = [1, 1, 2, 3]}", "upsample(f64 [3]) {scales = [1]}"}},
      {"slice",
       {"slice(f64 [5, 6]) {starts = [1, -1], ends = [4, 0], steps = [2, -2]}",
        "slice(f64 [n, 3]) {starts = [1], ends = [n], axes = [0]}",
        "slice(f64 [s]) {starts = [0], ends = [1000000000], steps = [2]}",
        "slice(f64 [4]) {starts = [3], ends = [1]}",
        "slice(f64 [s, 4]) {starts = [-1, -2], ends = [-1000000000, 4], steps = [-1, 1]}",
        "slice(f64 [n, m]) {starts = [1, m - 1], ends = [n - 1, m]}"}},
      {"reshape",
       {"reshape(f64 [2, 6]) {shape = [3, -1]}", "reshape(f64 []) {shape = [1, 1]}",
        "reshape(f64 [n, 6]) {shape = [0, 2, 3]}", "reshape(f64 [z, 3]) {shape = [0, 3]}",
        "reshape(f64 [n, 6]) {shape = [2, -1]}"}},
      {"squeeze",
       {"squeeze(f64 [2, 1, 3]) {axes = [1]}", "squeeze(f64 [1])",
        "squeeze(f64 [1, n]) {axes = [0]}", "squeeze(f64 [z, 1]) {axes = [1]}",
        "squeeze(f64 [1, 2, 1])"}},
      {"unsqueeze",
       {"unsqueeze(f64 [2, 3]) {axes = [0, 2]}", "unsqueeze(f64 []) {axes = [0]}",
        "unsqueeze(f64 [n]) {axes = [1]}", "unsqueeze(f64 [z]) {axes = [0]}",
        "unsqueeze(f64 [n, m]) {axes = [-1]}"}},
      {"flatten",
       {"flatten(f64 [2, 3, 2]) {axis = 2}", "flatten(f64 [3]) {axis = 0}",
        "flatten(f64 [n, m, 2])", "flatten(f64 [z, 2])", "flatten(f64 [2, 1])"}},
      {"softmax",
       {"softmax(f64 [2, 3])", "softmax(f64 [3, 2]) {axis = 0}", "softmax(f64 [n])",
        "softmax(f64 [z, 3])", "softmax(f64 [2, n, 3]) {axis = 1}"}},
      {"log_softmax",
       {"log_softmax(f64 [2, 3])", "log_softmax(f64 [3, 2]) {axis = 0}", "log_softmax(f64 [n])",
        "log_softmax(f64 [z, 3])", "log_softmax(f64 [2, n, 3]) {axis = 1}"}},
      {"layer_norm",
       {"layer_norm(f64 [2, 3, 4], f64 [4], f64 [4])", "layer_norm(f64 [6])",
        "layer_norm(f64 [n, 2, 3], f64 [2, 3], f64 [2, 3]) {axis = 1}",
        "layer_norm(f64 [z, 4], f64 [4])", "layer_norm(f64 [2, n], _, f64 [n])"}},
      {"batch_norm",
       {"batch_norm(f64 [2, 3, 2, 2], f64 [3], f64 [3], f64 [3], f64 [3])",
        "batch_norm(f64 [4, 2], f64 [2], f64 [2], f64 [2], f64 [2])",
        "batch_norm(f64 [b, 3, n], f64 [3], f64 [3], f64 [3], f64 [3])",
        "batch_norm(f64 [z, 3], f64 [3], f64 [3], f64 [3], f64 [3])",
        "batch_norm(f64 [2, m, 2], f64 [m], f64 [m], f64 [m], f64 [m])"}},
      {"instance_norm",
       {"instance_norm(f64 [2, 3, 2, 2], f64 [3], f64 [3])",
        "instance_norm(f64 [1, 2, 5], f64 [2], f64 [2])",
        "instance_norm(f64 [b, 3, n], f64 [3], f64 [3])",
        "instance_norm(f64 [z, 3, 2], f64 [3], f64 [3])",
        "instance_norm(f64 [2, m, 4], f64 [m], f64 [m])"}},
      {"dropout",
       {"2 dropout(f64 [2, 3])", "2 dropout(f64 [n]) {ratio = 0.25, seed = 3}",
        "2 dropout(f64 [z])", "2 dropout(f64 [])", "2 dropout(f64 [5, 1, 7]) {ratio = 0.9}"}},
      {"gelu",
       {"gelu(f64 [2, 3])", "gelu(f64 [6]) {approximate = \"tanh\"}", "gelu(f64 [n])",
        "gelu(f64 [z])", "gelu(f64 [])"}},
      {"global_average_pool",
       {"global_average_pool(f64 [2, 3, 2, 2])", "global_average_pool(f64 [2, 3])",
        "global_average_pool(f64 [b, 2, n, m])", "global_average_pool(f64 [z, 3, 2])",
        "global_average_pool(f64 [1, 1, 5])"}},
      {"global_max_pool",
       {"global_max_pool(f64 [2, 3, 2, 2])", "global_max_pool(f64 [2, 3])",
        "global_max_pool(f64 [b, 2, n, m])", "global_max_pool(f64 [z, 3, 2])",
        "global_max_pool(f64 [1, 1, 5])"}},
      {"matmul",
       {"matmul(f64 [2, 3, 4], f64 [4, 5])", "matmul(f64 [3], f64 [3])",
        "matmul(f64 [3], f64 [2, 3, 4])", "matmul(f64 [2, 3, 4], f64 [4])",
        "matmul(f64 [2, 1, 3, 4], f64 [3, 4, 2])", "matmul(f64 [n, 3], f64 [3, m])",
        "matmul(f64 [z, 3], f64 [3, 2])", "matmul(f64 [3, z], f64 [z, 2])",
        "matmul(f64 [4, 2], f64 [4, 3]) {trans_a = 1}",
        "matmul(f64 [2, 4], f64 [3, 4]) {trans_b = 1}",
        "matmul(f64 [b, 4, 2], f64 [b, 3, 4]) {trans_a = 1, trans_b = 1}",
        "matmul(f64 [b, n, 4], f64 [3, 4]) {trans_b = 1}"}},
      {"gemm",
       {"gemm(f64 [3, 4], f64 [5, 4], f64 [5]) {alpha = 0.5, beta = 2.0, trans_b = 1}",
        "gemm(f64 [3, 4], f64 [4, 2])", "gemm(f64 [n, 4], f64 [4, 2], f64 [n, 1])",
        "gemm(f64 [z, 4], f64 [4, 2])", "gemm(f64 [4, 3], f64 [4, 2], f64 []) {trans_a = 1}"}},
      {"conv",
       {kGroupedConv, "conv(f64 [1, 2, 7], f64 [3, 2, 3]) {strides = [2], dilations = [2]}",
        "conv(f64 [2, 1, 4, 3, 4], f64 [2, 1, 2, 2, 2]) {pads = [1, 0, 1, 0, 1, 0]}",
        "conv(f64 [b, 2, 6], f64 [2, 1, 2], f64 [2]) {group = 2, strides = [3], pads = [0, 2]}",
        "conv(f64 [2, 2, s, n], f64 [2, 2, 2, 3], f64 [2]) {strides = [2, 1], pads = [1, 0, 0, 1]}",
        "conv(f64 [z, 2, 4], f64 [3, 2, 2])",
        "conv(f64 [1, 1, 6], f64 [1, 1, 2]) {strides = [4], pads = [0, 1]}"}},
      {"conv_transpose",
       {kPaddedTranspose, "conv_transpose(f64 [1, 2, 4], f64 [2, 3, 3]) {dilations = [2]}",
        "conv_transpose(f64 [b, 4, 3], f64 [4, 1, 2]) {group = 2, pads = [1, 0], strides = [2]}",
        "conv_transpose(f64 [2, 2, n], f64 [2, 1, 3], f64 [1]) {strides = [2], pads = [0, 1]}",
        "conv_transpose(f64 [z, 2, 3], f64 [2, 2, 2])",
        "conv_transpose(f64 [1, 2, n], f64 [2, 1, 3]) {strides = [2], extents = [2 * n + 2]}"}},
      {"max_pool",
       {"max_pool(f64 [2, 2, 4, 5]) {kernel = [3, 2], pads = [1, 0, 1, 1]}",
        "max_pool(f64 [1, 2, 7]) {kernel = [3], strides = [2], ceil_mode = 1}",
        "max_pool(f64 [1, 1, 8]) {kernel = [2], dilations = [3], strides = [2]}",
        "max_pool(f64 [b, 2, s, n]) {kernel = [2, 2], strides = [2, 1], pads = [1, 0, 0, 1]}",
        "max_pool(f64 [z, 2, 4]) {kernel = [2]}",
        "max_pool(f64 [1, 1, 3, 3, 3]) {kernel = [2, 2, 2]}"}},
      {"average_pool",
       {"average_pool(f64 [2, 2, 4, 5]) {kernel = [3, 2], pads = [1, 0, 1, 1]}", kCeilPool,
        kDilatedPool,
        "average_pool(f64 [b, 2, s, n]) {kernel = [2, 2], strides = [2, 1], pads = [1, 0, 0, 1]}",
        "average_pool(f64 [z, 2, 4]) {kernel = [2]}",
        "average_pool(f64 [1, 2, 7]) {kernel = [3], strides = [2], ceil_mode = 1}"}},
      {"conv_backward_weights",
       {kWeightsOfGroups, kWeightsOfSymbols, kWeightsOfVolumes, kStridedWeights,
        "conv_backward_weights(f64 [z, 2, 4], f64 [z, 3, 3]) {kernel = [2]}",
        "conv_backward_weights(f64 [1, 2, 7], f64 [1, 3, 2]) {kernel = [3], strides = [2], "
        "dilations = [2]}"}},
      {"max_pool_backward",
       {"max_pool_backward(f64 [2, 2, 4, 5], f64 [2, 2, 4, 5]) {kernel = [3, 2], "
        "pads = [1, 0, 1, 1]}",
        kDilatedMaximum, kMaximumOfSymbols,
        "max_pool_backward(f64 [1, 2, 7], f64 [1, 2, 3]) {kernel = [3], strides = [2], "
        "ceil_mode = 1}",
        "max_pool_backward(f64 [z, 2, 4], f64 [z, 2, 3]) {kernel = [2]}"}},
      {"average_pool_backward",
       {"average_pool_backward(f64 [2, 2, 4, 5]) {kernel = [3, 2], pads = [1, 0, 1, 1], "
        "shape = [2, 2, 4, 5]}",
        kCeilParts, kPartsOfSymbols,
        "average_pool_backward(f64 [z, 2, 3]) {kernel = [2], shape = [z, 2, 4]}",
        "average_pool_backward(f64 [1, 1, 2]) {kernel = [2], dilations = [3], strides = [2], "
        "shape = [1, 1, 7]}"}},
      {"top_k",
       {"2 top_k(f64 [3, 4]) {k = 2}", "2 top_k(f64 [4, 2]) {axis = 0, k = 3, largest = 0}",
        "2 top_k(f64 [n]) {k = 2}", "2 top_k(f64 [z, 3]) {k = 1}", "2 top_k(f64 [5]) {k = 0}"}},
      {"cumulative",
       {"cumulative(f64 [3, 4]) {axis = 1}", "cumulative(f64 [n]) {exclusive = 1, reverse = 1}",
        "cumulative(f64 [5, 2]) {product = 1}", "cumulative(f64 [z, 2])",
        "cumulative(f64 [7]) {exclusive = 1, product = 1, reverse = 1}",
        "cumulative(f64 [n, 5]) {axis = 1, product = 1, reverse = 1}"}},
      {"scatter_elements",
       {"scatter_elements(f64 [4, 3], i64 [2, 3] -4..4, f64 [2, 3]) {axis = 0, reduction = 1}",
        "scatter_elements(f64 [n], i64 [6] 0..4, f64 [6])",
        "scatter_elements(f64 [4, 3], i64 [4, 2] 0..3, f64 [4, 2]) {axis = 1, reduction = 2}",
        "scatter_elements(f64 [n, m], i64 [3, m] 0..4, f64 [3, m]) {reduction = 3}",
        "scatter_elements(f64 [4], i64 [z], f64 [z]) {reduction = 1}",
        "scatter_elements(f64 [5], i64 [7] 0..5, f64 [7]) {reduction = 4}"}},
      {"scatter_nd",
       {"scatter_nd(f64 [4, 3], i64 [2, 1] -4..4, f64 [2, 3]) {reduction = 1}",
        "scatter_nd(f64 [n, 3], i64 [5, 2] 0..3, f64 [5])",
        "scatter_nd(f64 [4, 3], i64 [3, 2] 0..3, f64 [3]) {reduction = 2}",
        "scatter_nd(f64 [n, m], i64 [3, 1] 0..4, f64 [3, m]) {reduction = 3}",
        "scatter_nd(f64 [4], i64 [z, 1], f64 [z])",
        "scatter_nd(f64 [4], i64 [6, 1] 0..4, f64 [6]) {reduction = 4}"}},
      {"scatter_sum",
       {"scatter_sum(i64 [2, 1] -4..4, f64 [2, 3]) {shape = [4, 3]}",
        "scatter_sum(i64 [n, 2] 0..3, f64 [n]) {shape = [n, 3]}",
        "scatter_sum(i64 [n, 1] 0..3, f64 [n, m]) {shape = [4, m]}",
        "scatter_sum(i64 [z, 1], f64 [z]) {shape = [4]}",
        "scatter_sum(i32 [6, 1] 0..4, f64 [6]) {shape = [4]}"}},
      {"compress",
       {"compress(f64 [2, 3], bool [3]) {axis = 1, extents = [2, q]}",
        "compress(f64 [2, 3], bool [6]) {extents = [q]}",
        "compress(f64 [n, 2], bool [n]) {axis = 0, extents = [q, 2]}",
        "compress(f64 [z], bool [z]) {axis = 0, extents = [q]}",
        "compress(f64 [4], bool [2]) {axis = 0, extents = [q]}"}},
      {"unique",
       {"4 unique(f64 [4]) {extents = [q, q, 4, q]}",
        "4 unique(f64 [3, 2]) {axis = 0, extents = [q, 2, q, 3, q]}",
        "4 unique(f64 [n]) {extents = [q, q, n, q], sorted = 0}",
        "4 unique(f64 [2, 3]) {axis = 1, extents = [2, q, q, 3, q]}",
        "4 unique(f64 [2, 2]) {extents = [q, q, 4, q]}"}},
      {"measure",
       {"measure(f64 [2, 3]) {extents = [q, 3]}", "measure(f64 [4]) {extents = [q]}",
        "measure(f64 [n]) {extents = [q]}", "measure(f64 [z]) {extents = [q]}",
        "measure(f64 []) {extents = []}"}},
      {"match_extent",
       {"match_extent(f64 [2, 3], f64 [3, 4]) {axis = 1, to = 0}",
        "match_extent(f64 [4], f64 [4]) {axis = 0, to = 0}",
        "match_extent(f64 [n], f64 [4]) {axis = 0, to = 0}",
        "match_extent(f64 [z], f64 [0]) {axis = 0, to = 0}",
        "match_extent(f64 [n, 2], f64 [2, n]) {axis = 0, to = 1}"}},
  };
  return *calls;
}

std::vector<std::string> ReductionCalls(const std::string& op) {
  std::vector<std::string> calls;
  for (const char* call :
       {"(f64 [2, 3])", "(f64 [2, 3, 2]) {axes = [0, 2], keepdims = 0}", "(f64 [])",
        "(f64 [n, m]) {axes = [-1]}", "(f64 [z, 3]) {axes = [1]}",
        "(f64 [n, 2, m]) {axes = [0, 2], keepdims = 0}", "(f64 [1, 4]) {axes = [0]}"})
    calls.push_back(absl::StrCat(op, call));
  return calls;
}

// Element-wise operators: shapes of a first and of all other operands.
std::vector<std::string> ScalarCalls(const std::string& op, int operands) {
  std::vector<std::string> calls;
  const std::pair<const char*, const char*> shapes[] = {{"[]", "[]"},
                                                        {"[2, 3]", "[3]"},
                                                        {"[2, 1, 2]", "[3, 1]"},
                                                        {"[z, 2]", "[1]"},
                                                        {"[n, m]", "[n, 1]"}};
  for (const auto& [first, other] : shapes) {
    std::vector<std::string> inputs;
    for (int k = 0; k < operands; ++k)
      inputs.push_back(absl::StrCat("f64 ", k == 0 ? first : other));
    calls.push_back(absl::StrCat(op, "(", absl::StrJoin(inputs, ", "), ")"));
  }
  return calls;
}

}  // namespace

const SymbolValues& CallSymbols() {
  static const auto* const values =
      new SymbolValues{{"b", 2}, {"n", 4}, {"m", 3}, {"s", 5}, {"z", 0}, {"k", 2}};
  return *values;
}

const SymbolValues& OtherSymbols() {
  static const auto* const values =
      new SymbolValues{{"b", 1}, {"n", 6}, {"m", 1}, {"s", 8}, {"z", 2}, {"k", 1}};
  return *values;
}

std::vector<std::string> CallsOf(const OpDef& op) {
  for (const Calls& calls : StructuredCalls()) {
    if (calls.op == absl::string_view(op.name)) return calls.calls;
  }
  if (op.kind == OpKind::kReduce) return ReductionCalls(op.name);
  if (op.kind == OpKind::kScalar) return ScalarCalls(op.name, op.max_inputs);
  return {};
}

absl::StatusOr<GradientCall> MakeCall(absl::string_view call, DType type, uint64_t seed,
                                      const SymbolValues& symbols) {
  int outputs = 1;
  if (call[0] >= '0' && call[0] <= '9') {
    outputs = call[0] - '0';
    call.remove_prefix(2);
  }
  const size_t open = call.find('('), close = call.find(')');
  const OpDef* const op = FindOp(call.substr(0, open));
  if (op == nullptr) return absl::InvalidArgumentError(absl::StrCat(call, ": no such operator"));
  std::string text = "graph call\n";
  std::vector<std::string> names;
  std::vector<Written> written;
  for (const std::string& operand : Operands(call.substr(open + 1, close - open - 1))) {
    if (absl::StripAsciiWhitespace(operand) == "_") {
      names.push_back("_");
      continue;
    }
    Written input = ParseInput(operand);
    if (input.type == "f64") input.type = std::string(Name(type));
    names.push_back(absl::StrCat("x", written.size()));
    absl::StrAppend(&text, "input ", names.back(), " : ", input.type, " ", input.shape, "\n");
    written.push_back(std::move(input));
  }
  std::vector<std::string> results;
  for (int k = 0; k < outputs; ++k) results.push_back(absl::StrCat("y", k));
  absl::StrAppend(&text, absl::StrJoin(results, ", "), " = ", op->name, "(",
                  absl::StrJoin(names, ", "), ")", call.substr(close + 1), "\n");
  for (const std::string& result : results) absl::StrAppend(&text, "output ", result, "\n");
  KILN_ASSIGN_OR_RETURN(Graph graph, ParseGraph(text));

  GradientCall made{std::move(graph), {}};
  std::mt19937_64 random(seed);
  int64_t floats = 0;
  std::vector<std::vector<int64_t>> shapes;
  for (const ValueId id : made.graph.inputs()) {
    KILN_ASSIGN_OR_RETURN(shapes.emplace_back(), Evaluate(made.graph.value(id).shape, symbols));
    Tensor sized = Tensor::Allocate(DType::kU8, shapes.back());
    if (IsFloat(made.graph.value(id).type)) floats += sized.num_elements();
  }
  DistinctNumbers numbers(op->test.lo, op->test.hi, floats, seed);
  for (size_t k = 0; k < shapes.size(); ++k) {
    const Value& input = made.graph.value(made.graph.inputs()[k]);
    Tensor tensor = Tensor::Allocate(input.type, shapes[k]);
    DistinctNumbers own(written[k].lo, written[k].hi, tensor.num_elements(), seed + k);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      if (IsFloat(input.type)) {
        WriteFloat(tensor, i, written[k].has_range ? own.Next() : numbers.Next());
      } else {
        const auto lo = static_cast<int64_t>(written[k].lo),
                   hi = static_cast<int64_t>(written[k].hi);
        WriteInt(
            tensor, i,
            std::uniform_int_distribution<int64_t>(lo, written[k].has_range ? hi - 1 : 1)(random));
      }
    }
    made.inputs.push_back(std::move(tensor));
  }
  return made;
}

absl::StatusOr<Graph> Differentiated(const Graph& graph, std::vector<Tensor>& inputs) {
  std::vector<ValueId> wrt;
  for (const ValueId id : graph.inputs()) {
    if (IsFloat(graph.value(id).type)) wrt.push_back(id);
  }
  KILN_ASSIGN_OR_RETURN(const Graph loss, WithScalarLoss(graph, inputs, 1));
  return Gradients(loss, loss.outputs()[0].value, wrt);
}

}  // namespace kiln
