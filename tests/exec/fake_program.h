// SPDX-License-Identifier: Apache-2.0
// Programs written by hand, with plain C++ functions for kernels.
//
//   FakeProgram p;
//   int x = p.Input("x", {"n"}), y = p.Output("y", {"n"});
//   p.Kernel(kNegate, {x}, {y}, {"n"});
//   Model model = *Model::Create(p.Provider(), {.threads = 1});
#ifndef KILN_TESTS_EXEC_FAKE_PROGRAM_H_
#define KILN_TESTS_EXEC_FAKE_PROGRAM_H_

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "exec/provider.h"
#include "kiln/dim.h"
#include "kiln/model.h"

namespace kiln {

inline const float* In(void** argv, int i) {
  return reinterpret_cast<const float*>(static_cast<const BufferArg*>(argv[1 + i])->host);
}
inline float* Out(void** argv, int i) {
  return reinterpret_cast<float*>(static_cast<BufferArg*>(argv[i])->host);
}

// y = -x; argv: context, x, n, y.
inline int NegateFn(void** argv) {
  const int32_t n = *static_cast<int32_t*>(argv[2]);
  for (int32_t i = 0; i < n; ++i) Out(argv, 3)[i] = -In(argv, 0)[i];
  return 0;
}
// y = a + 2 * b; argv: context, a, b, n, y.
inline int MixFn(void** argv) {
  const int32_t n = *static_cast<int32_t*>(argv[3]);
  for (int32_t i = 0; i < n; ++i) Out(argv, 4)[i] = In(argv, 0)[i] + 2 * In(argv, 1)[i];
  return 0;
}
// y = p * x; argv: context, x, n, p, y.
inline int ScaleFn(void** argv) {
  const int32_t n = *static_cast<int32_t*>(argv[2]);
  const float p = *static_cast<float*>(argv[3]);
  for (int32_t i = 0; i < n; ++i) Out(argv, 4)[i] = p * In(argv, 0)[i];
  return 0;
}
inline int FailFn(void**) { return 7; }

struct FakeKernel {
  const char* name;
  const char* text;
  KernelFn run;
  std::vector<int32_t> in_place;
};
inline const FakeKernel kNegate = {"negate",
                                   "kernel v1 math 1\ndims a\nin 0 f32 [a] dense\n"
                                   "out 0 f32 [a] dense = neg(in0[a])\n",
                                   NegateFn,
                                   {0, 0}};
inline const FakeKernel kMix = {"mix",
                                "kernel v1 math 1\ndims a\nin 0 f32 [a] dense\nin 1 f32 [a] dense\n"
                                "out 0 f32 [a] dense = add(in0[a], add(in1[a], in1[a]))\n",
                                MixFn,
                                {0, 0, 1, 0}};
inline const FakeKernel kScale = {"scale",
                                  "kernel v1 math 1\ndims a\nin 0 f32 [a] dense\npar 0 f32\n"
                                  "out 0 f32 [a] dense = mul(in0[a], par0)\n",
                                  ScaleFn,
                                  {0, 0}};
inline const FakeKernel kFail = {"fail",
                                 "kernel v1 math 1\ndims a\nin 0 f32 [a] dense\n"
                                 "out 0 f32 [a] dense = abs(in0[a])\n",
                                 FailFn,
                                 {}};

class FakeProvider : public VariantProvider {
 public:
  FakeProvider(std::vector<PortInfo> inputs, std::vector<PortInfo> outputs,
               std::shared_ptr<const Variant> variant)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)), variant_(std::move(variant)) {}
  const std::vector<PortInfo>& inputs() const override { return inputs_; }
  const std::vector<PortInfo>& outputs() const override { return outputs_; }
  absl::StatusOr<std::shared_ptr<const Variant>> Get(const std::vector<InputInfo>&) override {
    ++gets;
    return variant_;
  }
  std::atomic<int> gets{0};

 private:
  std::vector<PortInfo> inputs_, outputs_;
  std::shared_ptr<const Variant> variant_;
};

// All tensors are f32 unless said otherwise.
class FakeProgram {
 public:
  using Texts = std::vector<std::string>;

  FakeProgram() { variant->program.add_regions(); }

  program::Program& proto() { return variant->program; }
  program::Region& region() { return *proto().mutable_regions(0); }

  int Buffer(program::Buffer::Kind kind, const std::string& bytes, int index = 0) {
    program::Buffer& b = *proto().add_buffers();
    b.set_kind(kind);
    b.set_bytes(bytes);
    b.set_index(index);
    return proto().buffers_size() - 1;
  }
  int Temporary(const Texts& shape) { return Buffer(program::Buffer::TEMPORARY, Bytes(shape)); }
  int Input(const std::string& name, const Texts& shape, bool optional = false) {
    const int b = Buffer(program::Buffer::INPUT, "", proto().inputs_size());
    Port(*proto().add_inputs(), name, shape, b, optional);
    ports_in.push_back({name, DType::kF32, ShapeOf(shape), optional});
    return b;
  }
  int Output(const std::string& name, const Texts& shape) {
    const int b = Buffer(program::Buffer::OUTPUT, "", proto().outputs_size());
    OutputOf(name, shape, b);
    return b;
  }
  void OutputOf(const std::string& name, const Texts& shape, int buffer) {
    Port(*proto().add_outputs(), name, shape, buffer, false);
    ports_out.push_back({name, DType::kF32, ShapeOf(shape), false});
  }
  int Constant(Tensor tensor) {
    program::Constant& c = *proto().add_constants();
    c.set_dtype(static_cast<uint32_t>(tensor.dtype()));
    for (const int64_t extent : tensor.shape()) c.add_shape(extent);
    variant->constants.push_back(std::move(tensor));
    return Buffer(program::Buffer::CONSTANT, "", proto().constants_size() - 1);
  }

