// SPDX-License-Identifier: Apache-2.0
// Packages whose programs name the code of other kernels.
#include "exec/package/package.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/sha256.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "compiler/package_writer.h"
#include "exec/ports.h"
#include "graph/text.h"
#include "persistent_cache/pack.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/fuzz/package_parts.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

class ForgedPackageTest : public testing::Test {
 protected:
  // A package of more than one kernel.
  void SetUp() override {
    CompileOptions options;
    options.cache.directory = dir_.File("cache");
    options.target = LowestTarget();
    KILN_ASSERT_OK_AND_ASSIGN(
        const Graph graph,
        ParseGraph("graph g\ninput x : f32 [n, 32]\ny = exp(x)\ns = reduce_sum(y) {axes = [0], "
                   "keepdims = 1}\nz = reduce_max(s) {axes = [1], keepdims = 1}\noutput z\n"));
    options.jit_level = 0;
    KILN_ASSERT_OK_AND_ASSIGN(const Compiled compiled, CompileGraph(graph, options));
    KernelService service(options);
    for (const program::KernelDef& def : compiled.variant.program.kernels()) {
      for (const program::KernelChoice& choice : def.choices()) {
        KILN_ASSERT_OK(service
                           .Keep(service.Identify(def.text(), choice.schedule()),
                                 {choice.at_most().begin(), choice.at_most().end()},
                                 {def.example().begin(), def.example().end()})
                           .status());
      }
    }
    KILN_ASSERT_OK_AND_ASSIGN(const auto inputs, GetPorts(compiled.variant.program.inputs()));
    KILN_ASSERT_OK_AND_ASSIGN(const auto outputs, GetPorts(compiled.variant.program.outputs()));
    PackageWriter writer(inputs, outputs, options.math);
    KILN_ASSERT_OK(writer.Add(LowestTarget(), compiled.variant));
    KILN_ASSERT_OK_AND_ASSIGN(whole_, writer.Encode(*service.store()));
    Write(whole_);
  }

  void Write(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  // Writes the package with another program in it: all checksums are right.
  void Forge(const std::function<void(program::Program&)>& change) {
    PackageParts parts = TakeApart(whole_);
    parts.section("package") = WithProgram(parts.section("package"), change);
    Write(PutTogether(std::move(parts)));
  }

  static std::string WithProgram(const std::string& bytes,
                                 const std::function<void(program::Program&)>& change) {
    packaged::Package package;
    EXPECT_TRUE(package.ParseFromString(bytes));
    for (packaged::Variant& variant : *package.mutable_targets(0)->mutable_variants()) {
      program::Program program;
      EXPECT_TRUE(program.ParseFromString(variant.program()));
      change(program);
      variant.set_program(program.SerializeAsString());
    }
    return package.SerializeAsString();
  }

  TempDir dir_;
  const std::string path_ = dir_.File("m.kiln");
  std::string whole_;
};

TEST_F(ForgedPackageTest, AnHonestOneRuns) {
  KILN_ASSERT_OK_AND_ASSIGN(const auto package, Package::Open(PackageSource::File(path_)));
  EXPECT_GE(package->compiled(), 2);
  EXPECT_EQ(package->on_vm(), 0);
}

TEST_F(ForgedPackageTest, CodeOfAnotherKernelIsRefused) {
  Forge([](program::Program& program) {
    ASSERT_GE(program.kernels_size(), 2);
    program.mutable_kernels(0)->mutable_choices(0)->mutable_key()->swap(
        *program.mutable_kernels(1)->mutable_choices(0)->mutable_key());
  });
  const auto opened = Package::Open(PackageSource::File(path_));
  EXPECT_TRUE(absl::IsDataLoss(opened.status())) << opened.status();
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("another kernel"));
}

// The second kernel asks for code that was checked for the first already.
TEST_F(ForgedPackageTest, CodeThatIsInUseForAnotherKernelIsRefused) {
  Forge([](program::Program& program) {
    ASSERT_GE(program.kernels_size(), 2);
    program.mutable_kernels(1)->mutable_choices(0)->set_key(program.kernels(0).choices(0).key());
  });
  EXPECT_TRUE(absl::IsDataLoss(Package::Open(PackageSource::File(path_)).status()));
}

// Another schedule stands for other in-place pairs and bounds.
TEST_F(ForgedPackageTest, CodeOfAnotherScheduleIsRefused) {
  Forge([](program::Program& program) {
    program::KernelChoice& choice = *program.mutable_kernels(0)->mutable_choices(0);
    choice.set_schedule(absl::StrCat(choice.schedule(), " task=77"));
  });
  EXPECT_TRUE(absl::IsDataLoss(Package::Open(PackageSource::File(path_)).status()));
}

// Code for few rows would be launched for many.
TEST_F(ForgedPackageTest, CodeForSmallerExtentsIsRefused) {
  for (const bool bounded : {true, false}) {
    SetUp();
    int changed = 0;
    Forge([&](program::Program& program) {
      for (program::KernelDef& def : *program.mutable_kernels()) {
        for (program::KernelChoice& choice : *def.mutable_choices()) {
          for (int64_t& bound : *choice.mutable_at_most()) {
            changed += bound >= 0 ? 1 : 0;
            if (bounded && bound >= 0) ++bound;
          }
          if (!bounded) choice.clear_at_most();
        }
      }
    });
    ASSERT_GT(changed, 0);
    const auto opened = Package::Open(PackageSource::File(path_));
    EXPECT_TRUE(absl::IsDataLoss(opened.status())) << opened.status();
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr("for extents of at most"));
  }
}

// An entry without a kernel, such as that of a constant or of the package itself.
TEST_F(ForgedPackageTest, AnEntryThatIsNoKernelIsRefused) {
  Forge([](program::Program& program) {
    const CacheKey key = PackagePreimage().Key();
    program.mutable_kernels(0)->mutable_choices(0)->set_key(std::string(key.begin(), key.end()));
  });
  EXPECT_TRUE(absl::IsDataLoss(Package::Open(PackageSource::File(path_)).status()));
}

}  // namespace
}  // namespace kiln
