// SPDX-License-Identifier: Apache-2.0
// kiln.h for C++17 with nothing but the standard library: handles that free themselves, errors that
// are thrown. For hosts that do not have the system's Abseil, which the C++ headers need.
//
//   kiln::cpp::Model model = kiln::cpp::Compile("net.onnx");
//   kiln::cpp::Context context(model);
//   context.Bind(0, kiln::cpp::Tensor::View(x.data(), KILN_F32, {1, 64}));
//   context.Run();
//   kiln::cpp::Tensor y = context.Output(0);
//
// View and Array are tensors whose element type and rank the compiler knows; the headers that
// `kiln compile --header` writes have one for each input and output of a model.
//
// What has no method here is called with get(), as kiln.h says; Check throws what it returns.
#ifndef KILN_KILN_HPP_
#define KILN_KILN_HPP_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kiln/kiln.h"

namespace kiln::cpp {

class Error : public std::runtime_error {
 public:
  Error(kiln_code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  kiln_code code() const { return code_; }

 private:
  kiln_code code_;
};

// Throws Error unless `status` is null, and frees it.
inline void Check(kiln_status* status) {
  if (status == nullptr) return;
  const std::unique_ptr<kiln_status, void (*)(kiln_status*)> owned(status, kiln_status_free);
  throw Error(kiln_status_code(status), kiln_status_message(status));
}

// A handle of kiln.h that frees itself; movable.
template <typename T, void (*Free)(T*)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T* handle) : handle_(handle) {}
  T* get() const { return handle_.get(); }

 protected:
  struct Deleter {
    void operator()(T* handle) const { Free(handle); }
  };
  std::unique_ptr<T, Deleter> handle_;
};

class Tensor : public Handle<kiln_tensor, kiln_tensor_free> {
 public:
  using Handle::Handle;
  // The caller keeps `data` alive. No strides: dense.
  static Tensor View(void* data, kiln_dtype type, const std::vector<int64_t>& shape,
                     const std::vector<int64_t>& strides = {}) {
    if (!strides.empty() && strides.size() != shape.size())
      throw Error(KILN_INVALID_ARGUMENT, "tensor: as many strides as extents are needed");
    kiln_tensor* made = nullptr;
    Check(kiln_tensor_view(data, type, shape.size(), shape.data(),
                           strides.empty() ? nullptr : strides.data(), nullptr, nullptr, &made));
    return Tensor(made);
  }
  static Tensor Allocate(kiln_dtype type, const std::vector<int64_t>& shape) {
    kiln_tensor* made = nullptr;
    Check(kiln_tensor_allocate(type, shape.size(), shape.data(), &made));
    return Tensor(made);
  }

  template <typename T = void>
  T* data() const {
    return static_cast<T*>(kiln_tensor_data(get()));
  }
  kiln_dtype dtype() const { return kiln_tensor_dtype(get()); }
  std::vector<int64_t> shape() const {
    const int64_t* extents = kiln_tensor_shape(get());
    return {extents, extents + kiln_tensor_rank(get())};
  }
};

// The bits of 16-bit floats.
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// The kiln_dtype whose elements are T.
template <typename T>
struct TypeOf;
template <kiln_dtype Type>
struct IsType {
  static constexpr kiln_dtype value = Type;
};
template <>
struct TypeOf<float> : IsType<KILN_F32> {};
template <>
struct TypeOf<double> : IsType<KILN_F64> {};
template <>
struct TypeOf<Float16> : IsType<KILN_F16> {};
template <>
struct TypeOf<BFloat16> : IsType<KILN_BF16> {};
template <>
struct TypeOf<int8_t> : IsType<KILN_I8> {};
template <>
struct TypeOf<int16_t> : IsType<KILN_I16> {};
template <>
struct TypeOf<int32_t> : IsType<KILN_I32> {};
template <>
struct TypeOf<int64_t> : IsType<KILN_I64> {};
template <>
struct TypeOf<uint8_t> : IsType<KILN_U8> {};
template <>
struct TypeOf<uint16_t> : IsType<KILN_U16> {};
template <>
struct TypeOf<uint32_t> : IsType<KILN_U32> {};
template <>
struct TypeOf<uint64_t> : IsType<KILN_U64> {};
template <>
struct TypeOf<bool> : IsType<KILN_BOOL> {};

// Elements of the caller's, dense: {data, {2, 64}}. Another type or number of extents does not
// compile. The default is an input that is absent.
template <typename T, size_t Rank>
class View {
 public:
  View() = default;
  template <size_t N>
  View(const T* data, const int64_t (&extents)[N]) : data_(data) {
    static_assert(N == Rank, "the tensor has another rank");
    std::copy(extents, extents + N, extents_.begin());
  }
  View(const T* data, const std::array<int64_t, Rank>& extents) : data_(data), extents_(extents) {}
  // A scalar.
  template <size_t R = Rank, typename = std::enable_if_t<R == 0>>
  explicit View(const T* data) : data_(data) {}

  bool present() const { return data_ != nullptr; }
  // It is read only.
  Tensor tensor() const {
    return Tensor::View(const_cast<T*>(data_), TypeOf<T>::value,
                        {extents_.begin(), extents_.end()});
  }

 private:
  const T* data_ = nullptr;
  std::array<int64_t, Rank> extents_{};
};

