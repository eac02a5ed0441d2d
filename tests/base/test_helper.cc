// SPDX-License-Identifier: Apache-2.0
// A helper program for tests of HelperPool: answers what it is asked, or misbehaves as it is told.
#include <signal.h>
#include <unistd.h>

#include <string>

#include "base/helper_main.h"

int main() {
  return kiln::ServeRequests("test helper", [](const std::string& request) -> std::string {
    if (request == "pid") return std::to_string(getpid());
    if (request == "die") raise(SIGKILL);
    if (request == "stop") raise(SIGSTOP);
    if (request.rfind("sleep ", 0) == 0)
      usleep(static_cast<useconds_t>(std::stoi(request.substr(6))) * 1000);
    return "answer to " + request;
  });
}
