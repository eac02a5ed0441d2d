// SPDX-License-Identifier: Apache-2.0
// Tensors by DLPack, against a producer and a consumer with structs of their own.
#include "kiln/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/dlpack.h"
#include "base/tensor.h"
#include "tests/base/status_matchers.h"

// As a program's own header has them.
struct DLDevice {
  int32_t device_type, device_id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
  DLTensor dl_tensor;
};

namespace kiln {
namespace {

using testing::ElementsAre;

// As a consumer does. Kiln's deleter is a C function whose type names the structs otherwise.
template <typename Managed>
__attribute__((no_sanitize("undefined"))) void GiveBack(Managed* managed) {
  managed->deleter(managed);
}

// Memory that somebody else owns, [2, 3] f32 unless it is changed.
template <typename Managed>
struct Producer {
  std::vector<float> data = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<int64_t> shape = {2, 3}, strides = {3, 1};
  std::atomic<int> deleted{0};
  Managed managed{};

  Producer() {
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Producer*>(self->manager_ctx)->deleted; };
    managed.dl_tensor = {data.data(), {1, 0}, 2, {2, 32, 1}, shape.data(), strides.data(), 0};
    if constexpr (requires { managed.major; }) managed.major = 1;
  }
  DLTensor& tensor() { return managed.dl_tensor; }
};
using Versioned = Producer<DLManagedTensorVersioned>;
using Unversioned = Producer<DLManagedTensor>;

template <typename P>
class DLPackIn : public testing::Test {};
using Producers = testing::Types<Versioned, Unversioned>;
TYPED_TEST_SUITE(DLPackIn, Producers);

TYPED_TEST(DLPackIn, ViewsAndGivesBackOnce) {
  TypeParam producer;
  {
    KILN_ASSERT_OK_AND_ASSIGN(Tensor tensor, FromDLPack(&producer.managed));
    EXPECT_EQ(tensor.data(), producer.data.data());
    EXPECT_EQ(tensor.dtype(), DType::kF32);
    EXPECT_THAT(tensor.shape(), ElementsAre(2, 3));
    EXPECT_FALSE(IsReadOnly(tensor));
    const Tensor copy = tensor;
    const Tensor part = Tensor::View(copy.data(), DType::kF32, {2}, {}, copy.owner());
    tensor = Tensor();
    EXPECT_EQ(producer.deleted, 0);
  }
  EXPECT_EQ(producer.deleted, 1);
}

TYPED_TEST(DLPackIn, IsGivenBackOnAnyThread) {
  TypeParam producer;
  KILN_ASSERT_OK_AND_ASSIGN(Tensor tensor, FromDLPack(&producer.managed));
  std::thread other([last = std::move(tensor)]() mutable { last = Tensor(); });
  other.join();
  EXPECT_EQ(producer.deleted, 1);
}

TYPED_TEST(DLPackIn, TakesLayouts) {
  TypeParam producer;
  producer.tensor().byte_offset = 8;
  producer.strides = {1, 2};
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor strided, FromDLPack(&producer.managed));
  EXPECT_EQ(strided.data(), producer.data.data() + 2);
  const Tensor dense = strided.Clone();
  EXPECT_EQ(static_cast<const float*>(dense.data())[1], 4);  // 2 + 1 * 2
  TypeParam plain;
  plain.tensor().strides = nullptr;
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor same, FromDLPack(&plain.managed));
  EXPECT_THAT(same.strides(), ElementsAre(3, 1));
  TypeParam empty;
  empty.shape = {2, 0};
  empty.strides = {77, 99};
  empty.tensor().data = nullptr;
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor nothing, FromDLPack(&empty.managed));
  EXPECT_EQ(nothing.num_elements(), 0);
  TypeParam scalar;
  scalar.tensor().ndim = 0;
  scalar.tensor().shape = scalar.tensor().strides = nullptr;
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor one, FromDLPack(&scalar.managed));
  EXPECT_EQ(one.rank(), 0);
  TypeParam nobodys;
  nobodys.managed.deleter = nullptr;
  KILN_EXPECT_OK(FromDLPack(&nobodys.managed).status());
}

