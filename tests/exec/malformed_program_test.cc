// SPDX-License-Identifier: Apache-2.0
// Programs come from caches: whatever they hold, the answer is a Status. Kernels here touch the
// first and the last element of every operand, so that a sanitizer sees an address that the checks
// let through.
#include <random>
#include <string>

#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "kernel/text.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/fake_program.h"

namespace kiln {
namespace {

using testing::HasSubstr;

struct Counts {
  size_t inputs, dims, params, outputs;
};

void Corners(const BufferArg& buffer, bool write) {
  int64_t low = 0, high = 0;
  for (int32_t i = 0; i < buffer.dimensions; ++i) {
    if (buffer.dim[i].extent == 0) return;
    const int64_t step = (int64_t{buffer.dim[i].extent} - 1) * buffer.dim[i].stride;
    (step < 0 ? low : high) += step;
  }
  const int64_t item = buffer.type_bits / 8;
  for (const int64_t at : {low * item, high * item + item - 1}) {
    volatile uint8_t& byte = buffer.host[at];
    const uint8_t value = byte;
    if (write) byte = value;
  }
}

int TouchFn(void** argv) {
  const auto& counts =
      *static_cast<const Counts*>((*static_cast<LaunchContext**>(argv[0]))->kernel);
  for (size_t i = 0; i < counts.inputs; ++i) Corners(*static_cast<BufferArg*>(argv[1 + i]), false);
  const size_t first = 1 + counts.inputs + counts.dims + counts.params;
  for (size_t i = 0; i < counts.outputs; ++i)
    Corners(*static_cast<BufferArg*>(argv[first + i]), true);
  return 0;
}

// Supplies kernels for whatever the message declares.
void SupplyKernels(Variant& variant) {
  variant.kernels.clear();
  for (const program::KernelDef& def : variant.program.kernels()) {
    auto counts = std::make_shared<Counts>();
    if (const auto kernel = ParseKernel(def.text()); kernel.ok()) {
      *counts = {kernel->inputs.size(), kernel->dims.size(), kernel->params.size(),
                 kernel->outputs.size()};
    }
    auto function = std::make_shared<KernelFunction>();
    function->run = TouchFn;
    function->self = counts.get();
    function->owner = counts;
    variant.kernels.emplace_back();
    for (int j = 0; j < def.choices_size(); ++j) {
      variant.kernels.back().push_back(std::make_shared<KernelHandle>(function));
    }
  }
}

// One of everything.
FakeProgram Everything() {
  FakeProgram p;
  const int x = p.Input("x", {"n", "4"}), o = p.Input("o", {"n"}, true),
            w = p.Constant(Values(std::vector<float>(16), {4, 4}));
  const int a = p.Temporary({"n", "4"}), b = p.Temporary({"4*n"}), c = p.Temporary({"4*n"}),
            whole = p.Temporary({"8*n"});
  const int y = p.Output("y", {"8*n"}), z = p.Output("z", {"4", "n"}), d = p.Output("d", {"2"}),
            q = p.Output("q", {"n", "1", "2"});
  program::LibraryThunk& mm = p.Library("matmul");
  FakeProgram::Ref(*mm.add_inputs(), x, {"n", "4"});
  FakeProgram::Ref(*mm.add_inputs(), w, {"4", "4"});
  FakeProgram::Ref(*mm.add_outputs(), a, {"n", "4"});
  p.View(a, "", b, {"4*n"});
  p.SubRange(c, whole, "16*n");
  const int head = p.Temporary({"4*n"});
  p.SubRange(head, whole, "0");
  p.Kernel(kScale, {b}, {c}, {"4*n"}, {2});
  p.Kernel(kMix, {b, b}, {head}, {"4*n"});
  p.Kernel(kNegate, {whole}, {y}, {"8*n"});
  p.Copy(x, z, {"n", "4"}, {}, {"1", "n"});
  program::HostThunk& host = *p.region().add_thunks()->mutable_host();
  host.set_op("dims");
  host.add_dims("n");
  host.add_dims("n + 1");
  FakeProgram::Ref(*host.add_outputs(), d, {"2"});
  host.mutable_outputs(0)->set_dtype(static_cast<uint32_t>(DType::kI32));
  program::LibraryThunk& pool = p.Library("max_pool");
  FakeProgram::Ref(*pool.add_inputs(), x, {"n", "1", "4"});
  FakeProgram::Ref(*pool.add_outputs(), q, {"n", "1", "2"});
  program::Attribute& kernel = *pool.add_attributes();
  kernel.set_name("kernel");
  kernel.add_ints(3);
  p.OutputOf("again", {"n", "4"}, x);
  (void)o;
  return p;
}

absl::Status TryRun(const FakeProgram& p, int64_t n) {
  KILN_RETURN_IF_ERROR(Model::Create(p.Provider(), {1}).status());
  Model model = *Model::Create(p.Provider(), {1});
  return model.Run({{"x", Values(std::vector<float>(static_cast<size_t>(4 * n)), {n, 4})}})
      .status();
}

TEST(MalformedProgram, TheProgramItselfRuns) {
  FakeProgram p = Everything();
  SupplyKernels(*p.variant);
  for (const int64_t n : {0, 1, 3}) KILN_EXPECT_OK(TryRun(p, n));
}

TEST(MalformedProgram, FlippedBytesNeverCrash) {
  const FakeProgram base = Everything();
  const std::string bytes = base.variant->program.SerializeAsString();
  std::mt19937_64 random(3);
  int ran = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string mutated = bytes;
    for (uint64_t k = 1 + random() % 3; k > 0; --k)
      mutated[random() % mutated.size()] = static_cast<char>(random() & 0x7f);
    FakeProgram p = base;
    p.variant = std::make_shared<Variant>(*base.variant);
    if (!p.variant->program.ParseFromString(mutated)) continue;
    SupplyKernels(*p.variant);
    ++(TryRun(p, 2).ok() ? ran : refused);
  }
  EXPECT_GT(ran, 0);
  EXPECT_GT(refused, 0);
}

// Changes one reference or expression somewhere to something plausible.
void MutateRef(program::TensorRef& ref, std::mt19937_64& random, int buffers) {
  static constexpr const char* kDims[] = {
      "n",   "4",          "0", "-1",   "4*n", "8*n", "9223372036854775807", "n/0", "m", "1000000",
      "n-9", "2147483648", "",  "16*n", "1",   "2",   "4611686018427387904"};
  const auto any = [&] { return kDims[random() % std::size(kDims)]; };
  const char* dim = any();
  switch (random() % 7) {
    case 0:
      ref.set_buffer(static_cast<int32_t>(random() % static_cast<uint64_t>(buffers + 2)) - 1);
      break;
    case 1:
      ref.set_offset(dim);
      break;
    case 2:
      ref.set_dtype(static_cast<uint32_t>(random() % 15));
      break;
    case 3:
      ref.add_shape(dim);
      break;
    case 4:
      if (ref.shape_size() > 0)
        ref.set_shape(static_cast<int>(random() % static_cast<uint64_t>(ref.shape_size())), dim);
      break;
    case 5:
      ref.add_strides(dim);
      break;
    default:
      ref.clear_strides();
      for (int i = 0; i < ref.shape_size(); ++i)
        ref.add_strides(i == 0 ? any() : random() % 2 ? "1" : any());
      break;
  }
}

void MutateThunk(program::Thunk& thunk, std::mt19937_64& random, int buffers) {
  const auto any = [&](auto* refs) {
    if (!refs->empty())
      MutateRef((*refs)[static_cast<int>(random() % static_cast<uint64_t>(refs->size()))], random,
                buffers);
  };
  switch (thunk.kind_case()) {
    case program::Thunk::kKernel:
      any(random() % 2 ? thunk.mutable_kernel()->mutable_inputs()
                       : thunk.mutable_kernel()->mutable_outputs());
      if (random() % 4 == 0)
        thunk.mutable_kernel()->set_kernel(static_cast<int32_t>(random() % 6) - 1);
      if (random() % 4 == 0) thunk.mutable_kernel()->set_dims(0, random() % 2 ? "n" : "2147483648");
      break;
    case program::Thunk::kLibrary:
      any(random() % 2 ? thunk.mutable_library()->mutable_inputs()
                       : thunk.mutable_library()->mutable_outputs());
      if (random() % 4 == 0)
        thunk.mutable_library()->set_op(random() % 2 ? "conv" : "average_pool");
      break;
    case program::Thunk::kView:
      MutateRef(random() % 2 ? *thunk.mutable_view()->mutable_from()
                             : *thunk.mutable_view()->mutable_to(),
                random, buffers);
      break;
    case program::Thunk::kCopy:
      MutateRef(random() % 2 ? *thunk.mutable_copy()->mutable_from()
                             : *thunk.mutable_copy()->mutable_to(),
                random, buffers);
      break;
    case program::Thunk::kHost:
      any(thunk.mutable_host()->mutable_outputs());
      break;
    default:
      break;
  }
}

TEST(MalformedProgram, PlausibleMistakesNeverCrash) {
  const FakeProgram base = Everything();
  std::mt19937_64 random(4);
  int ran = 0, refused = 0;
  for (int round = 0; round < 6000; ++round) {
    FakeProgram p = base;
    p.variant = std::make_shared<Variant>(*base.variant);
    program::Program& proto = p.proto();
    program::Region& region = p.region();
    for (uint64_t k = 1 + random() % 2; k > 0; --k) {
      const int thunk = static_cast<int>(random() % static_cast<uint64_t>(region.thunks_size()));
      switch (random() % 8) {
        case 0:
          region.mutable_thunks()->SwapElements(thunk, 0);
          break;
        case 1:
          region.mutable_thunks()->DeleteSubrange(thunk, 1);
          break;
        case 2: {
          program::SubRange& range = *proto.add_sub_ranges();
          range.set_buffer(static_cast<int32_t>(random() % 14) - 1);
          range.set_of(static_cast<int32_t>(random() % 14) - 1);
          break;
        }
        case 3: {
          program::Buffer& buffer = *proto.mutable_buffers(
              static_cast<int>(random() % static_cast<uint64_t>(proto.buffers_size())));
          if (random() % 4 == 0)
            buffer.set_device("cuda");
          else if (random() % 2)
            buffer.set_kind(static_cast<program::Buffer::Kind>(random() % 6));
          else
            buffer.set_bytes(random() % 2 ? "-4" : "9223372036854775807");
          break;
        }
        default:
          MutateThunk(*region.mutable_thunks(thunk), random, proto.buffers_size());
          break;
      }
      if (region.thunks_size() == 0) break;
    }
    SupplyKernels(*p.variant);
    ++(TryRun(p, static_cast<int64_t>(random() % 4)).ok() ? ran : refused);
  }
  EXPECT_GT(ran, 100);
  EXPECT_GT(refused, 1000);
}

TEST(MalformedProgram, ErrorsSayWhatIsWrong) {
  const auto expect = [](void (*change)(FakeProgram&), absl::StatusCode code, const char* text) {
    FakeProgram p = Everything();
    change(p);
    SupplyKernels(*p.variant);
    EXPECT_THAT(TryRun(p, 2), StatusIs(code, HasSubstr(text)));
  };
  using P = FakeProgram;
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const auto refused = absl::StatusCode::kUnimplemented;
  expect(
      [](P& p) {
        p.region().mutable_thunks(0)->mutable_library()->mutable_inputs(0)->set_buffer(99);
      },
      invalid, "thunk 0 \"matmul\": buffer 99 does not exist");
  expect([](P& p) { p.region().mutable_thunks(0)->mutable_library()->set_op("lstm"); }, refused,
         "\"lstm\"");
  expect([](P& p) { p.proto().mutable_buffers(0)->set_device("cuda"); }, invalid,
         "a port on device \"cuda\"");
  expect([](P& p) { p.proto().mutable_buffers(0)->set_device("npu"); }, refused,
         "device \"npu\" is unknown");
  const auto all_on_device = [](P& p) {
    for (program::Buffer& buffer : *p.proto().mutable_buffers())
      if (buffer.kind() == program::Buffer::TEMPORARY) buffer.set_device("cuda");
  };
  expect(all_on_device, invalid, "thunk 0 \"matmul\": has operands on the host and on device");
  expect(
      [](P& p) {
        p.proto()
            .mutable_buffers(p.region().thunks(2).kernel().inputs(0).buffer())
            ->set_device("cuda");
      },
      invalid, "on the host and on device \"cuda\"");
  expect([](P& p) { p.proto().mutable_kernels(0)->set_text("kernel v9"); }, invalid,
         "kernel 0 \"scale\"");
  expect([](P& p) { p.region().mutable_thunks(2)->mutable_kernel()->set_params(0, "toolong"); },
         invalid, "7 bytes");
  expect(
      [](P& p) {
        p.region().mutable_thunks(2)->mutable_kernel()->mutable_inputs(0)->set_offset("4");
      },
      invalid, "reaches outside");
  expect(
      [](P& p) {
        p.region().mutable_thunks(2)->mutable_kernel()->mutable_inputs(0)->set_offset("-4");
      },
      invalid, "begins outside");
  // Of an axis with one element.
  expect(
      [](P& p) {
        program::TensorRef& ref =
            *p.region().mutable_thunks(7)->mutable_library()->mutable_outputs(0);
        for (const char* stride : {"2", "4611686018427387904", "1"}) ref.add_strides(stride);
      },
      invalid, "reaches outside");
  expect([](P& p) { p.region().mutable_thunks(2)->mutable_kernel()->set_dims(0, "n"); }, invalid,
         "the kernel's dim 0 is 2");
  expect([](P& p) { p.region().mutable_thunks(2)->mutable_kernel()->set_dims(0, "3000000000000"); },
         absl::StatusCode::kOutOfRange, "3000000000000");
  expect([](P& p) { p.proto().mutable_sub_ranges(0)->set_of(99); }, invalid,
         "is a range of buffer 99: no such buffer");
  expect([](P& p) { p.proto().mutable_constants(0)->set_shape(0, 16); }, invalid,
         "constant 0 is declared as type 0 [16, 4]; f32 [4, 4] is supplied");
  expect([](P& p) { p.variant->constants.clear(); }, invalid, "1 constants declared, 0 supplied");
}

}  // namespace
}  // namespace kiln
