// SPDX-License-Identifier: Apache-2.0
#include "tools/report.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "exec/package/package.h"
#include "nlohmann/json.hpp"

namespace kiln {
namespace {

std::string Element(const Tensor& t, int64_t k) {
  const char* const at =
      static_cast<const char*>(t.data()) + k * static_cast<int64_t>(SizeOf(t.dtype()));
  const auto load = [at](auto value) {
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  switch (t.dtype()) {
    case DType::kF32:
      return absl::StrCat(load(float{}));
    case DType::kF64:
      return absl::StrCat(load(double{}));
    case DType::kF16:
      return absl::StrCat(HalfToFloat(load(uint16_t{})));
    case DType::kBF16:
      return absl::StrCat(BFloatToFloat(load(uint16_t{})));
    case DType::kI8:
      return absl::StrCat(static_cast<int>(load(int8_t{})));
    case DType::kI16:
      return absl::StrCat(load(int16_t{}));
    case DType::kI32:
      return absl::StrCat(load(int32_t{}));
    case DType::kI64:
      return absl::StrCat(load(int64_t{}));
    case DType::kU8:
      return absl::StrCat(static_cast<unsigned>(load(uint8_t{})));
    case DType::kU16:
      return absl::StrCat(load(uint16_t{}));
    case DType::kU32:
      return absl::StrCat(load(uint32_t{}));
    case DType::kU64:
      return absl::StrCat(load(uint64_t{}));
    case DType::kBool:
      return load(uint8_t{}) != 0 ? "true" : "false";
  }
  return "?";
}

}  // namespace

KernelCounts CountsOfPackage(const Package& package) {
  KernelCounts counts;
  counts.cached = package.compiled();
  counts.vm = package.on_vm();
  counts.unvalidated = package.unvalidated();
  counts.failed = counts.unvalidated + package.refused();
  counts.kernels = counts.cached + counts.vm;
  return counts;
}

nlohmann::json ToJson(const KernelCounts& counts) {
  return {{"kernels", counts.kernels},
          {"cached", counts.cached},
          {"built", counts.built},
          {"failed", counts.failed},
          {"vm", counts.vm},
          {"ms", counts.ms},
          {"unvalidated", counts.unvalidated},
          {"build_ms", counts.build_ms},
          {"validate_ms", counts.validate_ms}};
}

nlohmann::json ToJson(const WeightCounts& counts) {
  return {{"mapped", counts.mapped}, {"copied", counts.copied}};
}

nlohmann::json ToJson(const Comparison& comparison) {
  return {{"max_abs", comparison.max_abs}, {"max_rel", comparison.max_rel}, {"ok", comparison.ok}};
}

nlohmann::json ToJson(const PortInfo& port) {
  nlohmann::json shape = nlohmann::json::array();
  for (const Dim& extent : port.shape) {
    if (extent.constant().has_value()) {
      shape.push_back(*extent.constant());
    } else {
      shape.push_back(extent.ToString());
    }
  }
  return {{"name", port.name}, {"dtype", std::string(Name(port.type))}, {"shape", shape}};
}

std::string Describe(const Tensor& tensor) {
  return absl::StrCat(std::string(Name(tensor.dtype())), " [", absl::StrJoin(tensor.shape(), ", "),
                      "]");
}

std::string FirstElements(const Tensor& tensor, int64_t most) {
  std::vector<std::string> elements;
  for (int64_t k = 0; k < std::min(most, tensor.num_elements()); ++k)
    elements.push_back(Element(tensor, k));
  return absl::StrCat(absl::StrJoin(elements, " "), tensor.num_elements() > most ? " ..." : "");
}

std::string Describe(const KernelCounts& counts) {
  std::string failed;
  if (counts.failed > 0)
    failed =
        absl::StrFormat(" (%d failed, %d of them unvalidated)", counts.failed, counts.unvalidated);
  return absl::StrFormat("%d kernels: %d cached, %d built, %d on the VM%s, %.0f ms", counts.kernels,
                         counts.cached, counts.built, counts.vm, failed, counts.ms);
}

std::string Describe(const WeightCounts& counts) {
  return absl::StrCat("weights: ", Bytes(counts.mapped), " mapped, ", Bytes(counts.copied),
                      " copied");
}

std::vector<size_t> ColumnWidths(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  return widths;
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  const std::vector<size_t> widths = ColumnWidths(rows);
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      absl::StrAppend(
          &line, row[c],
          std::string(c + 1 < row.size() ? widths[c] - row[c].size() + kColumnGap : 0, ' '));
    }
    absl::StripTrailingAsciiWhitespace(&line);  // cells at the end may be empty
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

std::string Short(double value) {
  return value < 100 ? absl::StrFormat("%.3g", value) : absl::StrFormat("%.0f", value);
}

std::string Bytes(int64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* next : {"KiB", "MiB", "GiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return absl::StrFormat("%.1f %s", value, unit);
}

}  // namespace kiln
