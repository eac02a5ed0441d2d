// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

namespace kiln {
namespace {

struct FileCloser {
  void operator()(FILE* file) const { fclose(file); }
};
using File = std::unique_ptr<FILE, FileCloser>;

std::string Contents(FILE* file) {
  std::string text;
  rewind(file);
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof(buffer), file)) > 0;) text.append(buffer, n);
  return text;
}

[[noreturn]] void Become(const std::vector<std::string>& arguments, const ProcessOptions& options,
                         FILE* out, FILE* err) {
  setpgid(0, 0);
  dup2(fileno(out), 1);
  dup2(fileno(err), 2);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  for (const auto& [name, value] : options.environment) {
    if (value.empty()) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) _exit(126);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

}  // namespace

ProcessResult RunProcess(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  const File out(tmpfile());
  const File err(tmpfile());
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = fork();
  if (pid == 0) Become(arguments, options, out.get(), err.get());
  if (options.kill_after_us >= 0) {
    usleep(static_cast<useconds_t>(options.kill_after_us));
    kill(-pid, options.signal);
    kill(pid, options.signal);
  }
  int status = 0;
  rusage usage{};
  wait4(pid, &status, 0, &usage);
  ProcessResult result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.peak_kib = usage.ru_maxrss;
  result.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  result.out = Contents(out.get());
  result.err = Contents(err.get());
  return result;
}

std::string KilnPath() { return KILN_TEST_BIN_DIR "/kiln"; }

ProcessResult Kiln(std::vector<std::string> arguments, const ProcessOptions& options) {
  arguments.insert(arguments.begin(), KilnPath());
  return RunProcess(arguments, options);
}

}  // namespace kiln
