// SPDX-License-Identifier: Apache-2.0
// kiln train: trains a model on samples in files, with checkpoints from which it goes on.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/printable.h"
#include "base/publish_file.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "kiln/trainer.h"
#include "nlohmann/json.hpp"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/interrupts.h"
#include "tools/report.h"
#include "tools/train_data.h"
#include "tools/train_evaluate.h"
#include "tools/train_flags.h"
#include "tools/train_history.h"
#include "training/loss.h"

namespace kiln {
namespace {

constexpr char kHistoryKey[] = "kiln.train";
constexpr int64_t kPoints = 400;  // of the loss curve, about

std::vector<std::string> NamesOf(const std::vector<PortInfo>& ports) {
  std::vector<std::string> names;
  for (const PortInfo& port : ports) names.push_back(port.name);
  return names;
}

std::string TrainedText(const std::vector<std::string>& names, bool all) {
  constexpr size_t kMost = 4;
  std::string text = absl::StrCat("trains ", names.size(), " tensors: ");
  for (size_t k = 0; k < names.size() && (all || k < kMost); ++k)
    absl::StrAppend(&text, k == 0 ? "" : ", ", Printable(names[k]));
  if (!all && names.size() > kMost)
    absl::StrAppend(&text, " and ", names.size() - kMost, " more (-v lists them)");
  return text;
}

// One run of the verb.
class Run {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Run(const TrainFlags& flags) : flags_(flags) {}

  int operator()() {
    const absl::StatusOr<TrainerOptions> options = TrainerOptionsOf(flags_);
    if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
    absl::StatusOr<Trainer> trainer = Trainer::Create(flags_.model, *options);
    if (!trainer.ok()) return Fail(trainer.status(), ModelExit(trainer.status()));
    trainer_.emplace(*std::move(trainer));
    if (const auto* entropy = std::get_if<training::CrossEntropyLoss>(&options->loss))
      ignored_ = entropy->ignore_index;
    if (const absl::Status read = ReadData(); !read.ok()) return Fail(read, UsageExit(read));
    if (const absl::Status begun = Begin(); !begun.ok()) return Fail(begun, UsageExit(begun));
    Note(flags_.common, TrainedText(NamesOf(trainer_->parameters()), flags_.common.verbose));
    if (const int exit = Epochs(); exit != kExitOk) return exit;
    return Finish();
  }

 private:
  absl::Status ReadData() {
    const std::vector<PortInfo>& ports = trainer_->inputs();
    if (ports.empty()) return Invalid("the model has no inputs; there is nothing to train it on");
    KILN_ASSIGN_OR_RETURN(train_,
                          Samples::Read("--data", flags_.data, "--labels", flags_.labels, ports));
    if (!flags_.eval.empty()) {
      KILN_ASSIGN_OR_RETURN(
          eval_, Samples::Read("--eval", flags_.eval, "--eval-labels", flags_.eval_labels, ports));
    }
    const Shape& shape = ports[0].shape;
    fixed_ = shape.empty() ? std::nullopt : shape[0].constant();
    if (fixed_ && *fixed_ * flags_.micro_batches != flags_.batch)
      return Invalid("--batch ", flags_.batch, ": the model takes ", *fixed_, " samples at once; ",
                     "give --batch ", *fixed_ * flags_.micro_batches,
                     ", or export it with an open first dim");
    if (flags_.batch % flags_.micro_batches != 0)
      return Invalid("--batch ", flags_.batch, " does not divide by --micro-batches ",
                     flags_.micro_batches);
    // A last, smaller batch is left out where the model or micro-batches cannot have it.
    const int64_t rest = train_.size() % flags_.batch;
    const bool takes_rest = !fixed_ && rest % flags_.micro_batches == 0;
    batches_ = train_.size() / flags_.batch + (rest > 0 && takes_rest ? 1 : 0);
    if (batches_ == 0)
      return Invalid("--batch ", flags_.batch, ": there are ", train_.size(), " samples; give a ",
                     "smaller one");
    return absl::OkStatus();
  }

