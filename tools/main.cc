// SPDX-License-Identifier: Apache-2.0
// kiln: the command line. One file per verb; this one only finds the verb.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <new>
#include <string>

#include "halide_gen/common/build_id.h"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/lock.h"
#include "tools/report_verb.h"
#include "tools/terminal_text.h"

namespace {

constexpr kiln::Verb kVerbs[] = {
    {"run", "Run a model once, save and check its outputs", kiln::AddRun},
    {"bench", "Time a model, or several settings of it in turn", kiln::AddBench},
    {"compile", "Build the kernels of a model ahead of time", kiln::AddCompile},
    {"lock", "Write down, or check, what compilation makes of a model", kiln::AddLock},
    {"inspect", "Show what a model is made of, and the kernels made of it", kiln::AddInspect},
    {"explain", "Say why nodes are, or are not, in one kernel", kiln::AddExplain},
    {"verify", "Compare a model with the float64 interpreter", kiln::AddVerify},
    {"opt", "Run passes over a graph and print what they leave", kiln::AddOpt},
    {"train", "Train a model on samples in files", kiln::AddTrain},
    {"report", "Write a page of what becomes of a model and how it runs", kiln::AddReport},
    {"plan", "Plan the memory of intervals in a file", kiln::AddPlan},
    {"ops", "List the operators", kiln::AddOps},
    {"devices", "Show what kernels can run on, and measure it", kiln::AddDevices},
    {"cache", "Look into the kernel cache", kiln::AddCache},
    {"doctor", "Check whether this machine is fit, and say what to do", kiln::AddDoctor},
    {"completion", "Print a script that completes command lines in a shell", kiln::AddCompletion},
    {"man", "Write the manual pages", kiln::AddMan},
};

// A standard descriptor that is closed would be the number of the next file, which then has what is
// printed. It is the null device instead, opened the wrong way: to use it stays an error.
void FillStandardDescriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// The exit code, where all that was printed is written.
int Written(int exit) {
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (written || exit != kiln::kExitOk) return exit;
  std::cerr << "kiln: the standard output cannot be written: " << std::strerror(errno) << "\n";
  return kiln::kExitIo;
}

}  // namespace

int main(int argc, char** argv) {
  FillStandardDescriptors();
  const kiln::TerminalText out(std::cout, STDOUT_FILENO), err(std::cerr, STDERR_FILENO);
  // A file that may grow no further is an error, which is told, and not the end.
  std::signal(SIGXFSZ, SIG_IGN);
  kiln::Flags program("kiln", "Kiln: fuses tensor programs into cached native kernels",
                      std::string("kiln " KILN_VERSION " codegen ") + kiln::kCodegenBuildId + ", " +
                          kiln::kCodegenCompiler);
  for (const kiln::Verb& verb : kVerbs) verb.add(program.Command(verb.name, verb.doc));
  try {
    return Written(program.Run(argc, argv));
  } catch (const std::bad_alloc&) {
    const absl::Status none = absl::ResourceExhaustedError("the system has no more memory");
    return kiln::Fail(none, kiln::ModelExit(none));
  }
}
