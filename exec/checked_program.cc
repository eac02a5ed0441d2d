// SPDX-License-Identifier: Apache-2.0
#include "exec/checked_program.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/library/post_ops.h"
#include "exec/support/device.h"
#include "kernel/text.h"

namespace kiln {
namespace {

constexpr size_t kMaxRank = 16;  // correctness

template <typename... T>
absl::Status Refused(const T&... text) {
  return absl::UnimplementedError(absl::StrCat(text...));
}

absl::StatusOr<DType> CheckType(uint32_t type) {
  if (type < static_cast<uint32_t>(kNumDTypes)) return static_cast<DType>(type);
  return Invalid("element type ", type, " is unknown");
}

template <typename Strings>
absl::StatusOr<Shape> CheckDims(const Strings& texts) {
  Shape shape;
  for (const std::string& text : texts) {
    KILN_ASSIGN_OR_RETURN(Dim dim, Dim::Parse(text));
    shape.push_back(std::move(dim));
  }
  return shape;
}

template <typename Strings>
absl::StatusOr<Shape> CheckShape(const Strings& texts) {
  if (static_cast<size_t>(texts.size()) > kMaxRank) {
    return Invalid("rank ", texts.size(), " exceeds ", kMaxRank);
  }
  return CheckDims(texts);
}

Dim PortBytes(DType type, const Shape& shape) {
  return Product(shape) * Dim(static_cast<int64_t>(SizeOf(type)));
}

class Checker {
 public:
  explicit Checker(std::shared_ptr<const Variant> variant)
      : made_(std::make_shared<CheckedProgram>()), p_(variant->program) {
    made_->variant = std::move(variant);
  }

  absl::StatusOr<std::shared_ptr<const CheckedProgram>> Check() {
    KILN_RETURN_IF_ERROR(CheckPorts());
    KILN_RETURN_IF_ERROR(CheckConstants());
    for (int i = 0; i < p_.buffers_size(); ++i) {
      KILN_RETURN_IF_ERROR(
          Annotate(CheckBuffer(p_.buffers(i), i), absl::StrCat("program: buffer ", i)));
    }
    KILN_RETURN_IF_ERROR(CheckKernels());
    if (p_.regions_size() != 1) {
      return Refused("program: ", p_.regions_size(), " regions; one is supported");
    }
    const program::Region& region = p_.regions(0);
    for (int i = 0; i < region.thunks_size(); ++i) {
      const program::Thunk& thunk = region.thunks(i);
      KILN_RETURN_IF_ERROR(Annotate(CheckThunk(thunk),
                                    absl::StrCat("program: thunk ", i, " \"", thunk.name(), "\"")));
    }
    for (const program::SubRange& range : p_.sub_ranges())
      KILN_RETURN_IF_ERROR(Annotate(CheckSubRange(range), "program"));
    AddOutputViews();
    return std::shared_ptr<const CheckedProgram>(std::move(made_));
  }

 private:
  absl::StatusOr<CheckedPort> CheckPort(const program::Port& port) {
    CheckedPort made;
    made.name = port.name();
    made.buffer = port.buffer();
    made.optional = port.optional();
    KILN_ASSIGN_OR_RETURN(made.type, CheckType(port.dtype()));
    KILN_ASSIGN_OR_RETURN(made.shape, CheckShape(port.shape()));
    KILN_ASSIGN_OR_RETURN(made.elements, CheckDims(port.elements()));
    if (!made.elements.empty() && !IsInt(made.type) && made.type != DType::kBool)
      return Invalid("elements of type ", Name(made.type), " are no integers or booleans");
    if (made.buffer < -1 || made.buffer >= p_.buffers_size())
      return Invalid("buffer ", made.buffer, " does not exist");
    return made;
  }

  absl::Status CheckPorts() {
    for (const program::Port& port : p_.inputs()) {
      auto made = CheckPort(port);
      if (!made.ok())
        return Annotate(made.status(), absl::StrCat("program: input \"", port.name(), "\""));
      made_->inputs.push_back(*std::move(made));
    }
    for (const program::Port& port : p_.outputs()) {
      auto made = CheckPort(port);
      if (made.ok() && made->buffer < 0) made = Invalid("no buffer");
      if (!made.ok())
        return Annotate(made.status(), absl::StrCat("program: output \"", port.name(), "\""));
      made_->outputs.push_back(*std::move(made));
    }
    return absl::OkStatus();
  }

