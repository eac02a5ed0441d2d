// SPDX-License-Identifier: Apache-2.0
// Trainer: trains the parameters of a model, step by step.
//
//   kiln::TrainerOptions options;
//   options.loss = kiln::training::CrossEntropyLoss();
//   options.optimizer = kiln::training::AdamW();
//   options.schedule = {.lr = 3e-4, .warmup = 100};
//   absl::StatusOr<kiln::Trainer> trainer = kiln::Trainer::Create("net.onnx", options);
//   for (...) {
//     absl::StatusOr<double> loss = trainer->Step({{"x", images}, {"labels", labels}});
//     ...
//   }
//   absl::StatusOr<kiln::Evaluation> test = trainer->Evaluate({{"x", ...}, {"labels", ...}});
//   trainer->Save("run.safetensors");            // and Load: goes on with the same bits
//   trainer->ExportOnnx("trained.onnx");
//
// A model is what Compile takes, in its form for inference or for training. While it is trained,
// batch norms normalise by the batch at hand and keep running means and variances, and dropout
// drops; Evaluate, Run and ExportOnnx use the running ones and drop nothing. (A model that itself
// reads what an ONNX node in training mode makes of them normalises by the batch always.) The same
// model, data, options and checkpoints give the same bits for any number of threads, interrupted or
// not, where no library operator is called; those have their bits for one number of threads and
// kind of CPU.
//
// Steps begin at once, on the VM, while kernels are compiled beside it (CompileMode::kBackground,
// the default of TrainerOptions::compile). Learning rates are an input of the compiled program.
#ifndef KILN_TRAINER_H_
#define KILN_TRAINER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/compile.h"
#include "kiln/graph.h"
#include "kiln/model.h"
#include "kiln/options.h"
#include "kiln/status.h"
#include "kiln/tensor.h"
#include "kiln/training.h"

namespace kiln {

// ---- Losses: what one output of the model has to do with the labels. All are means.
namespace training {

// -log softmax(output)[label]. The output is [N, C, ...], labels are integers of shape [N, ...];
// with `class_axis` -1 they are [..., C] and [...]. An output that is a softmax over the classes
// already is taken for what goes into it. Places labelled `ignore_index` do not count; of a batch,
// or a part of one, that has no others, loss and gradients are 0 (torch: NaN).
struct CrossEntropyLoss {
  double label_smoothing = 0;  // the label's share that goes to all classes evenly: [0, 1)
  std::optional<int64_t> ignore_index = {};
  int64_t class_axis = 1;  // 1 or -1
};
// (output - label)^2
struct MeanSquaredErrorLoss {};
// -(y log(s) + (1 - y) log(1 - s)), s = sigmoid(output), labels y of [0, 1] of the output's shape.
// An output that is a sigmoid already is taken for what goes into it.
struct BinaryCrossEntropyLoss {};
// d^2 / 2 up to |d| = delta, then delta (|d| - delta / 2), d = output - label.
struct HuberLoss {
  double delta = 1;
};
// The output itself, a float of one element. There are no labels.
struct OutputLoss {};

using Loss = std::variant<CrossEntropyLoss, MeanSquaredErrorLoss, BinaryCrossEntropyLoss, HuberLoss,
                          OutputLoss>;

}  // namespace training

struct TrainerOptions {
  TrainerOptions() { compile.compile_mode = CompileMode::kBackground; }

