// SPDX-License-Identifier: Apache-2.0
// kiln train: trains a model on samples in files, with checkpoints from which it goes on.
#include <csignal>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file_system.h"
#include "base/printable.h"
#include "base/publish_file.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/tensors.h"
#include "graph/training/optimizer.h"
#include "kiln/trainer.h"
#include "nlohmann/json.hpp"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/report.h"
#include "tools/train_data.h"
#include "tools/train_history.h"
#include "training/loss.h"
#include "training/schedule.h"

namespace kiln {
namespace {

constexpr char kHistoryKey[] = "kiln.train";
constexpr int64_t kPoints = 400;  // of the loss curve, about

struct TrainFlags {
  CommonOptions common;
  std::string model, labels, eval_labels, loss = "cross_entropy", optimizer = "adam",
                                          schedule = "constant", precision = "f32";
  std::string output_name, labels_name = "labels", checkpoint, output, curve;
  std::vector<std::string> data, eval, parameters, frozen;
  int epochs = 1, batch = 32, micro_batches = 1, save_every = 0;
  uint64_t seed = 0;
  double clip_norm = 0, clip_value = 0;
  bool resume = false;
};

absl::StatusOr<TrainerOptions> OptionsOf(const TrainFlags& flags) {
  if (flags.common.device == "reference")
    return Invalid("device \"reference\": the interpreter does not train; use --device cpu");
  if (!flags.common.shapes.empty() || !flags.common.dims.empty())
    return Invalid("--shape, --dim: kiln train has shapes from its data; leave them out");
  if (flags.seed > UINT32_MAX)
    return Invalid("--seed ", flags.seed, ": a seed is from 0 to ", UINT32_MAX);
  TrainerOptions options;
  KILN_ASSIGN_OR_RETURN(options.compile, ToCompileOptions(flags.common));
  KILN_RETURN_IF_ERROR(training::SetLoss(flags.loss, options));
  KILN_RETURN_IF_ERROR(training::SetOptimizer(flags.optimizer, options));
  KILN_RETURN_IF_ERROR(training::SetSchedule(flags.schedule, options));
  KILN_RETURN_IF_ERROR(training::CheckLoss(options.loss));
  KILN_RETURN_IF_ERROR(training::CheckOptimizer(options.optimizer));
  KILN_RETURN_IF_ERROR(training::CheckSchedule(options.schedule));
  options.output = flags.output_name;
  options.labels = flags.labels_name;
  options.parameters = flags.parameters;
  options.frozen = flags.frozen;
  options.clip_norm = flags.clip_norm;
  options.clip_value = flags.clip_value;
  options.micro_batches = flags.micro_batches;
  options.seed = static_cast<uint32_t>(flags.seed);
  options.precision = *ParseDType(flags.precision);
  return options;
}

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

// That what is written can be, which is said before hours of training, and replaces nothing that is
// read; but a trained model may replace the model.
absl::Status CheckFiles(const TrainFlags& flags) {
  namespace fs = std::filesystem;
  if (!flags.output.empty() && !absl::EndsWith(flags.output, ".onnx"))
    return Invalid("--output ", flags.output,
                   ": the trained model is an ONNX file; give a name that ends in .onnx");
  std::error_code error;
  std::map<fs::path, std::string> used;
  const auto read = [&](const char* flag, const std::string& path) {
    used.emplace(fs::weakly_canonical(path, error), flag);
  };
  for (const std::string& spec : flags.data) read("--data", FileOf(spec));
  for (const std::string& spec : flags.eval) read("--eval", FileOf(spec));
  if (!flags.labels.empty()) read("--labels", flags.labels);
  if (!flags.eval_labels.empty()) read("--eval-labels", flags.eval_labels);
  const fs::path model = fs::weakly_canonical(flags.model, error);
  for (const auto& [flag, path] :
       {std::pair("--checkpoint", &flags.checkpoint), std::pair("--output", &flags.output),
        std::pair("--curve", &flags.curve)}) {
    if (path->empty()) continue;
    KILN_RETURN_IF_ERROR(CheckPublishable(RealFileSystem(), *path));
    KILN_ASSIGN_OR_RETURN(const std::string target, PathToReplace(*path));
    const fs::path file = fs::weakly_canonical(target, error);
    const auto [other, first] = used.emplace(file, flag);
    if (!first || (file == model && path != &flags.output))
      return Invalid(flag, " ", *path, ": ", first ? "the model" : other->second,
                     " is the same file; give another");
  }
  return absl::OkStatus();
}

// Ctrl-C and SIGTERM wait until a step has ended, and its checkpoint is written.
class Interrupts {
 public:
  Interrupts() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  // The signal that has come, or 0.
  int Come() const {
    const timespec at_once = {};
    return std::max(sigtimedwait(&signals_, nullptr, &at_once), 0);
  }
  // Ends the process as the signal does.
  [[noreturn]] void End(int signal) const {
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    raise(signal);
    _exit(128 + signal);
  }

