// SPDX-License-Identifier: Apache-2.0
#include "tools/train_data.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/npy.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "base/try_allocate.h"
#include "graph/tensors.h"
#include "tools/nearest_name.h"
#include "tools/npz.h"

namespace kiln {
namespace {

// The same numbers as another type.
absl::StatusOr<Tensor> As(const Tensor& tensor, DType type) {
  if (tensor.dtype() == type) return tensor;
  KILN_ASSIGN_OR_RETURN(Tensor out, TryAllocate(type, tensor.shape()));
  const bool from_float = IsFloat(tensor.dtype()), to_float = IsFloat(type);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (from_float) {
      const double value = ReadFloat(tensor, i);
      if (!to_float)
        return Invalid("it is ", Name(tensor.dtype()), ", the input ", Name(type),
                       "; floats do not become integers by themselves");
      WriteFloat(out, i, value);
    } else if (to_float) {
      WriteFloat(out, i, static_cast<double>(ReadInt(tensor, i)));
    } else {
      WriteInt(out, i, ReadInt(tensor, i));
      if (ReadInt(out, i) != ReadInt(tensor, i))
        return Invalid("element ", i, " is ", ReadInt(tensor, i), ", which the input, ", Name(type),
                       ", cannot have");
    }
  }
  return out;
}

}  // namespace

std::string FileOf(const std::string& spec) { return spec.substr(spec.find('=') + 1); }

absl::StatusOr<Samples> Samples::Read(const std::string& flag, const std::vector<std::string>& data,
                                      const std::string& labels_flag, const std::string& labels,
                                      const std::vector<PortInfo>& ports) {
  std::vector<std::pair<std::string, Tensor>> given;
  for (const std::string& spec : data) {
    const std::string path = FileOf(spec);
    if (absl::EndsWith(path, ".npz")) {
      KILN_ASSIGN_OR_RETURN(auto arrays, ReadNpz(path));
      std::move(arrays.begin(), arrays.end(), std::back_inserter(given));
      continue;
    }
    KILN_ASSIGN_OR_RETURN(Tensor tensor, ReadNpy(path));
    const std::string name = spec.substr(0, spec.find('='));
    given.emplace_back(path == spec ? ports[0].name : name, std::move(tensor));
  }
  if (!labels.empty()) {
    KILN_ASSIGN_OR_RETURN(Tensor tensor, ReadNpy(labels));
    given.emplace_back(ports.back().name, std::move(tensor));
  }
  std::vector<std::string> names;
  for (const PortInfo& port : ports) names.push_back(port.name);
  for (const auto& [name, tensor] : given) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      return Invalid(flag, ": there is no input \"", name, "\"", DidYouMean(name, names));
  }
  Samples samples;
  for (const PortInfo& port : ports) {
    const auto found = std::find_if(given.begin(), given.end(),
                                    [&](const auto& one) { return one.first == port.name; });
    if (found == given.end())
      return Invalid(flag, ": nothing is given for input \"", port.name, "\"; give ", flag, " ",
                     port.name, "=FILE.npy, or an archive that has it",
                     &port == &ports.back() ? absl::StrCat(", or ", labels_flag, " FILE.npy") : "");
    absl::StatusOr<Tensor> tensor = As(found->second, port.type);
    if (!tensor.ok())
      return Annotate(tensor.status(), absl::StrCat(flag, ": input \"", port.name, "\""));
    if (tensor->rank() == 0)
      return Invalid(flag, ": input \"", port.name,
                     "\" is one number; samples lie along the first ", "dim");
    if (samples.tensors_.empty()) samples.size_ = tensor->shape()[0];
    if (tensor->shape()[0] != samples.size_)
      return Invalid(&port == &ports.back() && !labels.empty() ? labels_flag : flag, ": input \"",
                     port.name, "\" has ", tensor->shape()[0], " samples, \"",
                     samples.tensors_[0].first, "\" has ", samples.size_);
    samples.tensors_.emplace_back(port.name, *std::move(tensor));
    given.erase(found);
  }
  if (!given.empty()) return Invalid(flag, ": input \"", given[0].first, "\" is given twice");
  if (samples.size_ == 0) return Invalid(flag, ": there are no samples");
  return samples;
}

absl::StatusOr<NamedTensors> Samples::Batch(const std::vector<int64_t>& order, int64_t begin,
                                            int64_t end) const {
  NamedTensors batch;
  for (const auto& [name, all] : tensors_) {
    std::vector<int64_t> shape = all.shape();
    shape[0] = end - begin;
    KILN_ASSIGN_OR_RETURN(Tensor some, TryAllocate(all.dtype(), shape));
    const auto row = static_cast<size_t>(all.size_bytes() / size_);
    for (int64_t i = begin; i < end; ++i) {
      const auto from = static_cast<size_t>(order[static_cast<size_t>(i)]) * row;
      std::memcpy(static_cast<char*>(some.data()) + static_cast<size_t>(i - begin) * row,
                  static_cast<const char*>(all.data()) + from, row);
    }
    batch.emplace_back(name, std::move(some));
  }
  return batch;
}

std::vector<int64_t> Shuffled(int64_t n, uint64_t seed, uint64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::mt19937_64 random(seed * 0x9E3779B97F4A7C15 + epoch);  // its numbers are the standard's
  for (size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[random() % left]);
  return order;
}

}  // namespace kiln
