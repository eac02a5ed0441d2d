// SPDX-License-Identifier: Apache-2.0
// Every flag of every verb does something that shows: one row for each, and tests that the rows,
// the helps of the verbs and docs/cli.md have the same flags.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/npy.h"
#include "gmock/gmock.h"
#include "graph/tensors.h"
#include "gtest/gtest.h"
#include "schedule/device.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/help.h"
#include "tests/cli/process.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

// Of `kiln VERB ARGUMENTS`, split at blanks: {M} is a model, y = exp(relu(x)) of x [n, 4], {C} a
// cache with its kernel, {V} a model that sums over axes which are its input, {D} a folder with
// x.npy (ones), y.npy (their result), a.npy (an axis) and i.csv (intervals to plan), {N} a name in
// it that is not taken.
struct Row {
  const char* verb;
  const char* flag;
  const char* arguments;
  int exit;
  const char* out;           // in stdout
  const char* err = "";      // in stderr
  const char* neither = "";  // in neither of them; "": anything may be
};

const Row kRows[] = {
    {"run", "--input", "{M} -q --input x=@{D}/x.npy --dim n=2", 0, "2.71828 2.71828"},
    {"run", "--output", "{M} -q --input x=ones --output b=@{D}/b.npy", 0, "b"},
    {"run", "--output", "{M} -q --input x=ones --output z=@{D}/b.npy", 2, "",
     "--output \"z\": the model has no such output; it has b"},
    {"run", "--input", "{M} -q --input xx=ones", 2, "", "it has x; did you mean \"x\"?"},
    {"run", "--output", "{M} -q --output bb=@{D}/b.npy", 2, "", "it has b; did you mean \"b\"?"},
    {"run", "--expect", "{M} -q --input x=ones --expect b=@{D}/b.npy", 0, "as expected"},
    {"run", "--expect", "{M} -q --input x=zeros --expect b=@{D}/y.npy", 1, "b"},
    {"run", "--rtol", "{M} -q --input x=zeros --expect b=@{D}/y.npy --rtol 0.7", 0, "b"},
    {"run", "--atol", "{M} -q --input x=zeros --expect b=@{D}/y.npy --atol 1.8", 0, "b"},
    {"run", "--bits", "{M} -q --input x=zeros --expect b=@{D}/y.npy --rtol 0.7 --bits", 1, "b"},
    {"run", "--digest", "{M} -q --input x=ones --digest", 0, "sha256:"},
    {"run", "--self-test", "{M} --self-test", 2, "", "packages have test cases"},
    {"inspect", "-O", "{M} -O0", 0, "1      kernel  exp"},
    {"inspect", "--jit", "{M} --jit 0", 0, "1      kernel  exp"},
    {"inspect", "--disable-pass", "{M} --disable-pass nonsense", 2, "", "nonsense"},
    {"inspect", "--disable-pass", "{M} --disable-pass dead_cod", 2, "",
     "did you mean \"dead_code\"?"},
    {"inspect", "--no-fuse", "{M} --no-fuse a", 0, "1      kernel  exp"},
    {"inspect", "--rules", "{M} --rules nonsense", 2, "", "--rules"},
    {"inspect", "--machine", "{M} --machine {N}", 2, "", "{N}"},
    {"run", "--device", "{M} -q --device cuda", 5, "", "cuda: "},
    {"run", "--require-device", "{M} -q --require-device", 2, "", "name a GPU"},
    {"run", "--require-device", "{M} -q --require-device --device cuda-emulated", 0, "b: f32"},
    {"run", "--require-device",
     "{M} -q --require-device --device cuda-emulated --compile-mode never", 7, "",
     "compile_mode: is not kBlock"},
    {"run", "--threads", "{M} -q --json --threads 3", 0, "\"threads\": 3"},
    {"run", "--shape", "{M} -q --shape x=7x4", 0, "[7, 4]"},
    {"run", "--dim", "{M} -q --dim n=5", 0, "[5, 4]"},
    {"run", "--dim", "{V} --input a=@{D}/a.npy --dim zz=5", 0, "",
     "--dim \"zz=5\" changes nothing: the model has no symbolic dim"},
    {"run", "--dim", "{M} -q --dim zz=5", 2, "", "no dim is called that; the model has n"},
    {"run", "--dim", "{M} -q --dim nn=5", 2, "", "; did you mean \"n\"?"},
    {"run", "--shape", "{M} -q --shape xx=7x4", 2, "", "it has x; did you mean \"x\"?"},
    {"run", "--math", "{M} -q --math fast", 4, "", "fast"},
    {"run", "--compile-mode", "{M} -q --json --compile-mode never", 0, "\"vm\": 1"},
    {"run", "--cache-dir", "{M} -v --cache-dir {C}", 0, "", "1 kernels: 1 cached"},
    {"run", "--no-cache", "{M} -v --cache-dir {C} --no-cache", 0, "", "1 kernels: 0 cached"},
    {"run", "--cache-readonly", "{M} -v --cache-dir {C} --cache-readonly", 0, "",
     "1 kernels: 1 cached"},
    {"run", "--validate", "{M} -q --validate nonsense", 2, "", "--validate"},
    {"run", "--trust", "{M} -q --trust {N}", 2, "", "packages are signed"},
    {"run", "--choose", "{M} -q --choose nonsense", 2, "", "--choose"},
    {"run", "--tune", "{M} -q --tune", 0, "b: f32"},
    {"run", "--workspace-limit", "{M} -q --workspace-limit nonsense", 2, "", "nonsense"},
    {"run", "--device-library", "{M} -q --device-library maybe", 2, "", "--device-library"},
    {"run", "--device-library", "{M} -q --device-library on", 0, "b: f32"},
    {"run", "--const-shape", "{M} -q --const-shape x=7x4", 0, "[7, 4]"},
    {"run", "--const-shape", "{M} -q --const-shape x=7x4 --shape x=2x4", 3, "",
     "dim 0 is 2, expected 7"},
    {"run", "--const-shape", "{M} -q --const-shape z=7x4", 3, "",
     "const_shapes: the model has no input \"z\"; it has \"x\""},
    {"bench", "--const-shape", "{M} -q --iters 1 --const-shape x=7x4", 0, "-O3"},
    {"compile", "--const-shape", "{M} -q --cache-only --const-shape x=7x4", 0, "1 kernels"},
    {"run", "--batch-invariant", "{M} -q --batch-invariant --dim n=3", 0, "[3, 4]"},
    {"run", "--check-first-run", "{M} -q --check-first-run", 0, "b: f32"},
    {"run", "--record-level", "{M} -q --record-level 2", 0, "b: f32"},
    {"run", "--record-level", "{M} -q --record-level 3", 2, "", "--record-level"},
    {"bench", "--batch-invariant", "{M} -q --iters 1 --batch-invariant", 0, "-O3"},
    {"bench", "--check-first-run", "{M} -q --iters 1 --check-first-run", 0, "-O3"},
    {"bench", "--record-level", "{M} -q --iters 1 --record-level 1", 0, "-O3"},
    {"run", "--dump-io", "{M} -q --dump-io {N}", 0, "b: f32"},
    {"run", "--dump-io", "{M} -q --dump-io {M}", 7, "", "--dump-io"},
    {"run", "--dump-io", "{M} -q --dump-io {N} --device reference", 2, "", "has no launches"},
    {"run", "--dump-io-text", "{M} -q --dump-io {N} --dump-io-text", 0, "b: f32"},
    {"run", "--check-numerics", "{M} -q --input x=ones --check-numerics", 0,
     "numerics: in 1 launches, none writes NaN or Inf that reads none"},
    {"run", "--check-numerics", "{M} -q --input x=random:1:1000:2000 --check-numerics", 1,
     "has 0 NaN and 4 Inf in 4 elements; its inputs have none"},
    {"bench", "--dump-io", "{M} -q --iters 1 --dump-io {N}", 0, "-O3"},
    {"bench", "--dump-io-text", "{M} -q --iters 1 --dump-io {N} --dump-io-text", 0, "-O3"},
    {"bench", "--check-numerics", "{M} -q --iters 1 --input x=random:1:1000:2000 --check-numerics",
     1, "4 Inf in 4 elements"},
    {"run", "--max-weights", "{M} -q --max-weights nonsense", 2, "", "nonsense"},
    {"run", "--external-data-links", "{M} -q --external-data-links maybe", 2, "", "maybe"},
    {"run", "--json", "{M} -q --json", 0, "\"schema\": \"kiln.run/1\""},
    {"run", "--quiet", "{M} -q", 0, "b: f32", "", "is random"},
    {"run", "--verbose", "{M} -v", 0, "b: f32", "1 kernels:"},
    {"bench", "--input", "{M} -q --iters 1 --input y=ones", 2, "", "\"y\""},
    {"bench", "--warmup", "{M} -q --iters 1 --warmup nonsense", 2, "", "--warmup"},
    {"bench", "--iters", "{M} -q --json --iters 3", 0, "\"n\": 3"},
    {"bench", "--time", "{M} -q --time 5ms --json", 0, "\"latency_ms\""},
    {"bench", "--compare", "{M} -q --iters 2 --compare -O0,-O3", 0, "-O0 / -O3"},
    {"bench", "--profile", "{M} -q --iters 2 --profile", 0, "% of memory"},
    {"bench", "--trace", "{M} -q --iters 2 --trace {N}", 0, "min ms"},
    {"bench", "--memory-plan", "{M} -q --iters 2 --memory-plan {N}", 0, "min ms"},
    {"bench", "--serve", "--serve", 0, ""},
    {"bench", "--serve", "{M} --serve", 2, "", "takes no MODEL"},
    {"bench", "--const-shape", "{M} -q --const-shape z=7x4", 2, "",
     "--const-shape \"z\": the model has no such input; it has "},
    {"compile", "--output", "{M} -q -o {N}", 0, ""},
    {"compile", "--cache-only", "{M} -q --cache-only --json --cache-dir {C}", 0, "\"cached\": 1"},
    {"compile", "--target", "{M} -q -o {N} --target nonsense", 2, "", "nonsense"},
    {"compile", "--target", "{M} -q --target , -o {N}", 2, "", "--target: is \",\""},
    {"compile", "--target", "{M} -q -o {N} --target=x86-64-v3,", 2, "", "is \"x86-64-v3,\""},
    {"compile", "--shapes", "{M} -q -o {N} --shapes {D}/none", 7, "", "none"},
    {"compile", "--input", "{M} -q -o {N} --input y=ones", 3, "", "\"y\""},
    {"compile", "-j", "{M} -q --cache-only -j 0", 2, "", "-j"},
    {"compile", "--sign", "{M} -q --cache-only --sign {N}", 2, "", "--sign and --zstd"},
    {"compile", "--zstd", "{M} -q --cache-only --zstd", 2, "", "--sign and --zstd"},
    {"compile", "--no-packed-weights", "{M} -q -o {N} --no-packed-weights", 0, "wrote"},
    {"compile", "--depfile", "{M} -q --cache-only --depfile {N}", 2, "", "--output"},
    {"compile", "--header", "{M} -q -o {N} --header {D}/net.h", 0, "wrote"},
    {"compile", "--locked", "{M} -q --cache-only --locked {N}", 7, "", "{N}"},
    {"compile", "--shard", "{M} -q --cache-only --shard 1/2 --cache-dir {C}", 0, "part 1/2 of 1"},
    {"run", "--locked", "{M} -q --locked {D}/i.csv", 2, "", "expected \"kiln lock 1\""},
    {"lock", "--output", "{M} -q -o -", 0, "kiln lock 1"},
    {"lock", "--check", "{M} -q --check -o {N}", 7, "", "{N}"},
    {"lock", "--const-shape", "{M} -q -o - --const-shape x=7x4", 0, "const shape \"x=7x4\""},
    {"lock", "--input", "{M} -q -o - --input y=ones", 3, "", "\"y\""},
    {"lock", "--package", "{M} -q -o - --package", 0, "kiln lock 1"},
    {"lock", "--shapes", "{M} -q -o - --shapes {D}/none", 7, "", "none"},
    {"lock", "--target", "{M} -q -o - --target x86-64-v4", 0, "variant x86-64-v4"},
    {"report", "--output", "{M} -q -o {N}", 0, "wrote"},
    {"report", "--input", "{M} -q -o {N} --input xx=ones", 2, "", "did you mean \"x\"?"},
    {"inspect", "--group", "{M} --group 0", 0, "out  0 f32"},
    {"inspect", "--group", "{M} --group x", 2, "",
     "--group: is \"x\", expected a number >= 0; see kiln inspect --help"},
    {"inspect", "--emit", "{M} --group 0 --emit kernel", 0, "kernel v1"},
    {"inspect", "--kernel", "{M} --kernel 12", 2, "", "--group N one of a model"},
    {"inspect", "--machine", "{M} --machine {D}/gpu.machine", 2, "",
     "describes cuda-sm90, code is made for x86-64"},
    {"inspect", "--machine", "{M} --machine {D}/gpu.machine --target cuda-sm80", 2, "",
     "describes cuda-sm90, code is made for cuda-sm80"},
    {"inspect", "--machine", "{M} --machine {D}/gpu.machine --target cuda-sm90", 0, "kernel"},
    {"compile", "--machine",
     "{M} -q -o {N} --machine {D}/gpu.machine --target cuda-sm80 --target x86-64-v3", 2, "",
     "describes cuda-sm90, code is made for cuda-sm80, x86-64-v3"},
    {"lock", "--machine", "{M} -o {N} --machine {D}/gpu.machine --target cuda-sm90", 0, "wrote"},
    {"inspect", "--target", "{M} --group 0 --emit kernel --target nonsense", 2, "", "nonsense"},
    {"inspect", "--emit-onnx", "{M} --emit-onnx {N}", 0, "kernel"},
    {"inspect", "--flat", "{M} --emit-onnx {N} --flat", 0, "kernel"},
    {"inspect", "--input", "{V} --input a=@{D}/a.npy", 0, "reduce_sum"},
    {"explain", "--input", "{V} --input a=@{D}/a.npy", 0, "reduce_sum"},
    {"explain", "--node", "{M} --node a", 0, "a"},
    {"explain", "--node", "{M} --node aa", 2, "", "; did you mean \"a\"?"},
    {"explain", "--library", "{M} --library", 0, "0 library calls"},
    {"explain", "--schedule", "{M} --schedule", 0, "predicted us"},
    {"explain", "--dot", "{M} --dot {N}", 0, ""},
    {"explain", "--what-if", "{M} --what-if a:nonsense", 2, "", "nonsense"},
    {"explain", "--measure", "{M} -q --measure --dim n=2", 0, "measured us"},
    {"verify", "--input", "{M} -q --input y=ones", 2, "", "\"y\""},
    {"verify", "--seed", "{M} -q --seed nonsense", 2, "", "--seed"},
    {"verify", "--per-group", "{M} -q --per-group --dim n=2", 0, "worst: group 0"},
    {"verify", "--gradients", "{M} -q --gradients --dim n=2", 0, "differences"},
    {"verify", "--repro", "{M} -q --per-group --repro {N}", 0, "worst: group 0"},
    {"opt", "--passes", "{M} --passes dead_code", 0, "relu(x)"},
    {"opt", "--dump-dir", "{M} --passes dead_code --dump-dir {N}", 0, ""},
    {"opt", "--list-passes", "--list-passes", 0, "dead_code"},
    {"opt", "--json", "{M} --passes dead_code --json", 0, "kiln.opt/1"},
    {"opt", "--quiet", "{M} --passes dead_code -q", 0, "relu(x)"},
    {"opt", "--verbose", "{M} --passes dead_code -v", 0, "relu(x)"},
    {"plan", "--capacity", "{D}/i.csv --capacity 4", 1, "12", "every one needs 12"},
    {"plan", "--time", "{D}/i.csv --time 0", 2, "", "--time"},
    {"plan", "--time", "{D}/i.csv --time 5x", 2, "",
     "--time \"5x\": expected a time above 0 such as 5s or 200ms"},
    {"plan", "--time", "{D}/i.csv --time 200ms", 0, "12"},
    {"plan", "--page", "{D}/i.csv --page {D}/none/p.html", 7, "", "/none/p.html\": create"},
    {"plan", "--output", "{D}/i.csv -o {N}", 0, "12"},
    {"plan", "--page", "{D}/i.csv --page {N}", 0, "12"},
    {"plan", "--threads", "{D}/i.csv --json --threads 3", 0, "\"threads\": 3"},
    {"plan", "--json", "{D}/i.csv --json", 0, "kiln.plan/1"},
    {"plan", "--quiet", "{D}/i.csv -q", 0, "12"},
    {"plan", "--verbose", "{D}/i.csv -v", 0, "12"},
    {"ops", "--onnx", "--onnx", 0, "GlobalAveragePool"},
    {"ops", "--onnx", "--onnx --json", 0, "\"kind\": \"composed\""},
    {"ops", "--gradients", "--gradients", 0, "a tie: half each"},
    {"ops", "--gradients", "--gradients --json", 0, "\"none\": \"gives booleans\""},
    {"ops", "--json", "--json", 0, "kiln.ops/1"},
    {"ops", "--quiet", "-q", 0, "relu"},
    {"ops", "--verbose", "-v", 0, "relu"},
    {"devices", "--json", "--json", 0, "kiln.devices/1"},
    {"devices", "--quiet", "-q", 0, "cpu"},
    {"devices", "--verbose", "-v", 0, "cpu"},
    {"devices", "--device", "--device cuda:77", 5, "", "cuda"},
    {"devices", "--measure", "--measure", 2, "", "--measure"},
    {"doctor", "--dir", "--dir {C}", 0, "{C}"},
    {"doctor", "--json", "--dir {C} --json", 0, "kiln.doctor/1"},
    {"cache stats", "--dir", "--dir {C}", 0, "{C}"},
    {"cache stats", "--zero", "--dir {C} --zero", 0, "{C}"},
    {"cache ls", "--model", "--dir {C} --model {M}", 0, "kernel"},
    {"cache ls", "--shapes", "--dir {C} --model {M} --shapes {D}/none", 7, "", "none"},
    {"cache ls", "--input", "--dir {C} --model {M} --input y=ones", 3, "", "\"y\""},
    {"cache ls", "--target", "--dir {C} --target x86-64-v3", 0, "key", "", "v4"},
    {"cache ls", "--kind", "--dir {C} --kind nonsense", 0, "key", "", "v4"},
    {"cache ls", "--older", "--dir {C} --older 7d", 0, "key", "", "v4"},
    {"cache ls", "--newer", "--dir {C} --newer nonsense", 2, "", "nonsense"},
    {"cache ls", "--larger", "--dir {C} --larger 1G", 0, "key", "", "v4"},
    {"cache ls", "--sort", "--dir {C} --sort nonsense", 2, "", "--sort"},
    {"cache ls", "--all", "--dir {C} --all", 0, "key"},
    {"cache why-miss", "--target", "{M} --dir {C} --target nonsense", 2, "", "nonsense"},
    {"cache why-miss", "--shapes", "{M} --dir {C} --shapes {D}/none", 7, "", "none"},
    {"cache why-miss", "--input", "{M} --dir {C} --input y=ones", 3, "", "\"y\""},
    {"cache verify", "--recompile", "--dir {C} --recompile nonsense", 2, "", "--recompile"},
    {"cache verify", "--trust-unsigned", "{D}/none --trust-unsigned", 6, "", "none"},
    {"cache prune", "--max-size", "--dir {C} --max-size nonsense", 2, "", "nonsense"},
    {"cache prune", "--dry-run", "--dir {C} --dry-run", 0, ""},
    {"cache clear", "--dry-run", "--dir {C} --dry-run", 0, ""},
    {"cache pack", "--model", "{N} --dir {C} --model {M}", 0, "wrote"},
    {"cache pack", "--target", "{N} --dir {C} --all --target nonsense", 2, "", "nonsense"},
    {"cache pack", "--shapes", "{N} --dir {C} --model {M} --shapes {D}/none", 6, "", "none"},
    {"cache pack", "--input", "{N} --dir {C} --model {M} --input y=ones", 2, "", "\"y\""},
    {"cache pack", "--all", "{N} --dir {C} --all", 0, "wrote"},
    {"cache pack", "--sign", "{N} --dir {C} --all --sign {D}/none", 7, "", "none"},
    {"cache pack", "--dry-run", "{N} --dir {C} --all --dry-run", 0, "would write"},
    {"cache merge", "--dry-run", "{N} {D}/none --dry-run", 6, "", "none"},
    {"cache merge", "--sign", "{N} {D}/none --sign {D}/none", 6, "", "none"},
    {"cache merge", "--trust-unsigned", "{N} {D}/none --trust-unsigned", 6, "", "none"},
    {"cache unpack", "--trust-unsigned", "{D}/none --dir {C} --trust-unsigned", 6, "", "none"},
    {"cache unpack", "--dry-run", "{D}/none --dir {C} --dry-run", 6, "", "none"},
};