  // A new history, or that of the checkpoint.
  absl::Status Begin() {
    history_.data = {flags_.seed, train_.size(), flags_.batch};
    if (flags_.save_every > 0 && flags_.checkpoint.empty())
      return Invalid("--save-every: give --checkpoint FILE to save to");
    KILN_RETURN_IF_ERROR(CheckTrainFiles(flags_));
    if (!flags_.resume) return absl::OkStatus();
    if (flags_.checkpoint.empty()) return Invalid("--resume: give --checkpoint FILE to go on from");
    KILN_ASSIGN_OR_RETURN(auto metadata, trainer_->Load(flags_.checkpoint));
    KILN_ASSIGN_OR_RETURN(TrainHistory saved, ParseTrainHistory(metadata[kHistoryKey]));
    if (saved.data != history_.data)
      return Invalid("--resume: the checkpoint is of a run with --seed ", saved.data.seed,
                     ", --batch ", saved.data.batch, " and ", saved.data.samples,
                     " samples, this one has --seed ", flags_.seed, ", --batch ", flags_.batch,
                     " and ", train_.size(), "; give the same");
    history_ = std::move(saved);
    saved_ = true;
    Note(flags_.common, absl::StrCat("goes on after step ", trainer_->step()));
    return absl::OkStatus();
  }

  absl::Status Save() {
    if (flags_.checkpoint.empty()) return absl::OkStatus();
    KILN_RETURN_IF_ERROR(trainer_->Save(flags_.checkpoint, {{kHistoryKey, ToText(history_)}}));
    saved_ = true;
    return absl::OkStatus();
  }

  int Epochs() {
    const Interrupts interrupts;
    while (history_.epoch < flags_.epochs) {
      const std::vector<int64_t> order =
          Shuffled(train_.size(), flags_.seed, static_cast<uint64_t>(history_.epoch));
      while (history_.next < batches_) {
        if (const int exit = Step(order); exit != kExitOk) return exit;
        const int signal = interrupts.Come();
        const bool due = flags_.save_every > 0 && trainer_->step() % flags_.save_every == 0;
        if (signal == 0 && !due) continue;
        if (const absl::Status saved = Save(); !saved.ok()) return Fail(saved, kExitIo);
        if (signal == 0) continue;
        Note(flags_.common,
             flags_.checkpoint.empty()
                 ? absl::StrCat("interrupted after step ", trainer_->step())
                 : absl::StrCat("interrupted; --resume goes on after step ", trainer_->step()));
        interrupts.End(signal);
      }
      if (const int exit = EndEpoch(); exit != kExitOk) return exit;
    }
    return kExitOk;
  }

  int Step(const std::vector<int64_t>& order) {
    const Clock::time_point start = Clock::now();
    const int64_t begin = history_.next * flags_.batch;
    const int64_t end = std::min<int64_t>(begin + flags_.batch, train_.size());
    const absl::StatusOr<NamedTensors> batch = train_.Batch(order, begin, end);
    if (!batch.ok()) return Fail(batch.status(), ModelExit(batch.status()));
    const double lr = trainer_->learning_rate();
    const absl::StatusOr<double> loss = trainer_->Step(*batch);
    if (!loss.ok()) return Fail(loss.status(), UsageExit(loss.status()));
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (step_ms_.empty())
      first_loss_ms_ = std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
    step_ms_.push_back(ms);
    if (!std::isfinite(*loss)) {
      std::cerr << "kiln: the loss of step " << trainer_->step() << " is "
                << (std::isnan(*loss) ? "not a number" : "infinite")
                << "; lower the learning rate or clip gradients"
                << (saved_ ? "; the last checkpoint is from before" : "") << "\n";
      return kExitDiffers;
    }
    history_.lr = lr;
    ++history_.next;
    history_.sum += *loss;
    history_.point_sum += *loss;
    if (++history_.point_steps >= std::max<int64_t>(1, batches_ * flags_.epochs / kPoints)) {
      history_.points.push_back(
          {trainer_->step(), history_.point_sum / static_cast<double>(history_.point_steps)});
      history_.point_sum = 0;
      history_.point_steps = 0;
    }
    return kExitOk;
  }

