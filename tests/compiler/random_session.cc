// SPDX-License-Identifier: Apache-2.0
#include "tests/compiler/random_session.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "graph/tensors.h"
#include "tests/compiler/on_vm.h"
#include "tests/fusion/typed_graph.h"

namespace kiln {
namespace {

// Fills what it gives, and what is given back.
class FillingAllocator : public Allocator {
 public:
  void* Allocate(size_t bytes, size_t alignment) override {
    void* const memory =
        std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory != nullptr) std::memset(memory, 0xa5, bytes);
    return memory;
  }
  void Free(void* memory, size_t bytes) override {
    std::memset(memory, 0x5a, bytes);
    std::free(memory);
  }
};

// The constants of a graph that nodes read, by name.
std::map<std::string, Tensor> ConstantsOf(const std::optional<Graph>& graph) {
  std::map<std::string, Tensor> constants;
  for (size_t v = 0; graph && v < graph->values().size(); ++v) {
    const Value& value = graph->values()[v];
    const bool read = !graph->UsersOf(ValueId{static_cast<int32_t>(v)}).empty();
    if (value.constant && value.producer.v < 0 && read)
      constants.emplace(value.name, *value.constant);
  }
  return constants;
}

// Other floats, or the same integers in another order: they may be places.
Tensor OtherValues(const Tensor& tensor, Draw& draw) {
  if (IsFloat(tensor.dtype())) return TypedNoise(tensor.dtype(), tensor.shape(), draw.bits());
  Tensor made = tensor.Clone();
  for (int64_t i = tensor.num_elements() - 1; i > 0; --i) {
    const int64_t j = draw.Below(i + 1), kept = ReadInt(made, i);
    WriteInt(made, i, ReadInt(made, j));
    WriteInt(made, j, kept);
  }
  return made;
}

class SessionMaker {
 public:
  SessionMaker(uint64_t seed, CompileMode mode, const std::string& directory,
               const std::string& device)
      : seed_(seed),
        mode_(mode),
        directory_(directory),
        device_(device),
        made_(std::make_unique<RandomSession>(seed)) {}

  absl::StatusOr<std::unique_ptr<RandomSession>> Make() {
    std::optional<SessionProgram> program = MakeSessionProgram(seed_, draw_);
    if (!program) return nullptr;
    s_.program = *std::move(program);
    constants_ = ConstantsOf(s_.program.graph);
    ChooseMeaning();
    absl::StatusOr<Model> reference = CompileReference();
    if (!reference.ok()) {  // these two are refused where they cannot be kept
      s_.options.updatable.clear();
      s_.options.batch_invariant = false;
      reference = CompileReference();
    }
    if (!reference.ok() && !s_.program.graph) return nullptr;
    if (!reference.ok()) return reference.status();
    KeepValidInputs(*reference);
    if (s_.program.input_sets.empty()) return nullptr;
    s_.references.push_back(*reference);
    KILN_RETURN_IF_ERROR(DrawUpdates());
    ChooseExecution();
    ChooseStates();
    KILN_RETURN_IF_ERROR(ChooseRuntime());
    return std::move(made_);
  }

 private:
  // Options that decide the bits, or what is refused: the references have them too.
  void ChooseMeaning() {
    CompileOptions& o = s_.options;
    o = OnVm();
    o.graph_opt_level = static_cast<int>(draw_.Below(4));
    o.jit_level = static_cast<int>(draw_.Below(3));
    o.threads = draw_.OneIn(2) ? 2 : 1;
    o.batch_invariant = draw_.OneIn(10);
    if (!draw_.OneIn(2)) return;
    for (const auto& [name, value] : constants_)
      if (draw_.OneIn(2)) o.updatable.push_back(name);
    std::shuffle(o.updatable.begin(), o.updatable.end(), draw_.bits());
  }

  absl::StatusOr<Model> CompileReference() const {
    if (s_.program.graph) return Compile(*s_.program.graph, s_.options);
    ModelBytes bytes{s_.program.text.data(), s_.program.text.size()};
    return Compile(bytes, s_.options);
  }

  // Drops the sets that the model refuses, and looks whether a run calls a library: those sum in an
  // order that goes with the number of threads.
  void KeepValidInputs(Model& model) {
    std::vector<std::vector<Tensor>> valid;
    for (const std::vector<Tensor>& set : s_.program.input_sets) {
      Context context = model.NewContext();
      bool bound = true;
      for (size_t i = 0; i < set.size(); ++i) bound = bound && context.Bind(i, set[i]).ok();
      if (!bound || !context.Run().ok()) continue;
      calls_library_ = calls_library_ || context.report().library_launches > 0;
      valid.push_back(set);
    }
    s_.program.input_sets = std::move(valid);
  }

  absl::Status DrawUpdates() {
    if (s_.options.updatable.empty()) return absl::OkStatus();
    std::map<std::string, Tensor> values;
    for (int64_t k = 1 + draw_.Below(4); k > 0; --k) {
      const std::string name = draw_.Of(s_.options.updatable);
      values[name] = OtherValues(constants_.at(name), draw_);
      s_.updates.emplace_back(name, values[name]);
      KILN_ASSIGN_OR_RETURN(Model next, CompileReference());
      for (const auto& [other, value] : values) KILN_RETURN_IF_ERROR(next.Update(other, value));
      s_.references.push_back(std::move(next));
    }
    return absl::OkStatus();
  }

