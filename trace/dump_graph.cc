// SPDX-License-Identifier: Apache-2.0
#include "trace/dump_graph.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trace/failure.h"
#include "trace/log_graph.h"

namespace kiln::tracing {
namespace {

class NamedGraph : public LogGraph {
 public:
  NamedGraph(const Record& record, const DumpOptions& options)
      : LogGraph(record.log), options_(options) {
    for (size_t k = 0; k < record.results.size() && options.keep_var_name > 0; ++k)
      output_names_.emplace(record.results[k], OutputName(k));
    for (size_t k = 0; k < record.arguments.size(); ++k) {
      const ValueType& type = log_.values[k].type;
      ids_[k] = graph.AddInput(
          k < options_.arg_names.size() ? options_.arg_names[k] : absl::StrCat("arg_", k),
          type.type, ToShape(type.shape()));
    }
  }

  std::string OutputName(size_t k) const {
    return k < options_.output_names.size() ? options_.output_names[k] : absl::StrCat("out_", k);
  }

 protected:
  absl::StatusOr<ValueId> FromOutside(uint32_t id) override {
    const LogValue& value = log_.values[id];
    if (value.kind != LogValue::Kind::kCaptured) return graph.AddConstant("", ElementsOf(value));
    const size_t number = captured_++;
    const Tensor& tensor = value.node->tensor;
    if (tensor.device() != Device()) {
      return absl::UnimplementedError(
          absl::StrCat("captured array ", number, " ", value.type.ToString(),
                       " lies on a device; copy it to the host before the function is recorded"));
    }
    return graph.AddConstant(options_.keep_param_name ? absl::StrCat("param_", number) : "",
                             tensor.Clone());
  }

  std::string NodeName(const Operation& operation) override {
    if (!options_.keep_opr_name) return "";
    const std::string place = PlaceOf(operation);
    const int before = node_names_[place]++;
    return before == 0 ? place : absl::StrCat(place, "[", before, "]");
  }

  std::string ValueName(uint32_t id, const Operation& operation) override {
    if (const auto output = output_names_.find(id); output != output_names_.end())
      return output->second;
    return options_.keep_var_name > 1 ? PlaceOf(operation) : absl::StrCat("v", id);
  }

 private:
  static std::string PlaceOf(const Operation& operation) {
    return absl::StrCat(operation.signature->op->name, ":", ToString(operation.where));
  }

  const DumpOptions& options_;
  std::map<uint32_t, std::string> output_names_;  // of the first output that a value is
  std::map<std::string, int> node_names_;
  size_t captured_ = 0;  // arrays, so far
};

}  // namespace

absl::StatusOr<Graph> ToNamedGraph(const Record& record, const std::string& name,
                                   const DumpOptions& options) {
  NamedGraph made(record, options);
  made.graph.name = name;
  KILN_RETURN_IF_ERROR(made.Add(0, record.log.operations.size()));
  for (size_t k = 0; k < record.results.size(); ++k) {
    KILN_ASSIGN_OR_RETURN(const ValueId id, made.ValueOf(record.results[k]));
    made.graph.AddOutput(id, made.OutputName(k));
  }
  made.graph.RemoveDead();
  return std::move(made.graph);
}

}  // namespace kiln::tracing
