// SPDX-License-Identifier: Apache-2.0
#include "exec/validate/validation.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "exec/support/compute_device.h"
#include "exec/support/kernel_code.h"
#include "exec/support/operand_copies.h"
#include "exec/validate/probe.h"
#include "exec/vm/vm.h"
#include "kernel/abi.h"
#include "kernel/naive.h"
#include "kernel/text.h"
#include "persistent_cache/key.h"

namespace kiln {
namespace {

constexpr uint8_t kUnwritten = 0xa5;  // correctness
// Elements of an operand, which then repeat; no blocks are alike.
constexpr int64_t kDrawn = 16381;  // correctness

// Memory between two pages that nobody may touch.
class GuardedMemory {
 public:
  GuardedMemory() = default;
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory() { Unmap(); }

  // Room for `bytes`, all kUnwritten; the operand then ends, or begins, at a guard page. Null
  // where the system has no memory.
  uint8_t* Place(size_t bytes, bool at_end) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t room = std::max(page, (bytes + page - 1) / page * page);
    if (room > room_) {
      Unmap();
      void* const all =
          mmap(nullptr, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (all == MAP_FAILED) return nullptr;
      mapped_ = static_cast<uint8_t*>(all);
      room_ = room;
      page_ = page;
      if (mprotect(mapped_ + page, room, PROT_READ | PROT_WRITE) != 0) return nullptr;
    }
    region_ = at_end ? mapped_ + page_ + room_ - room : mapped_ + page_;
    std::memset(region_, kUnwritten, room);
    data_ = at_end ? region_ + room - bytes : region_;
    bytes_ = bytes;
    region_bytes_ = room;
    return data_;
  }

  // Whether anything around the operand, in its pages, was written.
  bool StraysAround() const {
    const uint8_t* const after = data_ + bytes_;
    return !IsUnwritten(region_, data_) || !IsUnwritten(after, region_ + region_bytes_);
  }

 private:
  void Unmap() {
    if (mapped_ != nullptr) munmap(mapped_, room_ + 2 * page_);
    mapped_ = nullptr;
    room_ = 0;
  }
  static bool IsUnwritten(const uint8_t* begin, const uint8_t* end) {
    return begin == end ||
           (*begin == kUnwritten &&
            std::memcmp(begin, begin + 1, static_cast<size_t>(end - begin - 1)) == 0);
  }
  uint8_t* mapped_ = nullptr;
  uint8_t* region_ = nullptr;  // the pages of the operand
  uint8_t* data_ = nullptr;    // the operand
  size_t room_ = 0, page_ = 0, bytes_ = 0, region_bytes_ = 0;
};

// A launch on this thread alone; tasks run last first in every other one, so that code whose tasks
// depend on each other is seen.
struct SerialLaunch {
  LaunchContext context;
  LaunchContext* self = &context;
  bool backwards = false;

  SerialLaunch() {
    context.pool = this;
    context.parallel_for = [](LaunchContext* launch, TaskFn task, int min, int n,
                              uint8_t* closure) {
      const bool backwards = static_cast<SerialLaunch*>(launch->pool)->backwards;
      for (int k = 0; k < n; ++k) {
        const int index = min + (backwards ? n - 1 - k : k);
        if (const int error = task(launch, index, closure); error != 0) return error;
      }
      return 0;
    };
    context.allocate = [](LaunchContext*, size_t bytes) {
      return std::aligned_alloc(64, std::max<size_t>(64, (bytes + 63) / 64 * 64));
    };
    context.release = [](LaunchContext*, void* memory) { std::free(memory); };
  }
};

struct Operand {
  DType type = DType::kF32;
  std::vector<int64_t> strides;  // elements, per axis
  std::vector<BufferDim> dims;   // innermost axis first
  size_t bytes = 0;

  // Operands that need not be dense have gaps between rows, or between elements.
  Operand(DType dtype, const std::vector<int32_t>& axes, Layout layout, const Probe& probe)
      : type(dtype), strides(axes.size()) {
    const int64_t gap = probe.whole_lines ? kLine : 3;
    const std::vector<int64_t>& extents = probe.extents;
    int64_t stride = layout == Layout::kStrided ? 2 : 1;
    int64_t last = 0;
    bool empty = false;
    for (size_t axis = axes.size(); axis-- > 0;) {
      const int64_t extent = extents[static_cast<size_t>(axes[axis])];
      strides[axis] = stride;
      dims.push_back({0, static_cast<int32_t>(extent), static_cast<int32_t>(stride), 0});
      last += (extent - 1) * stride;
      empty = empty || extent == 0;
      stride = stride * std::max<int64_t>(extent, 1) + (layout == Layout::kDense ? 0 : gap);
    }
    bytes = empty ? 0 : static_cast<size_t>(last + 1) * SizeOf(type);
  }

