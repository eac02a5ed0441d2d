// SPDX-License-Identifier: Apache-2.0
// Forged packages, each with what is said of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cpu_features.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "exec/package/package.h"
#include "persistent_cache/pack.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/fuzz/package_parts.h"
#include "tests/fuzz/packages_fuzz_models.h"

namespace kiln {
namespace {

using testing::HasSubstr;

class ForgedPackage : public testing::Test {
 protected:
  void SetUp() override {
    KILN_ASSERT_OK_AND_ASSIGN(const std::string bytes,
                              PackageOf(FuzzGraphs().front(), dir_.File("cache")));
    Write(bytes);
    parts_ = TakeApart(bytes);
  }

  void Write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  // The package's own description, changed.
  void Change(const std::function<void(packaged::Package&)>& change) {
    packaged::Package package;
    ASSERT_TRUE(package.ParseFromString(parts_.section("package")));
    change(package);
    parts_.section("package") = package.SerializeAsString();
  }
  void ChangePrograms(const std::function<void(program::Program&)>& change) {
    Change([&](packaged::Package& package) {
      for (packaged::Variant& variant : *package.mutable_targets(0)->mutable_variants()) {
        program::Program program;
        ASSERT_TRUE(program.ParseFromString(variant.program()));
        change(program);
        variant.set_program(program.SerializeAsString());
      }
    });
  }
  absl::StatusOr<Model> Load() {
    Write(PutTogether(parts_));
    return LoadPackage(path_, {.threads = 1});
  }
  absl::Status LoadAndRun() {
    KILN_ASSIGN_OR_RETURN(Model model, Load());
    std::mt19937_64 random(1);
    return RunAndRead(model, 3, random);
  }

  TempDir dir_;
  const std::string path_ = dir_.File("m.kiln");
  PackageParts parts_;
};

TEST_F(ForgedPackage, ItRunsAsItIs) { KILN_EXPECT_OK(LoadAndRun()); }

TEST_F(ForgedPackage, AThunkWithoutOutputsIsRefused) {
  ChangePrograms([](program::Program& program) {
    for (program::Thunk& thunk : *program.mutable_regions(0)->mutable_thunks()) {
      if (thunk.has_library()) thunk.mutable_library()->clear_outputs();
    }
  });
  EXPECT_TRUE(absl::IsInvalidArgument(LoadAndRun()));
}

// Its work would not be bounded by the memory that it writes.
TEST_F(ForgedPackage, AnOutputWhoseElementsShareMemoryIsRefused) {
  ChangePrograms([](program::Program& program) {
    for (program::Thunk& thunk : *program.mutable_regions(0)->mutable_thunks()) {
      if (!thunk.has_library()) continue;
      program::TensorRef& to = *thunk.mutable_library()->mutable_outputs(0);
      to.clear_strides();
      for (int axis = 0; axis < to.shape_size(); ++axis) to.add_strides("0");
    }
  });
  const absl::Status status = LoadAndRun();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("overlap"));
}

TEST_F(ForgedPackage, AnEntryThatIsNamedAndNotThereIsDamage) {
  Change([](packaged::Package& package) {
    package.mutable_targets(0)->mutable_variants(0)->mutable_constants(0)->set_blob(99);
  });
  EXPECT_TRUE(absl::IsDataLoss(Load().status())) << Load().status();
}

TEST_F(ForgedPackage, AKernelThatIsNamedAndNotThereIsDamage) {
  ChangePrograms([](program::Program& program) {
    program.mutable_kernels(0)->mutable_choices(0)->set_key(std::string(32, 'x'));
  });
  if (!HostTarget().compiles()) GTEST_SKIP() << "the package is for x86-64-v3";
  EXPECT_TRUE(absl::IsDataLoss(Load().status())) << Load().status();
}

// They are read with the first run.
TEST_F(ForgedPackage, DamageOfConstantsIsFoundBeforeTheyAreUsed) {
  KILN_ASSERT_OK(LoadAndRun());
  std::string bytes = Contents(path_);
  bytes[parts_.area.size() - 1] ^= 1;
  Write(bytes);
  KILN_ASSERT_OK_AND_ASSIGN(Model model, LoadPackage(path_, {.threads = 1}));
  std::mt19937_64 random(1);
  const absl::Status status = RunAndRead(model, 3, random);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("constants: chunk 0 (bytes 0 to "));
}

// The first blob that no test case has: those are looked at when the test cases are read.
int OfPrograms(const packaged::Package& package) {
  int first = 0;
  for (const packaged::TestCase& test : package.test_cases())
    for (const packaged::Constant& input : test.inputs()) first = std::max(first, input.blob() + 1);
  return first;
}

// Places of constants that are not in the area, or not where a processor may want them.
TEST_F(ForgedPackage, ConstantsOutsideOfTheAreaAreRefused) {
  const PackageParts whole = parts_;
  const std::function<void(packaged::Blob&)> changes[] = {
      [](packaged::Blob& blob) { blob.set_offset(INT64_MAX - 63); },
      [](packaged::Blob& blob) { blob.set_offset(-64); },
      [](packaged::Blob& blob) { blob.set_offset(blob.offset() + 4); },
      [](packaged::Blob& blob) { blob.set_offset(0); },
      [](packaged::Blob& blob) { blob.set_stored(INT64_MAX); },
      [](packaged::Blob& blob) { blob.set_stored(blob.stored() - 1); },
      [](packaged::Blob& blob) { blob.set_bytes(-1); },
      [](packaged::Blob& blob) { blob.set_codec(7); }};
  for (const auto& change : changes) {
    parts_ = whole;
    Change(
        [&](packaged::Package& package) { change(*package.mutable_blobs(OfPrograms(package))); });
    const absl::Status status = Load().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("constants: "));
  }
}