// Flags that one function gives to every verb that has them: rows of any verb do.
const std::set<std::string> kShared = {"-O",
                                       "--jit",
                                       "--device",
                                       "--require-device",
                                       "--threads",
                                       "--shape",
                                       "--dim",
                                       "--rules",
                                       "--math",
                                       "--disable-pass",
                                       "--no-fuse",
                                       "--machine",
                                       "--compile-mode",
                                       "--cache-dir",
                                       "--json",
                                       "--no-cache",
                                       "--cache-readonly",
                                       "--quiet",
                                       "--verbose",
                                       "--dir",
                                       "--choose",
                                       "--tune",
                                       "--workspace-limit",
                                       "--device-library",
                                       "--max-weights",
                                       "--external-data-links"};

// Flags that have tests of their own: what they need is more than a model.
const std::map<std::string, std::string> kElsewhere = {{"cache verify --prove", "cache_test.cc"},
                                                       {"cache verify --validate", "cache_test.cc"},
                                                       {"cache show --emit", "cache_test.cc"}};

// Whether the test of that verb alone has the flag.
bool IsInTrainTest(const std::string& verb, const std::string& flag) {
  if (verb != "train") return false;
  std::ifstream file(KILN_SOURCE_DIR "/tests/cli/train_test.cc");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return absl::StrContains(text, absl::StrCat("\"", flag, "\""));
}

class FlagsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(dir_.File("m.graph"))
        << "graph m\ninput x : f32 [n, 4]\na = relu(x)\nb = exp(a)\noutput b\n";
    Tensor x = FilledTensor(DType::kF32, {2, 4}, 1),
           y = FilledTensor(DType::kF32, {1, 4}, 2.7182817);
    KILN_ASSERT_OK(WriteNpy(dir_.File("x.npy"), x));
    KILN_ASSERT_OK(WriteNpy(dir_.File("a.npy"), FilledTensor(DType::kI64, {1}, 1)));
    const std::string sum = OnnxGraph({OnnxNode("ReduceSum", {"x", "a"}, {"y"})},
                                      {OnnxValue("x", kFloat, {2, 4}), OnnxValue("a", kInt64, {1})},
                                      {OnnxValue("y", kFloat, {2, 1})});
    std::ofstream(dir_.File("v.onnx")) << OnnxModel(13, sum);
    KILN_ASSERT_OK(WriteNpy(dir_.File("y.npy"), y));
    std::ofstream(dir_.File("gpu.machine"))
        << ToString(ShippedMachine(*Target::Parse("cuda-sm90")));
    std::ofstream(dir_.File("i.csv"))
        << "id,lower,upper,size\na,0,2,4\nb,1,3,4\nc,2,4,4\nd,3,5,8\n";
    ASSERT_EQ(Kiln({"compile", "--cache-only", "-q", dir_.File("m.graph"), "--cache-dir",
                    dir_.File("cache")})
                  .exit,
              0);
  }

  std::string Filled(const std::string& text, int number) const {
    return absl::StrReplaceAll(text, {{"{M}", dir_.File("m.graph")},
                                      {"{V}", dir_.File("v.onnx")},
                                      {"{C}", dir_.File("cache")},
                                      {"{D}", dir_.path()},
                                      {"{N}", dir_.File(absl::StrCat("new", number))}});
  }

  TempDir dir_;
};