  BufferArg Argument(void* host) {
    BufferArg arg;
    arg.host = static_cast<uint8_t*>(host);
    arg.type_code = type == DType::kBF16 ? 4 : IsFloat(type) ? 2 : IsSigned(type) ? 0 : 1;
    arg.type_bits = static_cast<uint8_t>(8 * SizeOf(type));
    arg.dimensions = static_cast<int32_t>(dims.size());
    arg.dim = dims.data();
    return arg;
  }
};

// Payloads of NaN mean nothing: one pattern for all.
void OneNan(DType type, std::string& bytes) {
  if (!IsFloat(type)) return;
  const size_t size = SizeOf(type);
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, &bytes[at], size);
    const uint64_t infinity = type == DType::kF64    ? 0x7ff0000000000000u
                              : type == DType::kF32  ? 0x7f800000u
                              : type == DType::kBF16 ? 0x7f80u
                                                     : 0x7c00u;
    const uint64_t sign = uint64_t{1} << (8 * size - 1);
    if ((bits & ~sign) <= infinity) continue;
    bits = infinity | (infinity >> 1);
    std::memcpy(&bytes[at], &bits, size);
  }
}

// "" or where the bytes of an output differ.
std::string FirstDifference(const Operand& operand, const std::string& got,
                            const std::string& want) {
  if (got == want) return "";
  const size_t size = SizeOf(operand.type);
  const size_t byte =
      static_cast<size_t>(std::mismatch(got.begin(), got.end(), want.begin()).first - got.begin());
  const auto at = static_cast<int64_t>(byte / size);
  const DType type = ComputeType(operand.type);
  const uint64_t a = LoadElement(got.data(), operand.type, at);
  const uint64_t b = LoadElement(want.data(), operand.type, at);
  return absl::StrCat("element ", at, " is ", ConstValue(type, a), " (0x", absl::Hex(a),
                      "), the VM has ", ConstValue(type, b), " (0x", absl::Hex(b), ")");
}

// Runs the probes of one kernel.
// Where code of a device runs on probes. Does nothing for that of the CPU.
class DeviceProbes {
 public:
  explicit DeviceProbes(ArgumentCounts counts) : counts_(counts) {}

  // `name`: of a ComputeDevice, or empty.
  absl::Status Open(const std::string& name) {
    if (name.empty()) return absl::OkStatus();
    KILN_ASSIGN_OR_RETURN(device_, OpenComputeDevice(name));
    KILN_ASSIGN_OR_RETURN(queue_, device_->NewQueue());
    return absl::OkStatus();
  }
  bool opened() const { return device_ != nullptr; }
  ComputeDevice* device() const { return device_.get(); }

  // Runs code on copies of its operands; must not outlive this.
  CodeCall Call() {
    return [this](KernelFn code, void** argv) {
      const absl::StatusOr<int> result =
          RunWithCopiesOnDevice(code, argv, counts_, *device_, *queue_);
      if (result.ok()) return *result;
      error_ = result.status();
      return -1;
    };
  }
  // With what the device said, where a probe failed for that.
  absl::Status Explain(absl::Status status) const {
    if (status.ok() || error_.ok()) return status;
    return absl::Status(status.code(), absl::StrCat(status.message(), ": ", error_.message()));
  }

 private:
  const ArgumentCounts counts_;
  std::shared_ptr<ComputeDevice> device_;
  std::unique_ptr<DeviceQueue> queue_;
  absl::Status error_;
};

class ProbeRunner {
 public:
  ProbeRunner(const Kernel& kernel, const LaunchInfo& launch, const VmKernel& vm,
              const LoadedKernel& code, const CodeCall& call)
      : kernel_(kernel), launch_(launch), vm_(vm), code_(code), call_(call) {
    const size_t operands = kernel.inputs.size() + kernel.outputs.size();
    for (size_t k = 0; k < operands; ++k) memory_.push_back(std::make_unique<GuardedMemory>());
  }

  // Adds what the probe asked and the VM answered to the transcript.
  absl::Status Run(const Probe& probe, Sha256Hasher& transcript) {
    Lay(probe);
    KILN_RETURN_IF_ERROR(Fill(probe));
    KILN_ASSIGN_OR_RETURN(std::vector<std::string> want, OnVm(probe));
    KILN_RETURN_IF_ERROR(Compare(probe, want));
    transcript.Update(Describe(kernel_, probe));
    for (const std::string& bytes : want) transcript.Update(bytes);
    return absl::OkStatus();
  }