 private:
  sigset_t signals_ = {}, before_ = {};
};

// How many labels the mean that a loss is counts.
int64_t Counted(const Tensor& labels, std::optional<int64_t> ignored) {
  if (!ignored) return labels.num_elements();
  int64_t count = 0;
  for (int64_t i = 0; i < labels.num_elements(); ++i) count += ReadInt(labels, i) != *ignored;
  return count;
}

// How many of them are the class whose output is largest, for outputs [n, classes].
std::optional<int64_t> Right(const Tensor& output, const Tensor& labels,
                             std::optional<int64_t> ignored) {
  if (output.rank() != 2 || labels.rank() != 1 || !IsInt(labels.dtype())) return std::nullopt;
  const int64_t n = output.shape()[0], classes = output.shape()[1];
  int64_t right = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t label = ReadInt(labels, i);
    if (label == ignored) continue;
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c) {
      if (ReadFloat(output, i * classes + c) > ReadFloat(output, i * classes + best)) best = c;
    }
    right += best == label;
  }
  return right;
}

// One run of the verb.
class Run {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Run(const TrainFlags& flags) : flags_(flags) {}

  int operator()() {
    const absl::StatusOr<TrainerOptions> options = OptionsOf(flags_);
    if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
    if (const auto* loss = std::get_if<training::CrossEntropyLoss>(&options->loss))
      ignored_ = loss->ignore_index;
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
    KILN_RETURN_IF_ERROR(CheckFiles(flags_));
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

  // Mean loss and accuracy over the data for evaluation: those of one batch of all.
  absl::Status Evaluate(TrainHistory::Epoch& epoch) {
    const int64_t batch = fixed_.value_or(flags_.batch), n = eval_->size();
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = i;
    const bool has_labels = trainer_->inputs().back().name == flags_.labels_name;
    int64_t samples = 0, count = 0;
    double loss = 0;
    std::optional<int64_t> right = has_labels ? std::optional<int64_t>(0) : std::nullopt;
    for (int64_t begin = 0; begin < n; begin += batch) {
      const int64_t end = std::min(begin + batch, n);
      if (fixed_ && end - begin < batch) break;
      KILN_ASSIGN_OR_RETURN(const NamedTensors some, eval_->Batch(order, begin, end));
      KILN_ASSIGN_OR_RETURN(const Evaluation found, trainer_->Evaluate(some));
      const Tensor& labels = some.back().second;
      const int64_t counted = has_labels ? Counted(labels, ignored_) : end - begin;
      samples += end - begin;
      count += counted;
      loss += found.loss * static_cast<double>(counted);
      const std::optional<int64_t> own = Right(found.outputs[OutputNumber()], labels, ignored_);
      if (right && own) {
        *right += *own;
      } else {
        right.reset();
      }
    }
    if (samples == 0)
      return Invalid("--eval: there are ", n, " samples; the model takes ", batch, " at once");
    if (count == 0) return Invalid("--eval: all labels are ignored; give some that count");
    epoch.eval_loss = loss / static_cast<double>(count);
    if (right) epoch.accuracy = static_cast<double>(*right) / static_cast<double>(count);
    return absl::OkStatus();
  }

  size_t OutputNumber() const {
    for (size_t k = 0; k < trainer_->outputs().size(); ++k) {
      if (trainer_->outputs()[k].name == flags_.output_name) return k;
    }
    return 0;
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

void AddDataFlags(Flags& command, TrainFlags& flags) {
  command
      .Option("--data", flags.data,
              "Samples: x.npy of the first input, NAME=x.npy, or D.npz of all (repeatable)")
      .Repeatable()
      .Required();
  command.Option("--labels", flags.labels, "Labels (.npy), unless an archive has them").File();
  command
      .Option("--eval", flags.eval, "Samples to evaluate after each epoch, as --data (repeatable)")
      .Repeatable();
  command.Option("--eval-labels", flags.eval_labels, "Their labels (.npy)").File();
  command.Option("--epochs", flags.epochs, "Times that all samples are gone through")
      .Range(1, 1'000'000)
      .ShowDefault();
  command.Option("--batch", flags.batch, "Samples of a step").Range(1, 1 << 30).ShowDefault();
  command
      .Option("--micro-batches", flags.micro_batches,
              "Parts of a batch that run one after the other; their gradients are added")
      .Range(1, 1 << 20)
      .ShowDefault();
  command.Option("--seed", flags.seed, "Of the order of samples, and of dropout")
      .NotNegative()
      .ShowDefault();
}

void AddTrainingFlags(Flags& command, TrainFlags& flags) {
  command
      .Option("--loss", flags.loss,
              "cross_entropy:smoothing=S,ignore=K,axis=-1, mse, bce, huber:delta=D, or output")
      .ShowDefault();
  command.Option("--loss-of", flags.output_name, "The output that the loss is of (the first)");
  command.Option("--labels-name", flags.labels_name, "What labels are called in an archive")
      .ShowDefault();
  command
      .Option("--optimizer", flags.optimizer,
              "sgd, adam, adamw, adagrad, rmsprop or lion, with options: adam:lr=1e-3,beta1=0.9")
      .ShowDefault();
  command
      .Option("--schedule", flags.schedule,
              "constant, cosine:steps=N,lowest=L, step:every=N,factor=F, exponential:factor=F; "
              "each with warmup=N,warmup_start=X")
      .ShowDefault();
  command
      .Option("--parameters", flags.parameters,
              "Patterns of names of what is trained (default: tensors that the model stores, but "
              "scalars)")
      .List();
  command.Option("--freeze", flags.frozen, "Patterns of names of what is not").List();
  command.Option("--clip-norm", flags.clip_norm, "Norm that all gradients together have at most")
      .NotNegative();
  command.Option("--clip-value", flags.clip_value, "Magnitude of an element of a gradient")
      .NotNegative();
  command.Option("--precision", flags.precision, "Of products: f32, bf16 or f16")
      .OneOf({"f32", "bf16", "f16"})
      .ShowDefault();
}

}  // namespace

void AddTrain(Flags& command) {
  auto flags = std::make_shared<TrainFlags>();
  flags->common.compile_mode = "background";
  command.Option("MODEL", flags->model, "ONNX file, or .graph text").File().Required();
  AddDataFlags(command, *flags);
  AddTrainingFlags(command, *flags);
  command
      .Option("--checkpoint", flags->checkpoint,
              "Write the state here after each epoch, and when interrupted")
      .File();
  command.Option("--save-every", flags->save_every, "And after so many steps")
      .Range(0, 1'000'000'000);
  command.Switch("--resume", flags->resume, "Go on from --checkpoint");
  command.Option("-o,--output", flags->output, "Write the trained model (.onnx)").File();
  command.Option("--curve", flags->curve, "Write the loss curve as a page (.html)").File();
  AddCommonFlags(command, flags->common);
  command.Runs([flags] { return Run(*flags)(); });
}

}  // namespace kiln