// A dense tensor with its memory.
template <typename T, size_t Rank>
class Array {
 public:
  // Throws Error where the tensor has another type or rank.
  explicit Array(Tensor tensor) : tensor_(std::move(tensor)) {
    if (tensor_.dtype() != TypeOf<T>::value || kiln_tensor_rank(tensor_.get()) != Rank)
      throw Error(KILN_INTERNAL, "an output has another type or rank than its header says");
    std::copy_n(kiln_tensor_shape(tensor_.get()), Rank, extents_.begin());
  }
  const T* data() const { return tensor_.data<T>(); }
  const std::array<int64_t, Rank>& shape() const { return extents_; }
  size_t size() const {
    size_t elements = 1;
    for (const int64_t extent : extents_) elements *= static_cast<size_t>(extent);
    return elements;
  }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T& operator[](size_t k) const { return data()[k]; }
  const Tensor& tensor() const { return tensor_; }

 private:
  Tensor tensor_;
  std::array<int64_t, Rank> extents_{};
};

// An input or output as the model declares it.
struct Port {
  std::string name;
  kiln_dtype dtype = KILN_F32;
  bool optional = false;
  std::vector<std::string> dims;  // "3", "batch"
};

class Model : public Handle<kiln_model, kiln_model_free> {
 public:
  using Handle::Handle;
  std::vector<Port> inputs() const { return Ports(kiln_model_num_inputs(get()), kiln_model_input); }
  std::vector<Port> outputs() const {
    return Ports(kiln_model_num_outputs(get()), kiln_model_output);
  }

  // Inputs in order; an empty Tensor for an optional one that is absent. Thread-safe.
  std::vector<Tensor> Run(const std::vector<const Tensor*>& inputs,
                          const kiln_run_control* control = nullptr) const {
    std::vector<const kiln_tensor*> given;
    for (const Tensor* input : inputs) given.push_back(input != nullptr ? input->get() : nullptr);
    std::vector<kiln_tensor*> made(kiln_model_num_outputs(get()));
    Check(kiln_model_run(get(), given.data(), given.size(), control, made.data(), made.size()));
    std::vector<Tensor> outputs;
    outputs.reserve(made.size());
    for (kiln_tensor* tensor : made) outputs.emplace_back(tensor);
    return outputs;
  }

 private:
  std::vector<Port> Ports(size_t count,
                          kiln_status* (*port)(const kiln_model*, size_t, kiln_port*)) const {
    std::vector<Port> ports;
    for (size_t k = 0; k < count; ++k) {
      kiln_port told;
      told.struct_size = sizeof told;
      Check(port(get(), k, &told));
      ports.push_back(
          {told.name, told.dtype, told.optional != 0, {told.dims, told.dims + told.rank}});
    }
    return ports;
  }
};

class Context : public Handle<kiln_context, kiln_context_free> {
 public:
  explicit Context(const Model& model) : Handle(kiln_context_new(model.get())) {
    if (get() == nullptr) throw std::bad_alloc();
  }
  void Bind(size_t input, const Tensor& tensor) {
    Check(kiln_context_bind(get(), input, tensor.get()));
  }
  void BindOutput(size_t output, const Tensor& tensor) {
    Check(kiln_context_bind_output(get(), output, tensor.get()));
  }
  void Run(const kiln_run_control* control = nullptr) { Check(kiln_context_run(get(), control)); }
  // A view, valid until the next run.
  Tensor Output(size_t output) const {
    kiln_tensor* made = nullptr;
    Check(kiln_context_output(get(), output, &made));
    return Tensor(made);
  }
};

// What a header says of a port.
struct Expected {
  const char* name;
  kiln_dtype dtype;
  int rank;  // -1: any
};

// Throws Error unless the ports are these, in this order.
template <size_t N>
void ExpectPorts(const std::vector<Port>& ports, const Expected (&expected)[N]) {
  bool same = ports.size() == N;
  for (size_t k = 0; same && k < N; ++k) {
    same = ports[k].name == expected[k].name && ports[k].dtype == expected[k].dtype &&
           (expected[k].rank < 0 ||
            ports[k].dims.size() == static_cast<size_t>(expected[k].rank));
  }
  if (!same) throw Error(KILN_INVALID_ARGUMENT, "the package is not the one that its header is of");
}

// libkiln.so alone.
inline Model Compile(const std::string& path, const kiln_compile_options* options = nullptr) {
  kiln_model* made = nullptr;
  Check(kiln_compile(path.c_str(), options, &made));
  return Model(made);
}

inline Model LoadPackage(const std::string& path, const kiln_run_options* options = nullptr,
                         bool validate = false) {
  kiln_model* made = nullptr;
  Check(kiln_load_package(path.c_str(), options, validate ? 1 : 0, &made));
  return Model(made);
}

// From wherever its bytes are.
inline Model LoadPackage(const kiln_package_source& source,
                         const kiln_run_options* options = nullptr,
                         const kiln_package_options* package = nullptr) {
  kiln_model* made = nullptr;
  Check(kiln_load_package_from(&source, options, package, &made));
  return Model(made);
}

// In memory, where it is read and must stay.
inline Model LoadPackage(const void* data, size_t size, const kiln_run_options* options = nullptr) {
  kiln_package_source source = kiln_package_source_default();
  source.data = data;
  source.size = static_cast<int64_t>(size);
  return LoadPackage(source, options);
}

}  // namespace kiln::cpp

#endif  // KILN_KILN_HPP_