 private:
  void Lay(const Probe& probe) {
    operands_.clear();
    for (const KernelInput& in : kernel_.inputs)
      operands_.emplace_back(in.type, in.dims, in.layout, probe);
    for (const KernelOutput& out : kernel_.outputs)
      operands_.emplace_back(out.type, out.dims, out.layout, probe);
  }

  absl::Status Fill(const Probe& probe) {
    inputs_.clear();
    uint64_t state = probe.seed;
    for (size_t k = 0; k < kernel_.inputs.size(); ++k) {
      Operand& operand = operands_[k];
      std::string& bytes = inputs_.emplace_back(operand.bytes, '\0');
      const auto count = static_cast<int64_t>(operand.bytes / SizeOf(operand.type));
      for (int64_t at = 0; at < std::min(count, kDrawn); ++at)
        StoreElement(bytes.data(), operand.type, at,
                     ProbeValue(operand.type, probe.specials, state));
      const size_t drawn = static_cast<size_t>(kDrawn) * SizeOf(operand.type);
      for (size_t at = drawn; at < bytes.size(); at += drawn)
        std::memcpy(&bytes[at], bytes.data(), std::min(drawn, bytes.size() - at));
    }
    hosts_.assign(operands_.size(), nullptr);
    for (size_t k = 0; k < operands_.size(); ++k) {
      hosts_[k] = memory_[k]->Place(operands_[k].bytes, probe.at_end);
      if (hosts_[k] == nullptr) return absl::ResourceExhaustedError("validation: no memory");
      if (k < inputs_.size()) std::memcpy(hosts_[k], inputs_[k].data(), inputs_[k].size());
    }
    return absl::OkStatus();
  }

  int Launch(const Probe& probe, const std::vector<uint8_t*>& hosts, KernelFn fn,
             const void* self) {
    const size_t inputs = kernel_.inputs.size();
    SerialLaunch launch;
    launch.backwards = probe.seed % 2 != 0;
    launch.context.kernel = self;
    std::vector<BufferArg> buffers;
    for (size_t k = 0; k < operands_.size(); ++k)
      buffers.push_back(operands_[k].Argument(hosts[k]));
    std::vector<int32_t> extents(probe.extents.begin(), probe.extents.end());
    std::vector<uint64_t> values = probe.params;
    std::vector<void*> argv = {&launch.self};
    launch.context.non_temporal =
        !probe.in_place &&
        std::all_of(buffers.begin() + static_cast<ptrdiff_t>(inputs), buffers.end(), WholeLines);
    for (size_t k = 0; k < inputs; ++k) argv.push_back(&buffers[k]);
    for (int32_t& extent : extents) argv.push_back(&extent);
    for (uint64_t& value : values) argv.push_back(&value);
    for (size_t k = inputs; k < buffers.size(); ++k) argv.push_back(&buffers[k]);
    return fn == code_.function() && call_ != nullptr ? call_(fn, argv.data()) : fn(argv.data());
  }

  // The outputs' bytes, gaps included, with one NaN.
  absl::StatusOr<std::vector<std::string>> OnVm(const Probe& probe) {
    if (const int error = Launch(probe, hosts_, &RunVm, &vm_); error != 0)
      return absl::ResourceExhaustedError(absl::StrCat("validation: the VM returns ", error));
    std::vector<std::string> outputs;
    for (size_t k = inputs_.size(); k < operands_.size(); ++k) {
      if (memory_[k]->StraysAround())
        return absl::InternalError("validation: the VM writes outside its outputs");
      const size_t bytes = operands_[k].bytes;
      OneNan(operands_[k].type,
             outputs.emplace_back(reinterpret_cast<const char*>(hosts_[k]), bytes));
      std::memset(hosts_[k], kUnwritten, bytes);
    }
    return outputs;
  }

  // The input that output `k` is put over, or -1.
  int32_t InPlace(const Probe& probe, size_t k) const {
    if (!probe.in_place) return -1;
    for (const auto& [input, output] : launch_.in_place) {
      if (output != static_cast<int32_t>(k) || input < 0 ||
          static_cast<size_t>(input) >= inputs_.size())
        continue;
      const Operand& from = operands_[static_cast<size_t>(input)];
      const Operand& to = operands_[inputs_.size() + k];
      if (from.bytes == to.bytes && from.strides == to.strides) return input;
    }
    return -1;
  }

