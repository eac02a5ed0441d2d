// SPDX-License-Identifier: Apache-2.0
// A cuDNN for tests: the functions that Kiln calls, by plain loops over windows, in float64, on the
// memory of the emulated driver. What it computes is written from the definition of each function,
// not from Kiln's form of it: a transposed convolution is what scatters each gradient.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "exec/cuda/cudnn_api.h"
#include "tests/cuda/fake/state.h"

namespace kiln::cuda {

using Ints = std::vector<int>;

struct DnnHandleOf {
  Stream stream = nullptr;
};
struct DnnTensorOf {
  DnnType type = kDnnFloat;
  Ints dims, strides;
};
struct DnnFilterOf {
  DnnType type = kDnnFloat;
  Ints dims;
};
struct DnnConvolutionOf {
  Ints pads, strides, dilations;
  DnnType compute = kDnnFloat;
  DnnMath math = kDnnDefaultMath;
  int groups = 1;
};
struct DnnPoolingOf {
  DnnPoolingMode mode = kDnnMaxDeterministic;
  Ints window, pads, strides;
};
struct DnnActivationOf {
  DnnActivationMode mode = kDnnIdentity;
};

namespace {

constexpr DnnAlgo kOther = static_cast<DnnAlgo>(6);  // not the one of one call without relu
constexpr size_t kWorkspace = 80;
constexpr DnnStatus kShape = static_cast<DnnStatus>(3002);  // "not supported", with a reason

Item ItemOf(DnnType type) {
  switch (type) {
    case kDnnDouble:
      return Item::kF64;
    case kDnnHalf:
      return Item::kF16;
    case kDnnBFloat16:
      return Item::kBF16;
    default:
      return Item::kF32;
  }
}

template <typename T>
DnnStatus New(T** made) {
  if (const int failure = State().Next()) return static_cast<DnnStatus>(failure);
  *made = new T;
  ++State().objects;
  return kDnnSuccess;
}
template <typename T>
DnnStatus Delete(T* object) {
  delete object;
  --State().objects;
  return kDnnSuccess;
}
// What `set` does, where the call does not fail.
template <typename Set>
DnnStatus Called(const Set& set) {
  if (const int failure = State().Next()) return static_cast<DnnStatus>(failure);
  set();
  return kDnnSuccess;
}

size_t Count(const Ints& dims) {
  size_t count = 1;
  for (const int extent : dims) count *= static_cast<size_t>(extent);
  return count;
}

// Coordinates in [0, dims), in order.
class Walk {
 public:
  explicit Walk(Ints dims) : dims_(std::move(dims)), at(dims_.size(), 0), more(Count(dims_) > 0) {}
  void Next() {
    for (size_t i = dims_.size(); i-- > 0;) {
      if (++at[i] < dims_[i]) return;
      at[i] = 0;
    }
    more = false;
  }
  size_t index() const {
    size_t index = 0;
    for (size_t i = 0; i < dims_.size(); ++i)
      index = index * static_cast<size_t>(dims_[i]) + static_cast<size_t>(at[i]);
    return index;
  }

 private:
  const Ints dims_;