TEST_F(ForgedPackage, AnotherVersionIsRefusedWithBoth) {
  for (const uint32_t version : {1u, 3u, 700u}) {
    std::string bytes = PutTogether(parts_);
    for (size_t i = 0; i < 4; ++i) bytes[8 + i] = static_cast<char>(version >> (8 * i));
    Write(bytes);
    const absl::Status status = LoadPackage(path_, {.threads = 1}).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("format ", version, ",")));
    EXPECT_THAT(std::string(status.message()), HasSubstr("format 2"));
  }
  // What packages were before.
  KILN_ASSERT_OK_AND_ASSIGN(const std::string pack, EncodePack(parts_.entries, nullptr));
  Write(pack);
  EXPECT_THAT(std::string(LoadPackage(path_, {.threads = 1}).status().message()),
              HasSubstr("of format 1; this Kiln reads packages of format 2"));
}

// One that no target of this CPU needs, too.
TEST_F(ForgedPackage, DamageOfAnEntryThatIsNotUsedIsFound) {
  Entry more;
  const Preimage preimage = Preimage().Add("kernel", "of another machine");
  more.key = preimage.Key();
  more.Add("preimage", preimage.bytes(), true);
  more.Add("elf", std::string(50, 'e'), true);
  parts_.entries.push_back(more);
  KILN_ASSERT_OK(Load().status());
  std::string bytes = Contents(path_);
  bytes[bytes.find("eeeeee")] ^= 1;
  Write(bytes);
  EXPECT_TRUE(absl::IsDataLoss(LoadPackage(path_, {.threads = 1}).status()));
}

TEST_F(ForgedPackage, PortsAreThoseOfTheModel) {
  const PackageParts whole = parts_;
  const std::function<void(program::Port&)> changes[] = {
      [](program::Port& port) { port.set_name("other"); },
      [](program::Port& port) { port.set_dtype(static_cast<uint32_t>(DType::kF64)); },
      [](program::Port& port) { port.add_shape("1"); },
      [](program::Port& port) { port.set_shape(1, "1048576"); },
      [](program::Port& port) { port.set_optional(true); }};
  for (const auto& change : changes) {
    parts_ = whole;
    ChangePrograms([&](program::Program& program) { change(*program.mutable_inputs(0)); });
    EXPECT_TRUE(absl::IsDataLoss(Load().status())) << Load().status();
  }
  for (size_t k = 0; k < 4; ++k) {
    parts_ = whole;
    ChangePrograms([&](program::Program& program) { changes[k](*program.mutable_outputs(0)); });
    EXPECT_TRUE(absl::IsDataLoss(Load().status())) << k << ": " << Load().status();
  }
  parts_ = whole;
  ChangePrograms([](program::Program& program) { program.mutable_outputs()->RemoveLast(); });
  EXPECT_TRUE(absl::IsDataLoss(Load().status()));
}

// An input that may be absent is absent, or present.
TEST_F(ForgedPackage, OptionalInputsWork) {
  const auto add = [](program::Program& program, bool reads) {
    program::Port& port = *program.add_inputs();
    port.set_name("maybe");
    port.set_dtype(static_cast<uint32_t>(DType::kF32));
    port.add_shape("n");
    port.set_optional(true);
    port.set_buffer(-1);
    if (!reads) return;
    program::Buffer& buffer = *program.add_buffers();
    buffer.set_kind(program::Buffer::INPUT);
    buffer.set_index(program.inputs_size() - 1);
    port.set_buffer(program.buffers_size() - 1);
  };
  ChangePrograms([&](program::Program& program) { add(program, true); });
  Change([&](packaged::Package& package) {
    program::Program ports;
    ASSERT_TRUE(ports.ParseFromString(package.ports()));
    add(ports, false);
    package.set_ports(ports.SerializeAsString());
  });
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Load());
  const auto tensor = [](std::vector<int64_t> shape) {
    Tensor made = Tensor::Allocate(DType::kF32, std::move(shape));
    std::fill_n(static_cast<float*>(made.data()), made.num_elements(), 1.0f);
    return made;
  };
  KILN_EXPECT_OK(model.Run({{"x", tensor({3, 8})}}).status());
  KILN_EXPECT_OK(model.Run({{"x", tensor({3, 8})}, {"maybe", tensor({3})}}).status());
  // Nothing else may be absent.
  EXPECT_TRUE(absl::IsInvalidArgument(model.Run({{"maybe", tensor({3})}}).status()));
}

TEST_F(ForgedPackage, AGuardOfPresenceChoosesTheVariant) {
  Change([](packaged::Package& package) {
    for (packaged::Variant& variant : *package.mutable_targets(0)->mutable_variants())
      variant.add_guards("present x");
  });
  KILN_EXPECT_OK(LoadAndRun());
  Change([](packaged::Package& package) {
    for (packaged::Variant& variant : *package.mutable_targets(0)->mutable_variants())
      variant.add_guards("absent x");
  });
  EXPECT_TRUE(absl::IsNotFound(LoadAndRun()));
}

}  // namespace
}  // namespace kiln