  static void Ref(program::TensorRef& ref, int buffer, const Texts& shape,
                  const std::string& offset = "", const Texts& strides = {}) {
    ref.set_buffer(buffer);
    ref.set_offset(offset);
    ref.set_dtype(static_cast<uint32_t>(DType::kF32));
    for (const std::string& s : shape) ref.add_shape(s);
    for (const std::string& s : strides) ref.add_strides(s);
  }

  // Index of the kernel in the program; one handle per definition.
  int Define(const FakeKernel& kernel) {
    for (int i = 0; i < proto().kernels_size(); ++i) {
      if (proto().kernels(i).name() == kernel.name) return i;
    }
    program::KernelDef& def = *proto().add_kernels();
    def.set_name(kernel.name);
    def.set_text(kernel.text);
    program::KernelChoice& choice = *def.add_choices();
    for (const int32_t end : kernel.in_place) choice.add_in_place(end);
    auto function = std::make_shared<KernelFunction>();
    function->run = kernel.run;
    variant->kernels.push_back({std::make_shared<KernelHandle>(function)});
    return proto().kernels_size() - 1;
  }

  program::KernelThunk& Kernel(const FakeKernel& kernel, const std::vector<int>& inputs,
                               const std::vector<int>& outputs, const Texts& dims,
                               const std::vector<float>& params = {}) {
    program::Thunk& thunk = *region().add_thunks();
    thunk.set_name(absl::StrCat(kernel.name, "_", region().thunks_size() - 1));
    program::KernelThunk& k = *thunk.mutable_kernel();
    k.set_kernel(Define(kernel));
    for (const int b : inputs) Ref(*k.add_inputs(), b, dims);
    for (const int b : outputs) Ref(*k.add_outputs(), b, dims);
    for (const std::string& d : dims) k.add_dims(d);
    for (const float p : params)
      k.add_params(std::string(reinterpret_cast<const char*>(&p), sizeof p));
    return k;
  }
  void View(int from, const std::string& offset, int to, const Texts& shape) {
    program::Thunk& thunk = *region().add_thunks();
    thunk.set_name("view");
    Ref(*thunk.mutable_view()->mutable_from(), from, shape, offset);
    Ref(*thunk.mutable_view()->mutable_to(), to, shape);
  }
  void Copy(int from, int to, const Texts& shape, const Texts& from_strides = {},
            const Texts& to_strides = {}) {
    program::Thunk& thunk = *region().add_thunks();
    thunk.set_name("copy");
    Ref(*thunk.mutable_copy()->mutable_from(), from, shape, "", from_strides);
    Ref(*thunk.mutable_copy()->mutable_to(), to, shape, "", to_strides);
  }
  program::LibraryThunk& Library(const std::string& op) {
    program::Thunk& thunk = *region().add_thunks();
    thunk.set_name(op);
    thunk.mutable_library()->set_op(op);
    return *thunk.mutable_library();
  }
  void SubRange(int buffer, int of, const std::string& offset) {
    program::SubRange& range = *proto().add_sub_ranges();
    range.set_buffer(buffer);
    range.set_of(of);
    range.set_offset(offset);
  }

  std::shared_ptr<FakeProvider> Provider() const {
    return std::make_shared<FakeProvider>(ports_in, ports_out, variant);
  }

  std::shared_ptr<Variant> variant = std::make_shared<Variant>();
  std::vector<PortInfo> ports_in, ports_out;

 private:
  static std::string Bytes(const Texts& shape) {
    return shape.empty() ? "4" : absl::StrCat("4*(", absl::StrJoin(shape, ")*("), ")");
  }
  static Shape ShapeOf(const Texts& shape) {
    Shape made;
    for (const std::string& s : shape) made.push_back(*Dim::Parse(s));
    return made;
  }
  static void Port(program::Port& port, const std::string& name, const Texts& shape, int buffer,
                   bool optional) {
    port.set_name(name);
    port.set_dtype(static_cast<uint32_t>(DType::kF32));
    for (const std::string& s : shape) port.add_shape(s);
    port.set_buffer(buffer);
    port.set_optional(optional);
  }
};

// A dense tensor of these values.
inline Tensor Values(const std::vector<float>& values, std::vector<int64_t> shape = {}) {
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  Tensor t = Tensor::Allocate(DType::kF32, shape);
  if (!values.empty()) std::memcpy(t.data(), values.data(), values.size() * sizeof(float));
  return t;
}
inline std::vector<float> Read(const Tensor& t) {
  const auto* data = static_cast<const float*>(t.data());
  return std::vector<float>(data, data + t.num_elements());
}

}  // namespace kiln

#endif  // KILN_TESTS_EXEC_FAKE_PROGRAM_H_
