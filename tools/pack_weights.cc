// SPDX-License-Identifier: Apache-2.0
#include "tools/pack_weights.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/package/package.h"
#include "exec/support/device.h"
#include "kiln/model.h"
#include "tools/inputs.h"

namespace kiln {
namespace {

// A file without a name on the disk of `output`: nothing is left of it, whatever ends the process.
absl::StatusOr<Descriptor> NamelessFile(const std::string& output) {
  const std::string folder = std::filesystem::absolute(output).parent_path().string();
  int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
    std::string name = folder + "/.kiln.XXXXXX";
    fd = mkostemp(name.data(), O_CLOEXEC);
    if (fd >= 0) unlink(name.c_str());
  }
  if (fd < 0) return ErrnoStatus(errno, folder, "open");
  return Descriptor(fd);
}

absl::Status RunOnce(const Graph& graph, Model& model, const InputLine& line) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors,
                        MakeInputs(graph, line.values, line.common));
  return model.Run(Named(model.inputs(), tensors)).status();
}

}  // namespace

absl::Status PackWeights(const ModelFlags& flags, const CommonOptions& common,
                         const std::string& output, Store& store, PackageWriter& writer) {
  // Library operators of the CPU pack them: a package for other devices alone has none to run here.
  KILN_ASSIGN_OR_RETURN(const CompileOptions options,
                        ToCompileOptions(common, TargetsNamed(flags)));
  if (absl::c_none_of(TargetsOf(flags, options),
                      [](Target target) { return OnHost(target.device); }))
    return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const Descriptor file, NamelessFile(output));
  KILN_RETURN_IF_ERROR(writer.Write(
      store, {}, [&](absl::string_view bytes) { return WriteAll(file, bytes, output); }));
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<Package> package,
                        Package::Open(PackageSource::Descriptor(file.get())));
  if (package->on_vm() != 0) return absl::OkStatus();
  package->weights().KeepAll();
  KILN_ASSIGN_OR_RETURN(Model model, Model::Create(package, RunOptions()));
  const Graph graph = GraphOfPorts(package->inputs());
  CommonOptions quiet = common;
  quiet.quiet = true;
  KILN_ASSIGN_OR_RETURN(const std::vector<InputLine> lines, InputLines(flags, graph, quiet));
  for (const InputLine& line : lines) {
    // Values at random may be none that the model takes: what was packed by then counts.
    const absl::Status run = RunOnce(graph, model, line);
    if (absl::IsResourceExhausted(run)) return run;
  }
  for (const PackagedWeights::Packed& packed : package->weights().Kept()) writer.AddPacked(packed);
  return absl::OkStatus();
}

}  // namespace kiln