  absl::Status Compare(const Probe& probe, const std::vector<std::string>& want) {
    const size_t inputs = inputs_.size();
    std::vector<uint8_t*> hosts = hosts_;
    std::vector<bool> overwritten(inputs, false);
    for (size_t k = 0; k < want.size(); ++k) {
      const int32_t input = InPlace(probe, k);
      if (input < 0 || overwritten[static_cast<size_t>(input)]) continue;
      overwritten[static_cast<size_t>(input)] = true;
      hosts[inputs + k] = hosts_[static_cast<size_t>(input)];
    }
    const auto refused = [&](const std::string& why) {
      return absl::DataLossError(absl::StrCat("with ", Describe(kernel_, probe), ": ", why));
    };
    if (const int error = Launch(probe, hosts, code_.function(), code_.self()); error != 0)
      return refused(absl::StrCat("the code returns ", error));
    for (size_t k = 0; k < want.size(); ++k) {
      const Operand& operand = operands_[inputs + k];
      std::string got(reinterpret_cast<const char*>(hosts[inputs + k]), operand.bytes);
      OneNan(operand.type, got);
      if (const std::string why = FirstDifference(operand, got, want[k]); !why.empty())
        return refused(absl::StrCat("out ", k, ": ", why));
    }
    for (size_t k = 0; k < memory_.size(); ++k) {
      if (memory_[k]->StraysAround()) return refused("the code writes outside its outputs");
      if (k < inputs && !overwritten[k] &&
          std::memcmp(hosts_[k], inputs_[k].data(), inputs_[k].size()) != 0)
        return refused(absl::StrCat("the code writes to input ", k));
    }
    return absl::OkStatus();
  }

  const Kernel& kernel_;
  const LaunchInfo& launch_;
  const VmKernel& vm_;
  const LoadedKernel& code_;
  const CodeCall& call_;
  std::vector<std::unique_ptr<GuardedMemory>> memory_;  // inputs, then outputs
  std::vector<Operand> operands_;
  std::vector<std::string> inputs_;
  std::vector<uint8_t*> hosts_;
};

}  // namespace

std::string FormatClass(absl::Span<const int64_t> at_most) { return absl::StrJoin(at_most, ","); }

std::vector<int64_t> ParseClass(absl::string_view text) {
  std::vector<int64_t> at_most;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(part, &at_most.emplace_back())) return {};
  }
  return at_most;
}

bool IsWithinClass(absl::Span<const int64_t> inner, absl::Span<const int64_t> outer) {
  for (size_t d = 0; d < outer.size(); ++d) {
    const int64_t bound = d < inner.size() ? inner[d] : -1;
    if (outer[d] >= 0 && (bound < 0 || bound > outer[d])) return false;
  }
  return true;
}

std::vector<int64_t> UnionOfClasses(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  std::vector<int64_t> both;
  for (size_t d = 0; d < std::min(a.size(), b.size()); ++d)
    both.push_back(a[d] < 0 || b[d] < 0 ? -1 : std::max(a[d], b[d]));
  return both;
}

std::string Encode(const ValidationRequest& request) {
  return Preimage()
      .Add("device", Name(request.device))
      .Add("code", request.code)
      .Add("kernel", request.kernel)
      .Add("launch", request.launch)
      .Add("at_most", FormatClass(request.at_most))
      .Add("example", FormatClass(request.example))
      .Add("nobody_waits", request.nobody_waits ? "1" : "0")
      .Add("machine_code", request.machine_code)
      .Add("recipe", request.recipe)
      .Add("on", request.on)
      .bytes();
}

absl::StatusOr<ValidationRequest> DecodeValidationRequest(absl::string_view bytes) {
  KILN_RETURN_IF_ERROR(ParsePreimage(bytes).status());
  const std::optional<DeviceKind> device = ParseDevice(FieldOf(bytes, "device"));
  if (!device) return absl::InvalidArgumentError("kiln-validate: a request names no device");
  return ValidationRequest{FieldOf(bytes, "code"),
                           FieldOf(bytes, "kernel"),
                           FieldOf(bytes, "launch"),
                           ParseClass(FieldOf(bytes, "at_most")),
                           ParseClass(FieldOf(bytes, "example")),
                           FieldOf(bytes, "nobody_waits") == "1",
                           *device,
                           FieldOf(bytes, "machine_code"),
                           FieldOf(bytes, "recipe"),
                           FieldOf(bytes, "on")};
}

