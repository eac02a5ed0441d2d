// SPDX-License-Identifier: Apache-2.0
// Options of a trainer as text.
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "kiln/trainer.h"

namespace kiln::training {
namespace {

// "name:key=value,key=value"; each key is taken by who knows it.
class Spec {
 public:
  static absl::StatusOr<Spec> Parse(const std::string& what, absl::string_view text) {
    Spec spec;
    spec.what_ = what;
    const std::vector<std::string> halves = absl::StrSplit(text, absl::MaxSplits(':', 1));
    spec.name = halves[0];
    if (halves.size() == 1 || halves[1].empty()) return spec;
    for (const absl::string_view pair : absl::StrSplit(halves[1], ',')) {
      const std::vector<std::string> parts = absl::StrSplit(pair, absl::MaxSplits('=', 1));
      double value = 0;
      const bool number = parts.size() == 2 && absl::SimpleAtod(parts[1], &value);
      if (!number || !std::isfinite(value))
        return Invalid(what, " \"", text, "\": expected NAME:KEY=NUMBER,..., and \"", pair,
                       "\" is no such pair");
      for (const auto& [key, before] : spec.given_) {
        if (key == parts[0])
          return Invalid(what, " \"", text, "\": \"", key, "\" is given twice, as ", before,
                         " and ", value, "; give it once");
      }
      spec.given_.emplace_back(parts[0], value);
    }
    return spec;
  }

  std::optional<double> Take(const std::string& key) {
    known_.push_back(key);
    for (auto pair = given_.begin(); pair != given_.end(); ++pair) {
      if (pair->first != key) continue;
      const double value = pair->second;
      given_.erase(pair);
      return value;
    }
    return std::nullopt;
  }
  Spec& Number(const char* key, double& value) {
    if (const auto given = Take(key)) value = *given;
    return *this;
  }
  Spec& Whole(const char* key, int64_t& value) {
    const auto given = Take(key);
    if (!given) return *this;
    if (*given != std::floor(*given) || std::fabs(*given) > 1e15) {
      if (wrong_.empty()) wrong_ = absl::StrCat(key, " is ", *given, "; it is a whole number");
    } else {
      value = static_cast<int64_t>(*given);
    }
    return *this;
  }
  Spec& Flag(const char* key, bool& value) {
    if (const auto given = Take(key)) value = *given != 0;
    return *this;
  }

  // That everything was taken.
  absl::Status Done() const {
    if (!wrong_.empty()) return Invalid(what_, " ", name, ": ", wrong_);
    if (given_.empty()) return absl::OkStatus();
    return Invalid(what_, " ", name, ": there is no \"", given_[0].first, "\"; there are ",
                   known_.empty() ? "none" : absl::StrJoin(known_, ", "));
  }
  absl::Status NoSuchName(const std::vector<std::string>& names) const {
    return Invalid(what_, " \"", name, "\": there are ", absl::StrJoin(names, ", "));
  }

  std::string name;

 private:
  std::string what_, wrong_;
  std::vector<std::pair<std::string, double>> given_;
  std::vector<std::string> known_;
};

}  // namespace

absl::Status SetLoss(absl::string_view text, TrainerOptions& options) {
  KILN_ASSIGN_OR_RETURN(Spec spec, Spec::Parse("loss", text));
  if (spec.name == "cross_entropy") {
    CrossEntropyLoss loss;
    spec.Number("smoothing", loss.label_smoothing).Whole("axis", loss.class_axis);
    int64_t ignored = INT64_MIN;
    spec.Whole("ignore", ignored);
    if (ignored != INT64_MIN) loss.ignore_index = ignored;
    options.loss = loss;
  } else if (spec.name == "mse") {
    options.loss = MeanSquaredErrorLoss();
  } else if (spec.name == "bce") {
    options.loss = BinaryCrossEntropyLoss();
  } else if (spec.name == "huber") {
    HuberLoss loss;
    spec.Number("delta", loss.delta);
    options.loss = loss;
  } else if (spec.name == "output") {
    options.loss = OutputLoss();
  } else {
    return spec.NoSuchName({"cross_entropy", "mse", "bce", "huber", "output"});
  }
  return spec.Done();
}

absl::Status SetOptimizer(absl::string_view text, TrainerOptions& options) {
  KILN_ASSIGN_OR_RETURN(Spec spec, Spec::Parse("optimizer", text));
  spec.Number("lr", options.schedule.lr);
  if (spec.name == "sgd") {
    Sgd o;
    spec.Number("momentum", o.momentum).Number("dampening", o.dampening);
    spec.Number("weight_decay", o.weight_decay).Flag("nesterov", o.nesterov);
    options.optimizer = o;
  } else if (spec.name == "adam") {
    Adam o;
    spec.Number("beta1", o.beta1).Number("beta2", o.beta2).Number("epsilon", o.epsilon);
    spec.Number("weight_decay", o.weight_decay);
    options.optimizer = o;
  } else if (spec.name == "adamw") {
    AdamW o;
    spec.Number("beta1", o.beta1).Number("beta2", o.beta2).Number("epsilon", o.epsilon);
    spec.Number("weight_decay", o.weight_decay);
    options.optimizer = o;
  } else if (spec.name == "adagrad") {
    Adagrad o;
    spec.Number("lr_decay", o.lr_decay).Number("weight_decay", o.weight_decay);
    spec.Number("epsilon", o.epsilon);
    options.optimizer = o;
  } else if (spec.name == "rmsprop") {
    RmsProp o;
    spec.Number("alpha", o.alpha).Number("epsilon", o.epsilon).Number("momentum", o.momentum);
    spec.Number("weight_decay", o.weight_decay).Flag("centered", o.centered);
    options.optimizer = o;
  } else if (spec.name == "lion") {
    Lion o;
    spec.Number("beta1", o.beta1).Number("beta2", o.beta2);
    spec.Number("weight_decay", o.weight_decay);
    options.optimizer = o;
  } else {
    return spec.NoSuchName({"sgd", "adam", "adamw", "adagrad", "rmsprop", "lion"});
  }
  return spec.Done();
}

absl::Status SetSchedule(absl::string_view text, TrainerOptions& options) {
  KILN_ASSIGN_OR_RETURN(Spec spec, Spec::Parse("schedule", text));
  LearningRateSchedule& schedule = options.schedule;
  spec.Whole("warmup", schedule.warmup).Number("warmup_start", schedule.warmup_start);
  if (spec.name == "constant") {
    schedule.decay = NoDecay();
  } else if (spec.name == "cosine") {
    CosineDecay decay;
    spec.Whole("steps", decay.steps).Number("lowest", decay.lowest);
    schedule.decay = decay;
  } else if (spec.name == "step") {
    StepDecay decay;
    spec.Whole("every", decay.every).Number("factor", decay.factor);
    schedule.decay = decay;
  } else if (spec.name == "exponential") {
    ExponentialDecay decay;
    spec.Number("factor", decay.factor);
    schedule.decay = decay;
  } else {
    return spec.NoSuchName({"constant", "cosine", "step", "exponential"});
  }
  return spec.Done();
}

}  // namespace kiln::training
