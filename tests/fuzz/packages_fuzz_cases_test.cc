// SPDX-License-Identifier: Apache-2.0
// Forged packages, each with what is said of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "exec/package.h"
#include "persistent_cache/pack.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
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
    PackTrust trust;
    trust.unsigned_too = true;
    KILN_ASSERT_OK_AND_ASSIGN(const auto pack, Pack::Open(RealFileSystem(), path_, trust));
    for (const Pack::Row& row : pack->rows()) {
      KILN_ASSERT_OK_AND_ASSIGN(entries_.emplace_back(), pack->Read(row.key, nullptr));
    }
  }

  void Write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  // The package's own description, changed.
  void Change(const std::function<void(packaged::Package&)>& change) {
    for (Entry& entry : entries_) {
      for (Section& section : entry.sections) {
        packaged::Package package;
        if (section.tag != "package" || !package.ParseFromString(section.bytes)) continue;
        change(package);
        section.bytes = package.SerializeAsString();
      }
    }
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
    KILN_ASSIGN_OR_RETURN(const std::string bytes, EncodePack(entries_, nullptr));
    Write(bytes);
    return LoadPackage(path_, {.threads = 1});
  }
  absl::Status LoadAndRun() {
    KILN_ASSIGN_OR_RETURN(Model model, Load());
    std::mt19937_64 random(1);
    return RunAndRead(model, 3, random);
  }

  TempDir dir_;
  const std::string path_ = dir_.File("m.kiln");
  std::vector<Entry> entries_;
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
    package.mutable_targets(0)->mutable_variants(0)->mutable_constants(0)->set_blob(
        std::string(32, 'x'));
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

TEST_F(ForgedPackage, OtherElementsThanTheDigestSaysAreDamage) {
  for (Entry& entry : entries_) {
    for (Section& section : entry.sections) {
      if (section.tag == "blob") section.bytes[0] ^= 1;
    }
  }
  EXPECT_TRUE(absl::IsDataLoss(Load().status())) << Load().status();
}

// One that no target of this CPU needs, too.
TEST_F(ForgedPackage, DamageOfAnEntryThatIsNotUsedIsFound) {
  Entry more;
  const Preimage preimage = Preimage().Add("kernel", "of another machine");
  more.key = preimage.Key();
  more.Add("preimage", preimage.bytes(), true);
  more.Add("elf", std::string(50, 'e'), true);
  entries_.push_back(more);
  KILN_ASSERT_OK(Load().status());
  std::string bytes = Contents(path_);
  bytes[bytes.find("eeeeee")] ^= 1;
  Write(bytes);
  EXPECT_TRUE(absl::IsDataLoss(LoadPackage(path_, {.threads = 1}).status()));
}

TEST_F(ForgedPackage, PortsAreThoseOfTheModel) {
  const std::vector<Entry> whole = entries_;
  const std::function<void(program::Port&)> changes[] = {
      [](program::Port& port) { port.set_name("other"); },
      [](program::Port& port) { port.set_dtype(static_cast<uint32_t>(DType::kF64)); },
      [](program::Port& port) { port.add_shape("1"); },
      [](program::Port& port) { port.set_shape(1, "1048576"); },
      [](program::Port& port) { port.set_optional(true); }};
  for (const auto& change : changes) {
    entries_ = whole;
    ChangePrograms([&](program::Program& program) { change(*program.mutable_inputs(0)); });
    EXPECT_TRUE(absl::IsDataLoss(Load().status())) << Load().status();
  }
  for (size_t k = 0; k < 4; ++k) {
    entries_ = whole;
    ChangePrograms([&](program::Program& program) { changes[k](*program.mutable_outputs(0)); });
    EXPECT_TRUE(absl::IsDataLoss(Load().status())) << k << ": " << Load().status();
  }
  entries_ = whole;
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