  // Options that change no bit.
  void ChooseExecution() {
    CompileOptions& o = s_.options;
    o.compile_mode = mode_;
    if (mode_ != CompileMode::kNever || draw_.OneIn(2)) {
      o.cache.enabled = true;
      o.cache.directory = directory_;
    }
    if (!calls_library_ && draw_.OneIn(2)) o.threads = 1 + static_cast<int>(draw_.Below(3));
    if (draw_.OneIn(4))
      o.temporaries = draw_.Pick({Temporaries::kSeparate, Temporaries::kAllocated});
    if (draw_.OneIn(4)) o.output_memory = draw_.Pick({OutputMemory::kFresh, OutputMemory::kBound});
    o.check_first_run = draw_.OneIn(4);
    if (draw_.OneIn(6)) o.on_thunk = [](const ThunkView&) { return absl::OkStatus(); };
    if (draw_.OneIn(8)) {
      o.record_level = 1 + static_cast<int>(draw_.Below(2));
      s_.program.input_sets.resize(1);
    }
    if (draw_.OneIn(6)) o.shared_arena = NewSharedArena();
  }

  // Pairs of ports that go together, most of them of one shape.
  void ChooseStates() {
    if (!draw_.OneIn(3)) return;
    const Model& model = s_.references[0];
    std::vector<bool> used(model.outputs().size());
    for (size_t i = 0; i < model.inputs().size() && s_.states.size() < 3; ++i) {
      const PortInfo& input = model.inputs()[i];
      for (size_t k = 0; k < used.size(); ++k) {
        const PortInfo& output = model.outputs()[k];
        if (used[k] || !GoTogether(input, output) || !draw_.OneIn(2)) continue;
        if (input.shape != output.shape && !draw_.OneIn(4)) continue;
        used[k] = true;
        s_.states.push_back({i, k});
        s_.options.states.push_back({input.name, output.name});
        break;
      }
    }
  }
  bool GoTogether(const PortInfo& input, const PortInfo& output) const {
    if (output.any_rank || output.type != input.type) return false;
    if (output.shape.size() != input.shape.size()) return false;
    return IsFloat(input.type) || s_.program.kind == "typed";  // others are places
  }

  absl::Status ChooseRuntime() {
    s_.runtime.threads = s_.options.threads;
    if (!calls_library_) s_.runtime.device = device_;
    if (s_.runtime.device.empty() && !draw_.OneIn(2)) return absl::OkStatus();
    s_.runtime.allocator = std::make_shared<FillingAllocator>();
    if (draw_.OneIn(4)) s_.runtime.idle_budget = 1 + draw_.Below(10000);
    if (draw_.OneIn(8) && s_.states.empty()) {
      s_.runtime.memory_budget = 2000 + draw_.Below(30000);
      s_.has_budget = true;
    }
    KILN_ASSIGN_OR_RETURN(s_.options.runtime, Runtime::Create(s_.runtime));
    return absl::OkStatus();
  }

  const uint64_t seed_;
  const CompileMode mode_;
  const std::string directory_, device_;
  std::unique_ptr<RandomSession> made_;
  RandomSession& s_ = *made_;
  Draw& draw_ = s_.draw;
  std::map<std::string, Tensor> constants_;
  bool calls_library_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RandomSession>> MakeRandomSession(uint64_t seed, CompileMode mode,
                                                                 const std::string& directory,
                                                                 const std::string& device) {
  return SessionMaker(seed, mode, directory, device).Make();
}

absl::Status Restart(RandomSession& session) {
  session.options.runtime = nullptr;
  if (session.options.shared_arena != nullptr) session.options.shared_arena = NewSharedArena();
  KILN_ASSIGN_OR_RETURN(session.options.runtime, Runtime::Create(session.runtime));
  return absl::OkStatus();
}

std::string ToString(const RandomSession& session) {
  const CompileOptions& o = session.options;
  std::vector<std::string> states;
  for (const StateBuffer& state : o.states)
    states.push_back(absl::StrCat(state.output, " -> ", state.input));
  return absl::StrCat(
      "kind ", session.program.kind, ", -O", o.graph_opt_level, ", jit ", o.jit_level, ", threads ",
      o.threads, ", cache ", o.cache.enabled, ", temporaries ", static_cast<int>(o.temporaries),
      ", output memory ", static_cast<int>(o.output_memory), ", checked ", o.check_first_run,
      ", record level ", o.record_level, ", batch invariant ", o.batch_invariant, ", thunks ",
      o.on_thunk != nullptr, ", shared arena ", o.shared_arena != nullptr, ", runtime ",
      o.runtime != nullptr, ", device \"", session.runtime.device, "\"", ", budget ",
      session.runtime.memory_budget, ", idle ", session.runtime.idle_budget, ", states {",
      absl::StrJoin(states, ", "), "}, updatable {", absl::StrJoin(o.updatable, ", "), "}\n",
      session.program.graph ? session.program.text : std::string("(an ONNX model)\n"));
}

}  // namespace kiln