TEST_F(FlagsTest, DoWhatTheirRowsSay) {
  int number = 0;
  for (const Row& row : kRows) {
    SCOPED_TRACE(absl::StrCat(row.verb, " ", row.arguments));
    std::vector<std::string> words = absl::StrSplit(row.verb, ' ');
    ++number;
    for (const auto& word : absl::StrSplit(row.arguments, ' '))
      words.push_back(Filled(std::string(word), number));
    const ProcessResult result =
        Kiln(words, {.environment = {{"KILN_CACHE_DIR", dir_.File("own")}}});
    EXPECT_EQ(result.exit, row.exit) << result.out << result.err;
    EXPECT_THAT(result.out, testing::HasSubstr(Filled(row.out, number)));
    EXPECT_THAT(result.err, testing::HasSubstr(Filled(row.err, number)));
    if (*row.neither != '\0') {
      EXPECT_THAT(result.out + result.err, testing::Not(testing::HasSubstr(row.neither)));
    }
  }
}

TEST_F(FlagsTest, AreAllInTheTable) {
  std::set<std::string> rows, anywhere;
  for (const Row& row : kRows) {
    rows.insert(absl::StrCat(row.verb, " ", row.flag));
    anywhere.insert(row.flag);
  }
  const std::vector<std::string> verbs = Verbs();
  EXPECT_GE(verbs.size(), 18u);
  std::vector<std::string> missing;
  std::set<std::string> there;
  for (const std::string& verb : verbs) {
    for (const std::string& flag : FlagsOf(verb)) {
      const std::string both = absl::StrCat(verb, " ", flag);
      there.insert(both);
      const bool shared = kShared.count(flag) != 0 && anywhere.count(flag) != 0;
      const bool elsewhere = kElsewhere.count(both) != 0 || IsInTrainTest(verb, flag);
      if (rows.count(both) == 0 && !shared && !elsewhere) missing.push_back(both);
    }
  }
  EXPECT_EQ(absl::StrJoin(missing, ", "), "") << "give each a row";
  for (const std::string& row : rows) EXPECT_EQ(there.count(row), 1u) << row << " is no flag";
}

TEST_F(FlagsTest, AreAllInTheDocument) {
  std::ifstream file(KILN_SOURCE_DIR "/docs/cli.md");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  ASSERT_FALSE(text.empty());
  std::set<std::string> missing;
  for (const std::string& verb : Verbs()) {
    for (const std::string& flag : FlagsOf(verb)) {
      const bool known = std::regex_search(
          text, std::regex(absl::StrCat(flag, flag[1] == '-' ? "[^a-z-]" : "[^a-z]")));
      if (!known) missing.insert(absl::StrCat(verb, " ", flag));
    }
  }
  EXPECT_EQ(absl::StrJoin(missing, ", "), "");
}

}  // namespace
}  // namespace kiln