  training::Loss loss = training::CrossEntropyLoss();
  std::string output;             // of the model, that the loss is of; empty: its first
  std::string labels = "labels";  // what labels are called among the inputs of a step
  training::Optimizer optimizer = training::Adam();
  training::LearningRateSchedule schedule;
  // Patterns of names ("encoder.*", "?" for one character) of constants of floats that are trained.
  // Empty: all that the loss depends on, are of one dim at least and have finite elements; of an
  // ONNX file its initialisers. Scalars, and what Constant nodes say (masks), are trained where a
  // pattern names them. `frozen` ones are not, whatever else names them.
  std::vector<std::string> parameters, frozen;
  double clip_norm = 0;   // of all gradients together, as torch's clip_grad_norm_; 0: none
  double clip_value = 0;  // each element of a gradient is kept within [-v, v] first; 0: none
  // Of products (matmul, gemm, conv) and of those of their gradients: kF32, or kBF16 or kF16 with
  // parameters, moments and sums in f32. For kF16 the loss is scaled so that gradients do not
  // vanish: a step with one that is not finite changes no parameter and halves the scale, which
  // grows twofold after 2000 steps without; it stays within 2^-64 and 2^64. It goes on from a
  // checkpoint of kF16, and begins anew from others.
  DType precision = DType::kF32;
  double loss_scale = 65536;
  // A step's batch is cut along its first dim into so many parts of equal size, one after the
  // other; the gradients of their losses are added in that order, and the mean is applied. Only
  // inputs are cut whose first dim is that of the model's first input.
  int micro_batches = 1;
  // What running means and variances keep of their own: r = momentum r + (1 - momentum) batch.
  // Variances are those of the batch, without Bessel's correction, as ONNX has it.
  double batch_norm_momentum = 0.9;
  uint32_t seed = 0;       // of dropout and other random operators, which draw anew in each step
  CompileOptions compile;  // `states`, `updatable` and `const_shapes` stay empty
};

namespace training {

// Options as text, as `kiln train` and Python have them: a name, and options where there are some.
// They replace what `options` has. kInvalidArgument says what there is.
//   "cross_entropy:smoothing=0.1,ignore=-100,axis=-1", "mse", "bce", "huber:delta=1", "output"
//   "sgd:lr=0.1,momentum=0.9", "adam", "adamw:lr=3e-4,weight_decay=0.1", "adagrad", "rmsprop",
//   "lion": `lr` is that of the schedule
//   "constant", "cosine:steps=10000,lowest=0", "step:every=30,factor=0.1",
//   "exponential:factor=0.99", each with warmup=N and warmup_start=S; `steps` and `every` have no
//   default: a trainer refuses the schedule without them
KILN_API absl::Status SetLoss(absl::string_view text, TrainerOptions& options);
KILN_API absl::Status SetOptimizer(absl::string_view text, TrainerOptions& options);
KILN_API absl::Status SetSchedule(absl::string_view text, TrainerOptions& options);

}  // namespace training

struct Evaluation {
  double loss = 0;
  std::vector<Tensor> outputs;  // of the model, in their order
};

// One caller at a time, which may be another thread each time. Moving is cheap. After an error that
// a step or Load gave, the trainer is as before, unless the message says otherwise.
class KILN_API Trainer {
 public:
  // kInvalidArgument: the model or an option is wrong, or nothing is to be trained. kUnimplemented:
  // an operator that is not supported, or has no gradient. Compiles a step.
  static absl::StatusOr<Trainer> Create(absl::string_view path, const TrainerOptions& options);
  static absl::StatusOr<Trainer> Create(const ModelBytes& bytes, const TrainerOptions& options);
  static absl::StatusOr<Trainer> Create(GraphBuilder graph, const TrainerOptions& options);
  // Inside Kiln.
  static absl::StatusOr<Trainer> Create(Graph graph, const TrainerOptions& options);

  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;
  ~Trainer();

  // The inputs of a step: the model's, and labels where the loss has them. Labels may be integers
  // of any type for a loss of classes, and numbers of any type for the others.
  const std::vector<PortInfo>& inputs() const;
  const std::vector<PortInfo>& outputs() const;     // of the model
  const std::vector<PortInfo>& parameters() const;  // that are trained
  const std::vector<PortInfo>& statistics() const;  // running means and variances
  int64_t step() const;                             // updates so far; one that was left out counts

  // One update by this batch, and the loss before it. kInvalidArgument: an input is missing, has
  // another type or shape, or a label is none. Dense tensors of the CPU are read where they are.
  absl::StatusOr<double> Step(const NamedTensors& inputs);
  // The loss, and the outputs, of the model in its form for inference and in f32.
  absl::StatusOr<Evaluation> Evaluate(const NamedTensors& inputs);
  // The outputs alone; there are no labels. The first call compiles, as that of Evaluate.
  absl::StatusOr<std::vector<Tensor>> Run(const NamedTensors& inputs);

  // The learning rate of the next step; or another schedule, whose steps count from the first of
  // the trainer. kInvalidArgument: one of its numbers is out of range; nothing has changed.
  double learning_rate() const;
  absl::Status SetSchedule(const training::LearningRateSchedule& schedule);

  // A copy of a parameter or statistic, by its name in the model; and the other way. kNotFound,
  // kInvalidArgument: another type or shape. Moments stay as they are.
  absl::StatusOr<Tensor> Parameter(absl::string_view name) const;
  absl::Status SetParameter(absl::string_view name, const Tensor& value);

  // Everything that later steps depend on but options and data, in a safetensors file: parameters
  // and statistics by their names; moments, counts and the loss scale under "kiln/". A process that
  // is killed meanwhile leaves the file that was there; where `path` is a symbolic link, the file
  // that it leads to is written. One writer of a path at a time.
  absl::Status Save(absl::string_view path,
                    const std::map<std::string, std::string>& metadata = {}) const;
  // The other way; gives the metadata. The file is untrusted. kDataLoss: it is damaged;
  // kInvalidArgument: it is not of this model and optimizer.
  absl::StatusOr<std::map<std::string, std::string>> Load(absl::string_view path);

  // The model in its form for inference with the parameters as they are, as an ONNX file
  // (operator set 20), written as Save writes. kUnimplemented: an operator has no form in ONNX.
  absl::Status ExportOnnx(absl::string_view path) const;

 private:
  struct KILN_INSIDE Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln

#endif  // KILN_TRAINER_H_