  absl::Status CheckConstants() {
    const std::vector<Tensor>& constants = made_->variant->constants;
    if (constants.size() != static_cast<size_t>(p_.constants_size())) {
      return Invalid("program: ", p_.constants_size(), " constants declared, ", constants.size(),
                     " supplied");
    }
    for (size_t i = 0; i < constants.size(); ++i) {
      const Tensor& c = constants[i];
      const bool usable =
          c.device() == Device() && c.is_dense() && (c.data() != nullptr || c.size_bytes() == 0);
      if (!usable) return Invalid("program: constant ", i, " is not dense memory of the CPU");
      const program::Constant& declared = p_.constants(static_cast<int>(i));
      if (declared.dtype() != static_cast<uint32_t>(c.dtype()) ||
          !std::equal(declared.shape().begin(), declared.shape().end(), c.shape().begin(),
                      c.shape().end())) {
        return Invalid("program: constant ", i, " is declared as type ", declared.dtype(), " [",
                       absl::StrJoin(declared.shape(), ", "), "]; ", Name(c.dtype()), " [",
                       absl::StrJoin(c.shape(), ", "), "] is supplied");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckDevice(const CheckedBuffer& buffer) {
    if (OnHost(buffer.device)) return absl::OkStatus();
    if (buffer.kind == program::Buffer::INPUT || buffer.kind == program::Buffer::OUTPUT)
      return Invalid("a port on device \"", Name(buffer.device), "\"");
    if (!OnHost(made_->other) && made_->other != buffer.device)
      return Refused("devices \"", Name(made_->other), "\" and \"", Name(buffer.device),
                     "\" in one program");
    made_->other = buffer.device;
    return absl::OkStatus();
  }

  // Where a thunk runs, from its operands.
  absl::Status PlaceThunk(CheckedThunk& thunk) const {
    using Kind = CheckedThunk::Kind;
    bool host = false, device = false, strided = false;
    for (const auto* refs : {&thunk.inputs, &thunk.outputs}) {
      for (const CheckedRef& ref : *refs) {
        if (ref.buffer < 0) continue;
        const DeviceKind on = made_->buffers[static_cast<size_t>(ref.buffer)].device;
        (OnHost(on) ? host : device) = true;
        strided = strided || !ref.strides.empty();
        if (!OnHost(on)) thunk.device = on;
      }
    }
    if (!device) return absl::OkStatus();
    const auto on = Name(thunk.device);
    if (thunk.kind == Kind::kHostDims)
      return Refused("has operands on device \"", on, "\", which only the host writes");
    if (thunk.kind == Kind::kCopy)
      return strided ? Refused("copies with strides on device \"", on, "\"") : absl::OkStatus();
    if (host) return Invalid("has operands on the host and on device \"", on, "\"");
    return absl::OkStatus();
  }

  absl::Status CheckBuffer(const program::Buffer& buffer, int32_t i) {
    CheckedBuffer made;
    made.kind = buffer.kind();
    made.index = buffer.index();
    made.name = buffer.name();
    if (!buffer.device().empty()) {
      const std::optional<DeviceKind> device = ParseDevice(buffer.device());
      if (!device) return Refused("device \"", buffer.device(), "\" is unknown");
      made.device = *device;
      KILN_RETURN_IF_ERROR(CheckDevice(made));
    }
    KILN_ASSIGN_OR_RETURN(const Dim declared,
                          buffer.bytes().empty() ? Dim() : Dim::Parse(buffer.bytes()));
    const auto port = [&](const std::vector<CheckedPort>& ports) -> absl::Status {
      if (made.index < 0 || static_cast<size_t>(made.index) >= ports.size()) {
        return Invalid("port ", made.index, " does not exist");
      }
      const CheckedPort& p = ports[static_cast<size_t>(made.index)];
      if (p.buffer != i) return Invalid("port \"", p.name, "\" names buffer ", p.buffer);
      made.bytes = PortBytes(p.type, p.shape);
      return absl::OkStatus();
    };
    switch (made.kind) {
      case program::Buffer::TEMPORARY:
        made.bytes = declared;
        break;
      case program::Buffer::INPUT:
        KILN_RETURN_IF_ERROR(port(made_->inputs));
        break;
      case program::Buffer::OUTPUT:
        KILN_RETURN_IF_ERROR(port(made_->outputs));
        break;
      case program::Buffer::CONSTANT: {
        const std::vector<Tensor>& constants = made_->variant->constants;
        if (made.index < 0 || static_cast<size_t>(made.index) >= constants.size()) {
          return Invalid("constant ", made.index, " does not exist");
        }
        made.bytes = Dim(constants[static_cast<size_t>(made.index)].size_bytes());
        break;
      }
      default:
        return Invalid("kind ", static_cast<int>(made.kind), " is unknown");
    }
    made_->buffers.push_back(std::move(made));
    return absl::OkStatus();
  }

  absl::Status CheckKernels() {
    const auto& supplied = made_->variant->kernels;
    if (supplied.size() != static_cast<size_t>(p_.kernels_size())) {
      return Invalid("program: ", p_.kernels_size(), " kernels declared, ", supplied.size(),
                     " supplied");
    }
    for (int i = 0; i < p_.kernels_size(); ++i) {
      const program::KernelDef& def = p_.kernels(i);
      const std::string subject = absl::StrCat("program: kernel ", i, " \"", def.name(), "\"");
      absl::StatusOr<Kernel> kernel = ParseKernel(def.text());
      if (!kernel.ok()) return Annotate(kernel.status(), subject);
      const auto& handles = supplied[static_cast<size_t>(i)];
      if (handles.size() != static_cast<size_t>(def.choices_size())) {
        return Invalid(subject, ": ", def.choices_size(), " choices declared, ", handles.size(),
                       " supplied");
      }
      for (int j = 0; j < def.choices_size(); ++j) {
        const program::KernelChoice& choice = def.choices(j);
        if (handles[static_cast<size_t>(j)] == nullptr)
          return Invalid(subject, ": choice ", j, " has no handle");
        if (static_cast<size_t>(choice.at_most_size()) > kernel->dims.size()) {
          return Invalid(subject, ": choice ", j, " bounds ", choice.at_most_size(), " dims of ",
                         kernel->dims.size());
        }
        KILN_RETURN_IF_ERROR(Annotate(CheckInPlace(*kernel, choice), subject));
      }
      made_->kernels.push_back(*std::move(kernel));
    }
    return absl::OkStatus();
  }

  static absl::Status CheckInPlace(const Kernel& kernel, const program::KernelChoice& choice) {
    if (choice.in_place_size() % 2 != 0)
      return Invalid("in-place pairs have an odd number of ends");
    for (int i = 0; i < choice.in_place_size(); i += 2) {
      const int32_t in = choice.in_place(i), out = choice.in_place(i + 1);
      const bool exists = in >= 0 && static_cast<size_t>(in) < kernel.inputs.size() && out >= 0 &&
                          static_cast<size_t>(out) < kernel.outputs.size();
      if (!exists) return Invalid("in-place pair ", in, ", ", out, " does not exist");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<CheckedRef> CheckRef(const program::TensorRef& ref, bool optional = false) {
    CheckedRef made;
    made.buffer = ref.buffer();
    if (optional && made.buffer == -1) return made;
    if (made.buffer < 0 || made.buffer >= p_.buffers_size())
      return Invalid("buffer ", made.buffer, " does not exist");
    KILN_ASSIGN_OR_RETURN(made.type, CheckType(ref.dtype()));
    KILN_ASSIGN_OR_RETURN(made.shape, CheckShape(ref.shape()));
    KILN_ASSIGN_OR_RETURN(made.strides, CheckShape(ref.strides()));
    if (!ref.offset().empty()) {
      KILN_ASSIGN_OR_RETURN(made.offset, Dim::Parse(ref.offset()));
    }
    if (!made.strides.empty() && made.strides.size() != made.shape.size()) {
      return Invalid("buffer ", made.buffer, " is read with ", made.strides.size(),
                     " strides for rank ", made.shape.size());
    }
    return made;
  }

  template <typename Refs>
  absl::StatusOr<std::vector<CheckedRef>> CheckRefs(const Refs& refs, bool optional = false) {
    std::vector<CheckedRef> made;
    for (const program::TensorRef& ref : refs) {
      KILN_ASSIGN_OR_RETURN(CheckedRef one, CheckRef(ref, optional));
      made.push_back(std::move(one));
    }
    return made;
  }

  absl::Status CheckThunk(const program::Thunk& thunk) {
    CheckedThunk made;
    made.name = thunk.name();
    switch (thunk.kind_case()) {
      case program::Thunk::kKernel:
        KILN_RETURN_IF_ERROR(CheckKernelThunk(thunk.kernel(), made));
        break;
      case program::Thunk::kLibrary:
        KILN_RETURN_IF_ERROR(CheckLibraryThunk(thunk.library(), made));
        break;
      case program::Thunk::kView:
        KILN_RETURN_IF_ERROR(CheckView(thunk.view(), made));
        break;
      case program::Thunk::kCopy: {
        made.kind = CheckedThunk::Kind::kCopy;
        KILN_RETURN_IF_ERROR(CheckFromTo(thunk.copy().from(), thunk.copy().to(), made));
        const CheckedRef &from = made.inputs[0], &to = made.outputs[0];
        if (from.type != to.type || from.shape.size() != to.shape.size()) {
          return Invalid("copies ", Name(from.type), " ", ToString(from.shape), " to ",
                         Name(to.type), " ", ToString(to.shape));
        }
        break;
      }
      case program::Thunk::kHost:
        KILN_RETURN_IF_ERROR(CheckHost(thunk.host(), made));
        break;
      case program::Thunk::KIND_NOT_SET:
        return Invalid("no kind");
    }
    KILN_RETURN_IF_ERROR(PlaceThunk(made));
    made_->thunks.push_back(std::move(made));
    return absl::OkStatus();
  }

  absl::Status CheckOperands(const std::vector<CheckedRef>& refs, size_t count,
                             absl::string_view what) {
    if (refs.size() == count) return absl::OkStatus();
    return Invalid(refs.size(), " ", what, "; the kernel has ", count);
  }

  absl::Status CheckKernelThunk(const program::KernelThunk& thunk, CheckedThunk& made) {
    made.kind = CheckedThunk::Kind::kKernel;
    made.kernel = thunk.kernel();
    if (made.kernel < 0 || static_cast<size_t>(made.kernel) >= made_->kernels.size()) {
      return Invalid("kernel ", made.kernel, " does not exist");
    }
    const Kernel& kernel = made_->kernels[static_cast<size_t>(made.kernel)];
    KILN_ASSIGN_OR_RETURN(made.inputs, CheckRefs(thunk.inputs()));
    KILN_ASSIGN_OR_RETURN(made.outputs, CheckRefs(thunk.outputs()));
    KILN_ASSIGN_OR_RETURN(made.dims, CheckDims(thunk.dims()));
    KILN_RETURN_IF_ERROR(CheckOperands(made.inputs, kernel.inputs.size(), "inputs"));
    KILN_RETURN_IF_ERROR(CheckOperands(made.outputs, kernel.outputs.size(), "outputs"));
    if (made.dims.size() != kernel.dims.size()) {
      return Invalid(made.dims.size(), " dims; the kernel has ", kernel.dims.size());
    }
    const auto agrees = [](const CheckedRef& ref, const auto& operand) {
      return ref.type == operand.type && ref.shape.size() == operand.dims.size();
    };
    for (size_t i = 0; i < made.inputs.size(); ++i) {
      if (!agrees(made.inputs[i], kernel.inputs[i]))
        return Invalid("input ", i, " is not the kernel's type and rank");
    }
    for (size_t i = 0; i < made.outputs.size(); ++i) {
      if (!agrees(made.outputs[i], kernel.outputs[i]))
        return Invalid("output ", i, " is not the kernel's type and rank");
    }
    if (static_cast<size_t>(thunk.params_size()) != kernel.params.size()) {
      return Invalid(thunk.params_size(), " params; the kernel has ", kernel.params.size());
    }
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      const std::string& bytes = thunk.params(static_cast<int>(i));
      if (bytes.size() != SizeOf(kernel.params[i])) {
        return Invalid("param ", i, " has ", bytes.size(), " bytes; ", Name(kernel.params[i]),
                       " has ", SizeOf(kernel.params[i]));
      }
      uint64_t value = 0;
      std::memcpy(&value, bytes.data(), bytes.size());
      made.params.push_back(value);
    }
    return absl::OkStatus();
  }

  absl::Status CheckLibraryThunk(const program::LibraryThunk& thunk, CheckedThunk& made) {
    made.kind = CheckedThunk::Kind::kLibrary;
    made.op = library::Find(thunk.op());
    if (made.op == nullptr) return Refused("library operator \"", thunk.op(), "\" is unknown");
    for (const program::Attribute& attribute : thunk.attributes())
      made.attributes[attribute.name()].assign(attribute.ints().begin(), attribute.ints().end());
    for (const program::PostOp& op : thunk.post_ops())
      made.post_ops.push_back({op.name(), {op.numbers().begin(), op.numbers().end()}});
    KILN_ASSIGN_OR_RETURN(made.inputs, CheckRefs(thunk.inputs(), /*optional=*/true));
    KILN_ASSIGN_OR_RETURN(made.outputs, CheckRefs(thunk.outputs()));
    const size_t operands = library::CountOperands(made.post_ops);
    const size_t inputs = made.inputs.size() - std::min(made.inputs.size(), operands);
    if (inputs < static_cast<size_t>(made.op->min_inputs) ||
        inputs > static_cast<size_t>(made.op->max_inputs) ||
        made.outputs.size() != static_cast<size_t>(made.op->outputs)) {
      return Invalid(thunk.op(), " with ", inputs, " inputs and ", made.outputs.size(),
                     " outputs; it has ", made.op->min_inputs, " to ", made.op->max_inputs, " and ",
                     made.op->outputs);
    }
    return absl::OkStatus();
  }

  absl::Status CheckFromTo(const program::TensorRef& from, const program::TensorRef& to,
                           CheckedThunk& made) {
    KILN_ASSIGN_OR_RETURN(CheckedRef checked_from, CheckRef(from));
    KILN_ASSIGN_OR_RETURN(CheckedRef checked_to, CheckRef(to));
    made.inputs.push_back(std::move(checked_from));
    made.outputs.push_back(std::move(checked_to));
    return absl::OkStatus();
  }

  absl::Status CheckView(const program::ViewThunk& thunk, CheckedThunk& made) {
    made.kind = CheckedThunk::Kind::kView;
    KILN_RETURN_IF_ERROR(CheckFromTo(thunk.from(), thunk.to(), made));
    if (!made.outputs[0].offset.IsConst(0))
      return Invalid("a view must begin at its buffer's first byte");
    return absl::OkStatus();
  }

  absl::Status CheckHost(const program::HostThunk& thunk, CheckedThunk& made) {
    made.kind = CheckedThunk::Kind::kHostDims;
    if (thunk.op() != "dims") return Refused("host operator \"", thunk.op(), "\" is unknown");
    if (thunk.outputs_size() != 1)
      return Invalid("dims has ", thunk.outputs_size(), " outputs, expected 1");
    KILN_ASSIGN_OR_RETURN(made.outputs, CheckRefs(thunk.outputs()));
    KILN_ASSIGN_OR_RETURN(made.dims, CheckDims(thunk.dims()));
    if (!IsInt(made.outputs[0].type))
      return Invalid("dims are written as ", Name(made.outputs[0].type));
    return absl::OkStatus();
  }

  absl::Status CheckSubRange(const program::SubRange& range) {
    const auto exists = [&](int32_t b) { return b >= 0 && b < p_.buffers_size(); };
    if (!exists(range.buffer()) || !exists(range.of())) {
      return Invalid("buffer ", range.buffer(), " is a range of buffer ", range.of(),
                     ": no such buffer");
    }
    const auto device = [&](int32_t b) { return made_->buffers[static_cast<size_t>(b)].device; };
    if (device(range.buffer()) != device(range.of()))
      return Invalid("buffer ", range.buffer(), " is a range of buffer ", range.of(),
                     " on another device");
    CheckedSubRange made{range.buffer(), range.of(), Dim()};
    if (!range.offset().empty()) {
      KILN_ASSIGN_OR_RETURN(made.offset, Dim::Parse(range.offset()));
    }
    made_->sub_ranges.push_back(std::move(made));
    return absl::OkStatus();
  }

  void AddOutputViews() {
    for (size_t i = 0; i < made_->outputs.size(); ++i) {
      CheckedPort& port = made_->outputs[i];
      const CheckedBuffer& source = made_->buffers[static_cast<size_t>(port.buffer)];
      if (source.kind == program::Buffer::OUTPUT && source.index == static_cast<int32_t>(i))
        continue;
      const bool on_host = OnHost(source.device);
      CheckedThunk view;
      view.kind = on_host ? CheckedThunk::Kind::kView : CheckedThunk::Kind::kCopy;
      view.name = port.name;
      view.device = on_host ? DefaultDevice() : source.device;
      view.inputs.push_back({port.buffer, Dim(), port.type, port.shape, {}});
      port.buffer = static_cast<int32_t>(made_->buffers.size());
      made_->buffers.push_back({program::Buffer::OUTPUT, static_cast<int32_t>(i),
                                PortBytes(port.type, port.shape), port.name,
                                on_host ? source.device : DefaultDevice()});
      view.outputs.push_back({port.buffer, Dim(), port.type, port.shape, {}});
      made_->thunks.push_back(std::move(view));
    }
  }

  std::shared_ptr<CheckedProgram> made_;
  const program::Program& p_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const CheckedProgram>> CheckProgram(
    std::shared_ptr<const Variant> variant) {
  if (variant == nullptr) return Invalid("program: no variant");
  return Checker(std::move(variant)).Check();
}

}  // namespace kiln
