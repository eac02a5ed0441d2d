// SPDX-License-Identifier: Apache-2.0
#include "kiln/compile.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "c_api/compile_options.h"
#include "c_api/handles.h"

struct kiln_description {
  explicit kiln_description(kiln::ModelDescription made)
      : description(std::move(made)), inputs(description.inputs), outputs(description.outputs) {}

  const kiln::ModelDescription description;
  const kiln::c_api::Ports inputs, outputs;
};

using kiln::c_api::Call;
using kiln::c_api::CallOn;
using kiln::c_api::CheckPointer;
using kiln::c_api::MakeModel;

namespace kiln::c_api {

absl::StatusOr<CompileOptions> CompileOptionsOf(const kiln_compile_options* options) {
  const kiln_compile_options given = Read(options, kiln_compile_options_default());
  CompileOptions made;
  KILN_ASSIGN_OR_RETURN(static_cast<RunOptions&>(made), RunOptionsOf(given.run));
  made.graph_opt_level = given.graph_opt_level;
  made.jit_level = given.jit_level;
  KILN_RETURN_IF_ERROR(CheckEnum(given.compile_mode, KILN_COMPILE_NEVER, "compile_mode"));
  made.compile_mode = static_cast<CompileMode>(given.compile_mode);
  KILN_RETURN_IF_ERROR(
      CheckEnum(given.schedule_choice, KILN_SCHEDULE_REPRODUCIBLE, "schedule_choice"));
  made.schedule_choice = static_cast<ScheduleChoice>(given.schedule_choice);
  if (given.cache != nullptr) made.cache.open = given.cache->cache;
  made.cache.enabled = given.no_cache == 0;
  made.codegen = TextOf(given.codegen);
  made.validator = TextOf(given.validator);
  if (given.target != nullptr) {
    made.target = Target::Parse(given.target);
    if (!made.target) {
      return absl::InvalidArgumentError(
          absl::StrCat("target \"", given.target, "\": there is none of this name"));
    }
  }
  made.build_jobs = given.build_jobs;
  made.kernel_timeout_ms = given.kernel_timeout_ms;
  made.kernel_cpu_ms = given.kernel_cpu_ms;
  made.max_weight_bytes = given.max_weight_bytes;
  if (given.follow_links != 0) made.external_data_links = ExternalDataLinks::kFollow;
  KILN_ASSIGN_OR_RETURN(made.updatable, Names(given.updatable, given.num_updatable, "updatable"));
  KILN_ASSIGN_OR_RETURN(made.const_shapes, Shapes(given.const_shapes, given.num_const_shapes));
  KILN_ASSIGN_OR_RETURN(made.disabled_passes,
                        Names(given.disabled_passes, given.num_disabled_passes, "disabled_passes"));
  KILN_ASSIGN_OR_RETURN(made.no_fuse, Names(given.no_fuse, given.num_no_fuse, "no_fuse"));
  return made;
}

namespace {

// The caller's bytes: `release` is called when the last share goes, after an error too.
std::shared_ptr<const void> OwnerOf(const void* data, kiln_release_fn release, void* user) {
  if (release == nullptr) return nullptr;
  return {data, [release, user](const void*) { release(user); }};
}

}  // namespace
}  // namespace kiln::c_api

extern "C" {

kiln_status* kiln_compile(const char* path, const kiln_compile_options* options, kiln_model** out) {
  return Call("compiling", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(path, "path"));
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    return MakeModel(options, out,
                     [&](const kiln::CompileOptions& given) { return kiln::Compile(path, given); });
  });
}

kiln_status* kiln_compile_bytes(const void* data, size_t size, const char* name, const char* folder,
                                kiln_release_fn release, void* user,
                                const kiln_compile_options* options, kiln_model** out) {
  return Call("compiling", [&]() -> absl::Status {
    kiln::ModelBytes bytes;
    bytes.data = data;
    bytes.size = size;
    bytes.owner = kiln::c_api::OwnerOf(data, release, user);
    KILN_RETURN_IF_ERROR(CheckPointer(data, "data"));
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    if (name != nullptr) bytes.name = name;
    bytes.folder = kiln::c_api::TextOf(folder);
    return MakeModel(options, out, [&](const kiln::CompileOptions& given) {
      return kiln::Compile(bytes, given);
    });
  });
}

kiln_status* kiln_compile_descriptor(int descriptor, const char* name, const char* folder,
                                     const kiln_compile_options* options, kiln_model** out) {
  return Call("compiling", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    KILN_ASSIGN_OR_RETURN(kiln::ModelBytes bytes, kiln::MapModel(descriptor));
    if (name != nullptr) bytes.name = name;
    bytes.folder = kiln::c_api::TextOf(folder);
    return MakeModel(options, out, [&](const kiln::CompileOptions& given) {
      return kiln::Compile(bytes, given);
    });
  });
}

kiln_status* kiln_describe(const char* path, kiln_description** out) {
  return Call("model", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(path, "path"));
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    KILN_ASSIGN_OR_RETURN(kiln::ModelDescription made, kiln::Describe(path));
    *out = new kiln_description(std::move(made));
    return absl::OkStatus();
  });
}

const char* kiln_description_form(const kiln_description* description) {
  return description->description.form.c_str();
}

size_t kiln_description_num_inputs(const kiln_description* description) {
  return description->inputs.size();
}

size_t kiln_description_num_outputs(const kiln_description* description) {
  return description->outputs.size();
}

size_t kiln_description_num_unsupported(const kiln_description* description) {
  return description->description.unsupported.size();
}

kiln_status* kiln_description_input(const kiln_description* description, size_t index,
                                    kiln_port* out) {
  return CallOn(description, "description",
                [&] { return description->inputs.Get(index, "input", out); });
}

kiln_status* kiln_description_output(const kiln_description* description, size_t index,
                                     kiln_port* out) {
  return CallOn(description, "description",
                [&] { return description->outputs.Get(index, "output", out); });
}

const char* kiln_description_unsupported(const kiln_description* description, size_t index) {
  const std::vector<std::string>& all = description->description.unsupported;
  return index < all.size() ? all[index].c_str() : nullptr;
}

void kiln_description_free(kiln_description* description) { delete description; }

}  // extern "C"