  absl::Status Evaluate(TrainHistory::Epoch& epoch) {
    const EvaluatedSamples::Of of = {.batch = fixed_.value_or(flags_.batch),
                                     .whole_batches = fixed_.has_value(),
                                     .output = flags_.output_name,
                                     .labels = flags_.labels_name,
                                     .ignored = ignored_};
    KILN_ASSIGN_OR_RETURN(const EvaluatedSamples found, EvaluateSamples(*trainer_, *eval_, of));
    epoch.eval_loss = found.loss;
    epoch.accuracy = found.accuracy;
    return absl::OkStatus();
  }

  int EndEpoch() {
    TrainHistory::Epoch& epoch = history_.epochs.emplace_back();
    epoch.epoch = ++history_.epoch;
    epoch.loss = history_.sum / static_cast<double>(batches_);
    epoch.lr = history_.lr;
    history_.next = 0;
    history_.sum = 0;
    if (eval_) {
      if (const absl::Status done = Evaluate(epoch); !done.ok()) return Fail(done, UsageExit(done));
    }
    std::string line =
        absl::StrFormat("epoch %d/%d  loss %s", epoch.epoch, flags_.epochs, Short(epoch.loss));
    if (epoch.eval_loss) absl::StrAppend(&line, "  evaluation ", Short(*epoch.eval_loss));
    if (epoch.accuracy) absl::StrAppendFormat(&line, "  accuracy %.2f %%", 100 * *epoch.accuracy);
    absl::StrAppend(&line, "  lr ", Short(epoch.lr), "  ", Short(Median()), " ms a step");
    Note(flags_.common, line);
    if (const absl::Status saved = Save(); !saved.ok()) return Fail(saved, kExitIo);
    return kExitOk;
  }

  double Median() const {
    if (step_ms_.empty()) return 0;
    std::vector<double> sorted = step_ms_;
    std::nth_element(sorted.begin(),
                     sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
    return sorted[sorted.size() / 2];
  }

  int Finish() {
    if (!flags_.output.empty()) {
      if (const absl::Status done = trainer_->ExportOnnx(flags_.output); !done.ok())
        return Fail(done, absl::IsUnimplemented(done) ? kExitUnsupported : kExitIo);
    }
    if (!flags_.curve.empty()) {
      const absl::Status done = WriteFileDurably(flags_.curve, TrainPage(flags_.model, history_));
      if (!done.ok()) return Fail(done, kExitIo);
    }
    if (flags_.common.json) {
      nlohmann::json epochs = nlohmann::json::array();
      for (const TrainHistory::Epoch& epoch : history_.epochs) epochs.push_back(ToJson(epoch));
      PrintJson("train", flags_.common,
                {{"steps", trainer_->step()},
                 {"parameters", trainer_->parameters().size()},
                 {"trained", NamesOf(trainer_->parameters())},
                 {"epochs", std::move(epochs)},
                 {"first_loss_ms", first_loss_ms_},
                 {"step_ms", Median()}});
      return kExitOk;
    }
    std::cout << trainer_->step() << " steps";
    if (!history_.epochs.empty()) {
      const TrainHistory::Epoch& last = history_.epochs.back();
      std::cout << ", loss " << Short(last.loss);
      if (last.eval_loss) std::cout << ", evaluation " << Short(*last.eval_loss);
      if (last.accuracy) std::cout << absl::StrFormat(", accuracy %.2f %%", 100 * *last.accuracy);
    }
    std::cout << "\n";
    return kExitOk;
  }

  const TrainFlags& flags_;
  const Clock::time_point start_ = Clock::now();
  std::optional<Trainer> trainer_;
  Samples train_;
  std::optional<Samples> eval_;
  std::optional<int64_t> fixed_;    // samples that the model takes at once, where that is fixed
  std::optional<int64_t> ignored_;  // the label that does not count
  int64_t batches_ = 0;             // of an epoch
  TrainHistory history_;
  double first_loss_ms_ = 0;
  bool saved_ = false;  // there is a checkpoint
  std::vector<double> step_ms_;
};

}  // namespace

void AddTrain(Flags& command) {
  auto flags = std::make_shared<TrainFlags>();
  AddTrainFlags(command, *flags);
  command.Runs([flags] { return Run(*flags)(); });
}

}  // namespace kiln