std::string Encode(const absl::StatusOr<Validation>& validation) {
  Preimage bytes;
  bytes.Add("code", absl::StrCat(static_cast<int>(validation.status().code())));
  if (!validation.ok()) return bytes.Add("text", validation.status().message()).bytes();
  return bytes.Add("text", validation->transcript)
      .Add("of_example", validation->of_example ? "1" : "0")
      .Add("probes", absl::StrCat(validation->probes))
      .bytes();
}

absl::StatusOr<Validation> DecodeValidation(absl::string_view bytes) {
  int code = 0;
  if (!absl::SimpleAtoi(FieldOf(bytes, "code"), &code))
    return absl::UnavailableError("kiln-validate: its answer cannot be read");
  if (code != 0) return absl::Status(static_cast<absl::StatusCode>(code), FieldOf(bytes, "text"));
  Validation validation{FieldOf(bytes, "text"), FieldOf(bytes, "of_example") == "1"};
  if (!absl::SimpleAtoi(FieldOf(bytes, "probes"), &validation.probes))
    return absl::UnavailableError("kiln-validate: its answer cannot be read");
  return validation;
}

ValidationRequest ValidationOf(const Entry& entry, const std::vector<int64_t>& example,
                               const ComputeDevice* on) {
  const std::optional<KernelCode> code = CodeOf(entry);
  const std::string* const preimage = entry.Find("preimage");
  std::map<std::string, std::string> meta = MetaOf(entry);
  std::vector<int64_t> own = ParseClass(meta["example"]);
  if (own.empty()) own = example;
  const CodeImage image = code ? code->image : CodeImage();
  const bool on_device = code && !OnHost(code->device->device) && on != nullptr;
  return {std::string(image.code),
          FieldOf(*preimage, "kernel"),
          meta["launch"],
          ParseClass(meta["at_most"]),
          std::move(own),
          /*nobody_waits=*/false,
          code ? code->device->device : DefaultDevice(),
          std::string(image.machine_code),
          std::string(image.recipe),
          on_device ? on->name() : ""};
}

absl::StatusOr<Validation> ValidateKernel(const ValidationRequest& request, const CodeCall& call) {
  const absl::StatusOr<Kernel> kernel = ParseKernel(request.kernel);
  const absl::StatusOr<LaunchInfo> launch = LaunchInfo::Parse(request.launch);
  if (!kernel.ok() || !launch.ok()) {
    return absl::UnimplementedError(
        absl::StrCat("validation: ", (kernel.ok() ? launch.status() : kernel.status()).message()));
  }
  const auto vm = VmKernel::Compile(*kernel);
  if (!vm.ok())
    return absl::UnimplementedError(absl::StrCat("validation: ", vm.status().message()));
  std::vector<Probe> probes = ProbesFor(*kernel, *launch, request.at_most);
  std::vector<Probe> unsaid =
      ProbesOf(*kernel, *launch, request.at_most, request.example, probes.empty());
  Validation validation;
  validation.of_example = probes.empty();
  if (probes.empty()) probes.swap(unsaid);
  if (probes.empty())
    return absl::UnimplementedError("validation: no extents are found that fit this kernel");
  DeviceProbes device(ArgumentCounts::Of(*kernel));
  KILN_RETURN_IF_ERROR(device.Open(request.on));
  const CodeImage image = {request.code, request.machine_code, request.recipe, request.kernel};
  KILN_ASSIGN_OR_RETURN(const LoadedKernel loaded,
                        LoadOn(RuntimeOf(request.device), image, device.device()));
  const CodeCall where = device.opened() ? device.Call() : call;
  ProbeRunner runner(*kernel, *launch, **vm, loaded, where);
  Sha256Hasher transcript;
  transcript.Update(request.kernel);
  for (const Probe& probe : probes)
    KILN_RETURN_IF_ERROR(device.Explain(runner.Run(probe, transcript)));
  Sha256Hasher nothing;
  for (const Probe& probe : unsaid)
    KILN_RETURN_IF_ERROR(device.Explain(runner.Run(probe, nothing)));
  validation.transcript = absl::StrCat(kValidationVersion, ":", ToHex(transcript.Finish()));
  validation.probes = static_cast<int>(probes.size() + unsaid.size());
  return validation;
}

bool NeedsExample(const Kernel& kernel, const LaunchInfo& launch,
                  const std::vector<int64_t>& at_most) {
  return ProbesFor(kernel, launch, at_most).empty();
}

}  // namespace kiln