 public:
  Ints at;
  bool more;
};

size_t IndexOf(const Ints& dims, const Ints& at) {
  size_t index = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    index = index * static_cast<size_t>(dims[i]) + static_cast<size_t>(at[i]);
  return index;
}

// Dense and channels first is all that there is.
bool Dense(const DnnTensorOf& tensor) {
  int span = 1;
  for (size_t i = tensor.dims.size(); i-- > 0; span *= tensor.dims[i])
    if (tensor.strides[i] != span) return false;
  return tensor.dims.size() >= 4;
}

// Whether y is what the convolution makes of x.
bool Fits(const DnnTensorOf& x, const DnnFilterOf& w, const DnnConvolutionOf& c,
          const DnnTensorOf& y) {
  if (!Dense(x) || !Dense(y) || x.type != w.type || x.type != y.type) return false;
  if (c.compute != (x.type == kDnnDouble ? kDnnDouble : kDnnFloat)) return false;
  if (x.type == kDnnFloat && c.math != kDnnFmaMath) return false;  // TF32
  const size_t rank = x.dims.size();
  if (w.dims.size() != rank || y.dims.size() != rank || c.pads.size() + 2 != rank) return false;
  if (x.dims[0] != y.dims[0] || w.dims[0] != y.dims[1] || w.dims[1] * c.groups != x.dims[1])
    return false;
  for (size_t i = 0; i + 2 < rank; ++i) {
    const int reach = (w.dims[i + 2] - 1) * c.dilations[i] + 1;
    const int room = x.dims[i + 2] + 2 * c.pads[i] - reach;
    if (room < 0 || room / c.strides[i] + 1 != y.dims[i + 2]) return false;
  }
  return true;
}

// Calls each(x index, w index, y index) for each product of a convolution.
template <typename Each>
void ForEachProduct(const Ints& x, const Ints& w, const DnnConvolutionOf& c, const Ints& y,
                    const Each& each) {
  const int outputs_per_group = w[0] / c.groups;
  for (Walk out(y); out.more; out.Next()) {
    Ints taps(w.begin() + 1, w.end());
    for (Walk tap(taps); tap.more; tap.Next()) {
      Ints at = {out.at[0], out.at[1] / outputs_per_group * w[1] + tap.at[0]};
      bool inside = true;
      for (size_t i = 0; i + 2 < x.size(); ++i) {
        at.push_back(out.at[i + 2] * c.strides[i] - c.pads[i] + tap.at[i + 1] * c.dilations[i]);
        inside = inside && at.back() >= 0 && at.back() < x[i + 2];
      }
      if (!inside) continue;
      Ints weight = {out.at[1]};
      weight.insert(weight.end(), tap.at.begin(), tap.at.end());
      each(IndexOf(x, at), IndexOf(w, weight), out.index());
    }
  }
}

// Whether y is what the pool makes of x.
bool Pools(const DnnTensorOf& x, const DnnPoolingOf& pooling, const DnnTensorOf& y) {
  const size_t rank = x.dims.size();
  if (!Dense(x) || !Dense(y) || x.type != y.type || y.dims.size() != rank ||
      pooling.window.size() + 2 != rank || x.dims[0] != y.dims[0] || x.dims[1] != y.dims[1])
    return false;
  for (size_t i = 0; i + 2 < rank; ++i) {
    const int room = x.dims[i + 2] + 2 * pooling.pads[i] - pooling.window[i];
    if (room < 0 || room / pooling.strides[i] + 1 != y.dims[i + 2]) return false;
  }
  return true;
}

// The elements of x in the window of a place, without pads.
std::vector<size_t> WindowAt(const Ints& x, const DnnPoolingOf& pooling, const Ints& place) {
  std::vector<size_t> elements;
  for (Walk tap(pooling.window); tap.more; tap.Next()) {
    Ints at = {place[0], place[1]};
    bool inside = true;
    for (size_t i = 0; i < pooling.window.size(); ++i) {
      at.push_back(place[i + 2] * pooling.strides[i] - pooling.pads[i] + tap.at[i]);
      inside = inside && at.back() >= 0 && at.back() < x[i + 2];
    }
    if (inside) elements.push_back(IndexOf(x, at));
  }
  return elements;
}

double Divisor(const DnnPoolingOf& pooling, size_t inside) {
  return static_cast<double>(pooling.mode == kDnnAverageWithPads ? Count(pooling.window) : inside);
}

bool TouchWorkspace(void* workspace, size_t bytes, Stream stream) {
  return bytes >= kWorkspace && cuMemsetD8Async(reinterpret_cast<DevicePointer>(workspace), 0x5a,
                                                kWorkspace, stream) == kSuccess;
}

double Number(const void* scalar, DnnType type) {
  return type == kDnnDouble ? *static_cast<const double*>(scalar)
                            : *static_cast<const float*>(scalar);
}

double Activated(double x, DnnActivationMode mode) {
  return mode == kDnnRelu && x < 0 ? 0 : x;  // a NaN stays one
}

DnnStatus Perfs(int asked, int* count, DnnPerf* found) {
  ++State().queries;
  *count = 0;
  if (State().refuse != 0) return kDnnSuccess;
  if (asked < 3) return kDnnBadParam;
  const DnnAlgo algo = State().calls % 2 == 0 ? kDnnImplicitPrecompGemm : kOther;
  found[0] = {algo, kShape, 0, 0, kDnnDeterministic, kDnnFmaMath, {}};
  found[1] = {algo, kDnnSuccess, 0.1F, 0, static_cast<DnnDeterminism>(0), kDnnFmaMath, {}};
  found[2] = {algo, kDnnSuccess, 0.2F, kWorkspace, kDnnDeterministic, kDnnFmaMath, {}};
  *count = 3;
  return kDnnSuccess;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are the library's.
#define KILN_EXPORT(result, name, parameters) \
  extern "C" __attribute__((visibility("default"))) result name parameters;
KILN_CUDNN_FUNCTIONS(KILN_EXPORT)
#undef KILN_EXPORT

size_t cudnnGetVersion() { return State().version != 0 ? State().version.load() : 91900; }
const char* cudnnGetErrorString(DnnStatus) { return "a status of the fake"; }
DnnStatus cudnnCreate(DnnHandle* handle) { return New(handle); }
DnnStatus cudnnDestroy(DnnHandle handle) { return Delete(handle); }
DnnStatus cudnnSetStream(DnnHandle handle, Stream stream) {
  return Called([&] { handle->stream = stream; });
}
DnnStatus cudnnCreateTensorDescriptor(DnnTensor* tensor) { return New(tensor); }
DnnStatus cudnnSetTensorNdDescriptor(DnnTensor tensor, DnnType type, int rank, const int* dims,
                                     const int* strides) {
  return Called([&] { *tensor = {type, {dims, dims + rank}, {strides, strides + rank}}; });
}
DnnStatus cudnnDestroyTensorDescriptor(DnnTensor tensor) { return Delete(tensor); }
DnnStatus cudnnCreateFilterDescriptor(DnnFilter* filter) { return New(filter); }
DnnStatus cudnnSetFilterNdDescriptor(DnnFilter filter, DnnType type, DnnFormat, int rank,
                                     const int* dims) {
  return Called([&] { *filter = {type, {dims, dims + rank}}; });
}
DnnStatus cudnnDestroyFilterDescriptor(DnnFilter filter) { return Delete(filter); }
DnnStatus cudnnCreateConvolutionDescriptor(DnnConvolution* convolution) { return New(convolution); }
DnnStatus cudnnSetConvolutionNdDescriptor(DnnConvolution convolution, int axes, const int* pads,
                                          const int* strides, const int* dilations,
                                          DnnConvolutionMode mode, DnnType compute) {
  if (mode != kDnnCrossCorrelation) return kDnnBadParam;
  return Called([&] {
    convolution->pads.assign(pads, pads + axes);
    convolution->strides.assign(strides, strides + axes);
    convolution->dilations.assign(dilations, dilations + axes);
    convolution->compute = compute;
  });
}
DnnStatus cudnnSetConvolutionGroupCount(DnnConvolution convolution, int groups) {
  return Called([&] { convolution->groups = groups; });
}
DnnStatus cudnnSetConvolutionMathType(DnnConvolution convolution, DnnMath math) {
  return Called([&] { convolution->math = math; });
}
DnnStatus cudnnDestroyConvolutionDescriptor(DnnConvolution convolution) {
  return Delete(convolution);
}
DnnStatus cudnnCreatePoolingDescriptor(DnnPooling* pooling) { return New(pooling); }
DnnStatus cudnnSetPoolingNdDescriptor(DnnPooling pooling, DnnPoolingMode mode, DnnNan nan, int axes,
                                      const int* window, const int* pads, const int* strides) {
  if (nan != kDnnPropagateNan) return kDnnBadParam;
  return Called([&] {
    *pooling = {mode, {window, window + axes}, {pads, pads + axes}, {strides, strides + axes}};
  });
}
DnnStatus cudnnDestroyPoolingDescriptor(DnnPooling pooling) { return Delete(pooling); }
DnnStatus cudnnCreateActivationDescriptor(DnnActivation* activation) { return New(activation); }
DnnStatus cudnnSetActivationDescriptor(DnnActivation activation, DnnActivationMode mode, DnnNan nan,
                                       double) {
  if (nan != kDnnPropagateNan) return kDnnBadParam;
  return Called([&] { activation->mode = mode; });
}
DnnStatus cudnnDestroyActivationDescriptor(DnnActivation activation) { return Delete(activation); }

DnnStatus cudnnGetConvolutionForwardAlgorithm_v7(DnnHandle, DnnTensor x, DnnFilter w,
                                                 DnnConvolution convolution, DnnTensor y, int asked,
                                                 int* count, DnnPerf* found) {
  if (const int failure = State().Next()) return static_cast<DnnStatus>(failure);
  if (!Fits(*x, *w, *convolution, *y)) return kDnnBadParam;
  return Perfs(asked, count, found);
}
DnnStatus cudnnGetConvolutionBackwardDataAlgorithm_v7(DnnHandle, DnnFilter w, DnnTensor dy,
                                                      DnnConvolution convolution, DnnTensor dx,
                                                      int asked, int* count, DnnPerf* found) {
  if (const int failure = State().Next()) return static_cast<DnnStatus>(failure);
  if (!Fits(*dx, *w, *convolution, *dy)) return kDnnBadParam;
  return Perfs(asked, count, found);
}

DnnStatus cudnnGetConvolutionBackwardFilterAlgorithm_v7(DnnHandle, DnnTensor x, DnnTensor dy,
                                                        DnnConvolution convolution, DnnFilter dw,
                                                        int asked, int* count, DnnPerf* found) {
  if (const int failure = State().Next()) return static_cast<DnnStatus>(failure);
  if (!Fits(*x, *dw, *convolution, *dy)) return kDnnBadParam;
  return Perfs(asked, count, found);
}

DnnStatus cudnnConvolutionForward(DnnHandle handle, const void* alpha, DnnTensor x_desc,
                                  const void* x, DnnFilter w_desc, const void* w,
                                  DnnConvolution convolution, DnnAlgo, void* workspace,
                                  size_t workspace_bytes, const void* beta, DnnTensor y_desc,
                                  void* y) {
  if (const int failure = State().Next()) return static_cast<DnnStatus>(failure);
  if (!Fits(*x_desc, *w_desc, *convolution, *y_desc)) return kDnnBadParam;
  if (Number(alpha, y_desc->type) != 1 || Number(beta, y_desc->type) != 0) return kDnnBadParam;
  const Item item = ItemOf(y_desc->type);
  std::vector<double> xs, ws, ys(Count(y_desc->dims));
  if (!TouchWorkspace(workspace, workspace_bytes, handle->stream) ||
      !Fetch(x, Count(x_desc->dims), item, handle->stream, xs) ||
      !Fetch(w, Count(w_desc->dims), item, handle->stream, ws))
    return kDnnExecutionFailed;
  ForEachProduct(x_desc->dims, w_desc->dims, *convolution, y_desc->dims,
                 [&](size_t i, size_t j, size_t k) { ys[k] += xs[i] * ws[j]; });
  ++State().computed;
  return Store(y, ys, item, handle->stream) ? kDnnSuccess : kDnnExecutionFailed;
}

DnnStatus cudnnConvolutionBiasActivationForward(
    DnnHandle handle, const void* alpha1, DnnTensor x_desc, const void* x, DnnFilter w_desc,
    const void* w, DnnConvolution convolution, DnnAlgo algo, void* workspace,
    size_t workspace_bytes, const void* alpha2, DnnTensor z_desc, const void* z,
    DnnTensor bias_desc, const void* bias, DnnActivation activation, DnnTensor y_desc, void* y) {
  if (const int failure = State().Next()) return static_cast<DnnStatus>(failure);
  if (!Fits(*x_desc, *w_desc, *convolution, *y_desc) || z_desc->dims != y_desc->dims)
    return kDnnBadParam;
  if (activation->mode == kDnnIdentity && algo != kDnnImplicitPrecompGemm) return kDnnBadParam;
  if (x_desc->dims[1] == 2 || x_desc->type == kDnnBFloat16) return kShape;  // some it has not
  const Item item = ItemOf(y_desc->type);
  const double alpha = Number(alpha1, y_desc->type), with_z = Number(alpha2, y_desc->type);
  std::vector<double> xs, ws, zs, vector, ys(Count(y_desc->dims));
  if (!TouchWorkspace(workspace, workspace_bytes, handle->stream) ||
      !Fetch(x, Count(x_desc->dims), item, handle->stream, xs) ||
      !Fetch(w, Count(w_desc->dims), item, handle->stream, ws) ||
      !Fetch(bias, Count(bias_desc->dims), item, handle->stream, vector) ||
      (with_z != 0 && !Fetch(z, ys.size(), item, handle->stream, zs)))
    return kDnnExecutionFailed;
  if (vector.size() != static_cast<size_t>(y_desc->dims[1])) return kDnnBadParam;
  ForEachProduct(x_desc->dims, w_desc->dims, *convolution, y_desc->dims,
                 [&](size_t i, size_t j, size_t k) { ys[k] += alpha * xs[i] * ws[j]; });
  for (Walk at(y_desc->dims); at.more; at.Next()) {
    double& one = ys[at.index()];
    one += vector[static_cast<size_t>(at.at[1])] + (with_z != 0 ? with_z * zs[at.index()] : 0);
    one = Activated(one, activation->mode);
  }
  ++State().computed;
  return Store(y, ys, item, handle->stream) ? kDnnSuccess : kDnnExecutionFailed;
}

DnnStatus cudnnConvolutionBackwardData(DnnHandle handle, const void* alpha, DnnFilter w_desc,
                                       const void* w, DnnTensor dy_desc, const void* dy,
                                       DnnConvolution convolution, DnnAlgo, void* workspace,
                                       size_t workspace_bytes, const void* beta, DnnTensor dx_desc,
                                       void* dx) {
  if (const int failure = State().Next()) return static_cast<DnnStatus>(failure);
  if (!Fits(*dx_desc, *w_desc, *convolution, *dy_desc)) return kDnnBadParam;
  if (Number(alpha, dx_desc->type) != 1 || Number(beta, dx_desc->type) != 0) return kDnnBadParam;
  const Item item = ItemOf(dx_desc->type);
  std::vector<double> ws, dys, dxs(Count(dx_desc->dims));
  if (!TouchWorkspace(workspace, workspace_bytes, handle->stream) ||
      !Fetch(w, Count(w_desc->dims), item, handle->stream, ws) ||
      !Fetch(dy, Count(dy_desc->dims), item, handle->stream, dys))
    return kDnnExecutionFailed;
  ForEachProduct(dx_desc->dims, w_desc->dims, *convolution, dy_desc->dims,
                 [&](size_t i, size_t j, size_t k) { dxs[i] += ws[j] * dys[k]; });
  ++State().computed;
  return Store(dx, dxs, item, handle->stream) ? kDnnSuccess : kDnnExecutionFailed;
}

DnnStatus cudnnConvolutionBackwardFilter(DnnHandle handle, const void* alpha, DnnTensor x_desc,
                                         const void* x, DnnTensor dy_desc, const void* dy,
                                         DnnConvolution convolution, DnnAlgo, void* workspace,
                                         size_t workspace_bytes, const void* beta,
                                         DnnFilter dw_desc, void* dw) {
  if (const int failure = State().Next()) return static_cast<DnnStatus>(failure);
  if (!Fits(*x_desc, *dw_desc, *convolution, *dy_desc)) return kDnnBadParam;
  if (Number(alpha, x_desc->type) != 1 || Number(beta, x_desc->type) != 0) return kDnnBadParam;
  const Item item = ItemOf(x_desc->type);
  std::vector<double> xs, dys, dws(Count(dw_desc->dims));
  if (!TouchWorkspace(workspace, workspace_bytes, handle->stream) ||
      !Fetch(x, Count(x_desc->dims), item, handle->stream, xs) ||
      !Fetch(dy, Count(dy_desc->dims), item, handle->stream, dys))
    return kDnnExecutionFailed;
  ForEachProduct(x_desc->dims, dw_desc->dims, *convolution, dy_desc->dims,
                 [&](size_t i, size_t j, size_t k) { dws[j] += xs[i] * dys[k]; });
  ++State().computed;
  return Store(dw, dws, item, handle->stream) ? kDnnSuccess : kDnnExecutionFailed;
}

DnnStatus cudnnAddTensor(DnnHandle handle, const void* alpha, DnnTensor a_desc, const void* a,
                         const void* beta, DnnTensor y_desc, void* y) {
  if (const int failure = State().Next()) return static_cast<DnnStatus>(failure);
  if (y_desc->type == kDnnBFloat16) return kShape;
  const Item item = ItemOf(y_desc->type);
  std::vector<double> as, ys;
  if (!Fetch(a, Count(a_desc->dims), item, handle->stream, as) ||
      !Fetch(y, Count(y_desc->dims), item, handle->stream, ys))
    return kDnnExecutionFailed;
  for (Walk at(y_desc->dims); at.more; at.Next()) {
    Ints of = at.at;
    for (size_t i = 0; i < of.size(); ++i)
      if (a_desc->dims[i] == 1) of[i] = 0;
    double& one = ys[at.index()];
    one = Number(alpha, y_desc->type) * as[IndexOf(a_desc->dims, of)] +
          Number(beta, y_desc->type) * one;
  }
  return Store(y, ys, item, handle->stream) ? kDnnSuccess : kDnnExecutionFailed;
}

DnnStatus cudnnActivationForward(DnnHandle handle, DnnActivation activation, const void*,
                                 DnnTensor x_desc, const void* x, const void*, DnnTensor, void* y) {
  if (const int failure = State().Next()) return static_cast<DnnStatus>(failure);
  if (x_desc->type == kDnnBFloat16) return kShape;
  const Item item = ItemOf(x_desc->type);
  std::vector<double> values;
  if (!Fetch(x, Count(x_desc->dims), item, handle->stream, values)) return kDnnExecutionFailed;
  for (double& value : values) value = Activated(value, activation->mode);
  return Store(y, values, item, handle->stream) ? kDnnSuccess : kDnnExecutionFailed;
}

DnnStatus cudnnPoolingForward(DnnHandle handle, DnnPooling pooling, const void* alpha,
                              DnnTensor x_desc, const void* x, const void* beta, DnnTensor y_desc,
                              void* y) {
  if (const int failure = State().Next()) return static_cast<DnnStatus>(failure);
  if (!Pools(*x_desc, *pooling, *y_desc) || Number(alpha, y_desc->type) != 1 ||
      Number(beta, y_desc->type) != 0)
    return kDnnBadParam;
  if (y_desc->type == kDnnBFloat16) return kShape;
  const bool maximum = pooling->mode == kDnnMaxDeterministic;
  const Item item = ItemOf(y_desc->type);
  std::vector<double> xs, ys(Count(y_desc->dims));
  if (!Fetch(x, Count(x_desc->dims), item, handle->stream, xs)) return kDnnExecutionFailed;
  for (Walk out(y_desc->dims); out.more; out.Next()) {
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    const std::vector<size_t> window = WindowAt(x_desc->dims, *pooling, out.at);
    for (const size_t at : window) {
      if (xs[at] > most || std::isnan(xs[at])) most = xs[at];  // and a NaN is not replaced
      sum += xs[at];
    }
    ys[out.index()] = maximum ? most : sum / Divisor(*pooling, window.size());
  }
  ++State().computed;
  return Store(y, ys, item, handle->stream) ? kDnnSuccess : kDnnExecutionFailed;
}

// Of averages, whose y and x it does not read. Of a maximum the real one may take any of several.
DnnStatus cudnnPoolingBackward(DnnHandle handle, DnnPooling pooling, const void* alpha,
                               DnnTensor y_desc, const void* y, DnnTensor dy_desc, const void* dy,
                               DnnTensor x_desc, const void* x, const void* beta, DnnTensor dx_desc,
                               void* dx) {
  if (const int failure = State().Next()) return static_cast<DnnStatus>(failure);
  if (y_desc->dims != dy_desc->dims || x_desc->dims != dx_desc->dims || y == nullptr ||
      x == nullptr || !Pools(*dx_desc, *pooling, *dy_desc) || Number(alpha, dx_desc->type) != 1 ||
      Number(beta, dx_desc->type) != 0)
    return kDnnBadParam;
  if (pooling->mode == kDnnMaxDeterministic || dx_desc->type == kDnnBFloat16) return kShape;
  const Item item = ItemOf(dx_desc->type);
  std::vector<double> dys, dxs(Count(dx_desc->dims));
  if (!Fetch(dy, Count(dy_desc->dims), item, handle->stream, dys)) return kDnnExecutionFailed;
  for (Walk out(dy_desc->dims); out.more; out.Next()) {
    const std::vector<size_t> window = WindowAt(dx_desc->dims, *pooling, out.at);
    for (const size_t at : window) dxs[at] += dys[out.index()] / Divisor(*pooling, window.size());
  }
  ++State().computed;
  return Store(dx, dxs, item, handle->stream) ? kDnnSuccess : kDnnExecutionFailed;
}
// NOLINTEND(readability-identifier-naming)

}  // namespace kiln::cuda
