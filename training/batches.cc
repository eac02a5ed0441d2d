// SPDX-License-Identifier: Apache-2.0
#include "training/batches.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype.h"
#include "base/printable.h"
#include "base/status.h"

namespace kiln::training {
namespace {

std::string Names(const std::vector<PortInfo>& ports) {
  return absl::StrJoin(ports, ", ", [](std::string* out, const PortInfo& port) {
    absl::StrAppend(out, "\"", Printable(port.name), "\"");
  });
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> InOrder(const std::vector<PortInfo>& ports,
                                            const NamedTensors& given) {
  std::vector<std::optional<Tensor>> found(ports.size());
  for (const auto& pair : given) {
    const std::string& name = pair.first;
    const auto port = std::find_if(ports.begin(), ports.end(),
                                   [&](const PortInfo& one) { return one.name == name; });
    if (port == ports.end())
      return Invalid("trainer: there is no input \"", Printable(name), "\"; there are ",
                     Names(ports));
    std::optional<Tensor>& place = found[static_cast<size_t>(port - ports.begin())];
    if (place) return Invalid("trainer: input \"", Printable(name), "\" is given twice");
    place = pair.second;
  }
  std::vector<Tensor> tensors;
  for (size_t k = 0; k < ports.size(); ++k) {
    if (!found[k])
      return Invalid("trainer: input \"", Printable(ports[k].name), "\" is not given; a step has ",
                     Names(ports));
    tensors.push_back(*std::move(found[k]));
  }
  return tensors;
}

absl::StatusOr<std::vector<std::vector<Tensor>>> Cut(const std::vector<PortInfo>& ports,
                                                     const std::vector<Tensor>& tensors,
                                                     int parts) {
  std::vector<std::vector<Tensor>> cut(static_cast<size_t>(parts));
  for (size_t k = 0; k < tensors.size(); ++k) {
    const Tensor& whole = tensors[k];
    const bool has_batch = parts > 1 && !ports[k].shape.empty() && !ports[0].shape.empty() &&
                           ports[k].shape[0] == ports[0].shape[0] && whole.rank() > 0;
    if (!has_batch) {
      for (std::vector<Tensor>& part : cut) part.push_back(whole);
      continue;
    }
    std::vector<int64_t> shape = whole.shape();
    if (shape[0] % parts != 0)
      return Invalid("trainer: input \"", Printable(ports[k].name), "\" has ", shape[0],
                     " samples, which do not divide by ", parts, " micro-batches");
    shape[0] /= parts;
    const int64_t step =
        shape[0] * whole.strides()[0] * static_cast<int64_t>(SizeOf(whole.dtype()));
    for (size_t p = 0; p < cut.size(); ++p) {
      char* const at = static_cast<char*>(whole.data()) + static_cast<int64_t>(p) * step;
      cut[p].push_back(
          Tensor::View(at, whole.dtype(), shape, whole.strides(), whole.owner(), whole.device()));
    }
  }
  return cut;
}

}  // namespace kiln::training