// What lies on a GPU stays there, and is told so to the next library.
TYPED_TEST(DLPackIn, KeepsTheDevice) {
  TypeParam producer;
  producer.tensor().device = {2, 3};
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor tensor, FromDLPack(&producer.managed));
  EXPECT_EQ(tensor.device(), (Device{DeviceKind::kCuda, 3}));
  EXPECT_THROW(tensor.Clone(), std::invalid_argument);
  KILN_ASSERT_OK_AND_ASSIGN(DLManagedTensorVersioned* const out, ToDLPack(tensor));
  EXPECT_EQ(out->dl_tensor.device.device_type, 2);
  EXPECT_EQ(out->dl_tensor.device.device_id, 3);
  GiveBack(out);
}

TYPED_TEST(DLPackIn, RefusesWhatIsMalformedAndDoesNotDelete) {
  using Change = std::function<void(TypeParam&)>;
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const auto expect = [](const Change& change, absl::StatusCode code, const std::string& text) {
    TypeParam producer;
    change(producer);
    const auto tensor = FromDLPack(&producer.managed);
    EXPECT_EQ(tensor.status().code(), code) << text;
    EXPECT_EQ(tensor.status().message(), text);
    EXPECT_EQ(producer.deleted, 0);
  };
  expect([](TypeParam& p) { p.tensor().device.device_type = 7; }, absl::StatusCode::kUnimplemented,
         "DLPack: device type 7 is neither the CPU (1) nor CUDA (2); copy the tensor to the CPU");
  expect([](TypeParam& p) { p.tensor().device = {2, -1}; }, kInvalid, "DLPack: device -1 of CUDA");
  expect([](TypeParam& p) { p.tensor().dtype.lanes = 4; }, kInvalid,
         "DLPack: elements of 4 lanes; give single elements, with a dim for them");
  expect(
      [](TypeParam& p) {
        p.tensor().dtype = {5, 64, 1};
      },
      kInvalid, "DLPack: type code 5 of 64 bits is none of Kiln's; convert it");
  expect([](TypeParam& p) { p.tensor().ndim = -1; }, kInvalid,
         "DLPack: ndim is -1, expected 0 to 64");
  expect([](TypeParam& p) { p.tensor().ndim = 65; }, kInvalid,
         "DLPack: ndim is 65, expected 0 to 64");
  expect([](TypeParam& p) { p.tensor().shape = nullptr; }, kInvalid,
         "DLPack: ndim is 2, but no shape");
  expect(
      [](TypeParam& p) {
        p.shape = {2, -3};
      },
      kInvalid, "DLPack: shape [2, -3] is negative, or too large");
  expect(
      [](TypeParam& p) {
        p.shape = {int64_t{1} << 40, int64_t{1} << 40};
      },
      kInvalid, "DLPack: shape [1099511627776, 1099511627776] is negative, or too large");
  expect([](TypeParam& p) { p.tensor().data = nullptr; }, kInvalid, "DLPack: no data for 24 bytes");
  expect([](TypeParam& p) { p.tensor().byte_offset = UINT64_MAX; }, kInvalid,
         "DLPack: byte_offset 18446744073709551615 leads out of memory");
  expect(
      [](TypeParam& p) {
        p.strides = {INT64_MIN, 1};
      },
      kInvalid, "DLPack: strides [-9223372036854775808, 1] lead out of memory");
}

TEST(DLPack, VersionsAndNull) {
  Versioned producer;
  producer.managed.major = 2;
  producer.managed.minor = 3;
  EXPECT_EQ(FromDLPack(&producer.managed).status().message(),
            "DLPack: version 2.3, expected 1.x; ask the producer for that");
  EXPECT_EQ(producer.deleted, 0);
  producer.managed.major = 1;
  producer.managed.minor = 99;
  KILN_EXPECT_OK(FromDLPack(&producer.managed).status());
  EXPECT_EQ(producer.deleted, 1);
  EXPECT_EQ(FromDLPack(static_cast<DLManagedTensor*>(nullptr)).status().message(), "DLPack: null");
}

