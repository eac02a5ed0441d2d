// SPDX-License-Identifier: Apache-2.0
#include "tools/train_flags.h"

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "base/file_system.h"
#include "base/publish_file.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/training/optimizer.h"
#include "tools/train_data.h"
#include "training/loss.h"
#include "training/schedule.h"

namespace kiln {
namespace {

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

void AddTrainFlags(Flags& command, TrainFlags& flags) {
  flags.common.compile_mode = "background";
  command.Option("MODEL", flags.model, "ONNX file, or .graph text").File().Required();
  AddDataFlags(command, flags);
  AddTrainingFlags(command, flags);
  command
      .Option("--checkpoint", flags.checkpoint,
              "Write the state here after each epoch, and when interrupted")
      .File();
  command.Option("--save-every", flags.save_every, "And after so many steps")
      .Range(0, 1'000'000'000);
  command.Switch("--resume", flags.resume, "Go on from --checkpoint");
  command.Option("-o,--output", flags.output, "Write the trained model (.onnx)").File();
  command.Option("--curve", flags.curve, "Write the loss curve as a page (.html)").File();
  AddCommonFlags(command, flags.common);
}

absl::StatusOr<TrainerOptions> TrainerOptionsOf(const TrainFlags& flags) {
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

absl::Status CheckTrainFiles(const TrainFlags& flags) {
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

}  // namespace kiln
