// SPDX-License-Identifier: Apache-2.0
#include "training/state.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype.h"
#include "base/printable.h"
#include "base/safetensors.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "base/try_allocate.h"
#include "graph/tensors.h"

namespace kiln::training {
namespace {

constexpr char kFormatKey[] = "kiln.checkpoint";
constexpr char kFormat[] = "1";
constexpr char kPrecisionKey[] = "kiln.precision";

std::string Text(const Tensor& tensor) {
  return absl::StrCat(Name(tensor.dtype()), " [", absl::StrJoin(tensor.shape(), ", "), "]");
}

Tensor PartOf(const Tensor& flat, const FlatLayout::Part& part) {
  const size_t at = static_cast<size_t>(part.offset) * SizeOf(flat.dtype());
  return Tensor::View(static_cast<char*>(flat.data()) + at, flat.dtype(), part.shape, {},
                      flat.owner());
}

void CopyInto(const Tensor& to, const Tensor& from) {
  const Tensor dense = Dense(from);
  std::memmove(to.data(), dense.data(), static_cast<size_t>(to.size_bytes()));
}

absl::Status CheckFits(absl::string_view subject, const Tensor& own, const Tensor& given) {
  if (given.device().kind != DeviceKind::kCpu)
    return Invalid(subject, ": the value lies on a device; give it in memory of the host");
  if (own.dtype() == given.dtype() && own.shape() == given.shape()) return absl::OkStatus();
  return Invalid(subject, " is ", Text(own), ", the value ", Text(given));
}

absl::StatusOr<Tensor> Zeros(DType type, int64_t elements) {
  KILN_ASSIGN_OR_RETURN(Tensor tensor, TryAllocate(type, {elements}));
  std::memset(tensor.data(), 0, static_cast<size_t>(tensor.size_bytes()));
  return tensor;
}

struct CountRow {
  const char* name;
  int64_t Counts::*field;
  int64_t most;  // that a file may have: so that what counts on does not overflow
};
constexpr int64_t kMostSteps = int64_t{1} << 53;  // exact in f64
constexpr CountRow kCounts[] = {{"kiln/step", &Counts::step, kMostSteps},
                                {"kiln/updates", &Counts::updates, kMostSteps},
                                {"kiln/draws", &Counts::draws, INT64_MAX},
                                {"kiln/steady", &Counts::steady, kMostSteps}};
constexpr char kScale[] = "kiln/loss_scale";

std::map<std::string, Tensor> CountTensors(const Counts& counts) {
  std::map<std::string, Tensor> tensors;
  for (const CountRow& row : kCounts) {
    Tensor& tensor = tensors[row.name] = Tensor::Allocate(DType::kI64, {});
    WriteInt(tensor, 0, counts.*row.field);
  }
  Tensor& scale = tensors[kScale] = Tensor::Allocate(DType::kF64, {});
  WriteFloat(scale, 0, counts.scale);
  return tensors;
}

absl::StatusOr<Counts> CountsIn(const std::map<std::string, Tensor>& tensors) {
  Counts counts;
  for (const CountRow& row : kCounts) {
    counts.*row.field = ReadInt(tensors.at(row.name), 0);
    if (counts.*row.field < 0 || counts.*row.field > row.most)
      return Invalid("\"", row.name, "\" is ", counts.*row.field, "; it is from 0 to ", row.most);
  }
  counts.scale = ReadFloat(tensors.at(kScale), 0);
  if (!(counts.scale >= kLeastScale && counts.scale <= kLargestScale))
    return Invalid("\"", kScale, "\" is ", counts.scale, "; it is from 2^-64 to 2^64");
  return counts;
}

}  // namespace

std::vector<PortInfo> PortsOf(const std::vector<FlatGroup>& groups) {
  std::vector<PortInfo> ports;
  for (const FlatGroup& group : groups) {
    for (const FlatLayout::Part& part : group.layout.parts)
      ports.push_back({part.name, group.type, Shape(part.shape.begin(), part.shape.end())});
  }
  return ports;
}

State::State(const Choice& choice, std::vector<std::string> names, const TrainerOptions& options)
    : choice_(&choice),
      moment_names_(std::move(names)),
      precision_(options.precision),
      first_scale_(options.precision == DType::kF16 ? options.loss_scale : 1) {
  counts.draws = int64_t{options.seed} << 31;
  counts.scale = first_scale_;
}

absl::StatusOr<State> State::Create(const Choice& choice, const std::vector<std::string>& moments,
                                    const TrainerOptions& options) {
  State state(choice, moments, options);
  for (const FlatGroup& group : choice.parameters) {
    KILN_ASSIGN_OR_RETURN(state.parameters.emplace_back(),
                          Zeros(group.type, group.layout.elements));
    std::vector<Tensor>& own = state.moments.emplace_back();
    for (size_t k = 0; k < moments.size(); ++k) {
      KILN_ASSIGN_OR_RETURN(own.emplace_back(), Zeros(group.type, group.layout.elements));
    }
  }
  for (const FlatGroup& group : choice.statistics) {
    KILN_ASSIGN_OR_RETURN(state.statistics.emplace_back(),
                          Zeros(group.type, group.layout.elements));
  }
  for (const auto& [name, view] : state.Views(/*with_moments=*/false))
    CopyInto(view, choice.values.at(name));
  return state;
}

std::map<std::string, Tensor> State::Views(bool with_moments) const {
  std::map<std::string, Tensor> views;
  const auto add = [&](const FlatGroup& group, const Tensor& flat, const std::string& prefix) {
    for (const FlatLayout::Part& part : group.layout.parts)
      views.emplace(prefix + part.name, PartOf(flat, part));
  };
  for (size_t g = 0; g < parameters.size(); ++g) {
    add(choice_->parameters[g], parameters[g], "");
    for (size_t k = 0; with_moments && k < moment_names_.size(); ++k)
      add(choice_->parameters[g], moments[g][k], absl::StrCat("kiln/", moment_names_[k], "/"));
  }
  for (size_t g = 0; g < statistics.size(); ++g) add(choice_->statistics[g], statistics[g], "");
  return views;
}

absl::StatusOr<Tensor> State::Find(absl::string_view name) const {
  const std::map<std::string, Tensor> views = Views(/*with_moments=*/false);
  const auto found = views.find(std::string(name));
  if (found != views.end()) return found->second;
  constexpr size_t kMost = 12;  // in a message
  std::string names;
  size_t count = 0;
  for (const auto& [known, view] : views) {
    if (count++ < kMost) absl::StrAppend(&names, names.empty() ? "" : ", ", Printable(known));
  }
  return absl::NotFoundError(absl::StrCat("trainer: no parameter or statistic \"", Printable(name),
                                          "\"; there are ", names, count > kMost ? ", ..." : ""));
}

absl::Status State::Set(absl::string_view name, const Tensor& value) {
  KILN_ASSIGN_OR_RETURN(const Tensor own, Find(name));
  KILN_RETURN_IF_ERROR(CheckFits(absl::StrCat("parameter \"", Printable(name), "\""), own, value));
  CopyInto(own, value);
  return absl::OkStatus();
}

std::map<std::string, Tensor> State::Values() const {
  std::map<std::string, Tensor> values = Views(/*with_moments=*/false);
  for (auto& [name, value] : values) value = value.Clone();
  return values;
}

absl::Status State::Save(FileSystem& files, absl::string_view path,
                         std::map<std::string, std::string> metadata) const {
  std::map<std::string, Tensor> tensors = Views(/*with_moments=*/true);
  tensors.merge(CountTensors(counts));
  for (const auto& [key, value] : {std::pair(kFormatKey, std::string(kFormat)),
                                   std::pair(kPrecisionKey, std::string(Name(precision_)))}) {
    if (!metadata.emplace(key, value).second)
      return Invalid("checkpoint: metadata \"", key, "\" is Kiln's own; name it otherwise");
  }
  return WriteSafetensors(files, path, tensors, metadata);
}

absl::StatusOr<std::map<std::string, std::string>> State::Load(FileSystem& files,
                                                               absl::string_view path) {
  KILN_ASSIGN_OR_RETURN(Safetensors read, ReadSafetensors(files, path));
  const std::string subject = absl::StrCat("checkpoint \"", Printable(path), "\"");
  const auto format = read.metadata.find(kFormatKey);
  if (format == read.metadata.end() || format->second != kFormat)
    return Invalid(subject, ": it is of version \"",
                   format == read.metadata.end() ? "" : Printable(format->second),
                   "\", expected \"", kFormat, "\"; take one that a trainer has saved");
  std::map<std::string, Tensor> wanted = Views(/*with_moments=*/true);
  const std::map<std::string, Tensor> views = wanted;
  wanted.merge(CountTensors(counts));
  for (const auto& [name, own] : wanted) {
    const Tensor* const saved = read.Find(name);
    if (saved == nullptr)
      return Invalid(subject, ": it has no \"", Printable(name),
                     "\"; is it of this model and optimizer?");
    KILN_RETURN_IF_ERROR(
        CheckFits(absl::StrCat(subject, ": \"", Printable(name), "\""), own, *saved));
  }
  for (const auto& [name, tensor] : read.tensors) {
    if (wanted.count(name) == 0)
      return Invalid(subject, ": it has \"", Printable(name),
                     "\", which this trainer has not; is it of this model and optimizer?");
  }
  absl::StatusOr<Counts> loaded = CountsIn(read.tensors);
  if (!loaded.ok()) return Annotate(loaded.status(), subject);
  const auto precision = read.metadata.extract(kPrecisionKey);
  const bool same_scale =
      precision_ == DType::kF16 && !precision.empty() && precision.mapped() == Name(precision_);
  if (!same_scale) {
    loaded->scale = first_scale_;
    loaded->steady = 0;
  }
  counts = *loaded;
  for (const auto& [name, view] : views) CopyInto(view, read.tensors.at(name));
  read.metadata.erase(kFormatKey);
  return std::move(read.metadata);
}

}  // namespace kiln::training
