// SPDX-License-Identifier: Apache-2.0
// kiln/kiln.hpp with C++17 and the standard library alone.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kiln/kiln.hpp"

namespace {

constexpr char kText[] =
    "graph text\n"
    "input x : f32 [n]\n"
    "y : f32 [n] = neg(x)\n"
    "output y\n";

int failures = 0;

void Expect(bool ok, const char* what) {
  if (ok) return;
  ++failures;
  std::printf("hpp_test.cc: %s\n", what);
}

kiln::cpp::Model Compile() {
  kiln_compile_options options = kiln_compile_options_default();
  options.compile_mode = KILN_COMPILE_NEVER;
  options.no_cache = 1;
  kiln_model* model = nullptr;
  kiln::cpp::Check(kiln_compile_bytes(kText, std::strlen(kText), "text.graph", nullptr, nullptr,
                                      nullptr, &options, &model));
  return kiln::cpp::Model(model);
}

}  // namespace

int main() {
  const kiln::cpp::Model model = Compile();
  Expect(model.inputs().size() == 1 && model.inputs()[0].dims[0] == "n", "ports");
  std::vector<float> x = {1, 2, 3};
  kiln::cpp::Context context(model);
  const kiln::cpp::Tensor view = kiln::cpp::Tensor::View(x.data(), KILN_F32, {3});
  context.Bind(0, view);
  context.Run();
  Expect(context.Output(0).data<float>()[2] == -3, "context");
  const std::vector<kiln::cpp::Tensor> y = model.Run({&view});
  Expect(y.size() == 1 && y[0].shape() == std::vector<int64_t>{3} && y[0].data<float>()[0] == -1,
         "run");
  try {
    kiln::cpp::LoadPackage("/nowhere/net.kiln");
    Expect(false, "no error");
  } catch (const kiln::cpp::Error& error) {
    Expect(error.code() == KILN_NOT_FOUND &&
               std::string(error.what()).find("/nowhere") != std::string::npos,
           "error");
  }
  try {
    kiln_package_source source = kiln_package_source_default();
    source.data = kText;
    source.size = sizeof kText;
    kiln::cpp::LoadPackage(source);
    Expect(false, "no error");
  } catch (const kiln::cpp::Error& error) {
    Expect(error.code() == KILN_DATA_LOSS, "text as a package");
  }
  return failures == 0 ? 0 : 1;
}