TEST(DLPack, ReadOnlyIsCarriedOn) {
  Versioned producer;
  producer.managed.flags = 1;
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor tensor, FromDLPack(&producer.managed));
  const Tensor part = Tensor::View(tensor.data(), DType::kF32, {2}, {}, tensor.owner());
  EXPECT_TRUE(IsReadOnly(part));
  EXPECT_FALSE(IsReadOnly(part.Clone()));
  EXPECT_FALSE(IsReadOnly(Tensor()));
  KILN_ASSERT_OK_AND_ASSIGN(DLManagedTensorVersioned* const again, ToDLPack(part));
  EXPECT_EQ(again->flags, 1u);
  GiveBack(again);
  EXPECT_EQ(ToUnversionedDLPack(part).status().message(),
            "DLPack: the tensor is read-only, which the older form cannot say; use ToDLPack, or a "
            "copy");
}

TEST(DLPack, GivesAllTypesAndTakesThemBack) {
  for (int k = 0; k < kNumDTypes; ++k) {
    const auto type = static_cast<DType>(k);
    SCOPED_TRACE(Name(type));
    Tensor tensor = Tensor::Allocate(type, {2, 3});
    const std::weak_ptr<void> alive = tensor.owner();
    void* const data = tensor.data();
    KILN_ASSERT_OK_AND_ASSIGN(DLManagedTensorVersioned* const made, ToDLPack(tensor));
    tensor = Tensor();
    EXPECT_FALSE(alive.expired());
    EXPECT_EQ(made->major, 1u);
    EXPECT_EQ(made->flags, 0u);
    EXPECT_EQ(made->dl_tensor.data, data);
    EXPECT_EQ(made->dl_tensor.dtype.bits, 8 * SizeOf(type));
    EXPECT_EQ(made->dl_tensor.dtype.lanes, 1);
    EXPECT_EQ(made->dl_tensor.shape[1], 3);
    EXPECT_EQ(made->dl_tensor.strides[0], 3);
    {
      KILN_ASSERT_OK_AND_ASSIGN(const Tensor back, FromDLPack(made));
      EXPECT_EQ(back.dtype(), type);
      EXPECT_EQ(back.data(), data);
    }
    EXPECT_TRUE(alive.expired());
  }
  // As the standard numbers them.
  const auto code = [](DType type) {
    DLManagedTensor* const made = *ToUnversionedDLPack(Tensor::Allocate(type, {1}));
    const DLDataType of = made->dl_tensor.dtype;
    GiveBack(made);
    return std::pair<int, int>(of.code, of.bits);
  };
  EXPECT_EQ(code(DType::kI8), std::pair(0, 8));
  EXPECT_EQ(code(DType::kU16), std::pair(1, 16));
  EXPECT_EQ(code(DType::kF16), std::pair(2, 16));
  EXPECT_EQ(code(DType::kBF16), std::pair(4, 16));
  EXPECT_EQ(code(DType::kBool), std::pair(6, 8));
}

TEST(DLPack, GivesViewsAsTheyLie) {
  std::vector<float> memory(12);
  const Tensor columns = Tensor::View(memory.data() + 11, DType::kF32, {3, 4}, {-4, -1});
  KILN_ASSERT_OK_AND_ASSIGN(DLManagedTensor* const made, ToUnversionedDLPack(columns));
  EXPECT_EQ(made->dl_tensor.strides[0], -4);
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor back, FromDLPack(made));
  EXPECT_EQ(back.strides(), columns.strides());
  EXPECT_EQ(back.data(), columns.data());
}

}  // namespace
}  // namespace kiln
