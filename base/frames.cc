// SPDX-License-Identifier: Apache-2.0
#include "base/frames.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/little_endian.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr uint32_t kMostBytes = 64u << 20;

absl::Status Cut() {
  return absl::DataLossError(
      "message: the stream ends inside a frame; is the other program of another version?");
}

int64_t NowMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// Waits until `fd` can do what `events` say, or has ended.
absl::Status WaitFor(int fd, short events, int64_t deadline) {
  while (true) {
    const int64_t left = deadline < 0 ? -1 : std::max<int64_t>(0, deadline - NowMs());
    pollfd poll_fd{fd, events, 0};
    const int ready = poll(&poll_fd, 1, static_cast<int>(std::min<int64_t>(left, INT32_MAX)));
    if (ready > 0) return absl::OkStatus();
    if (ready == 0) {
      return absl::DeadlineExceededError(events == POLLIN ? "message: none within the time allowed"
                                                          : "message: not taken within the time");
    }
    if (errno != EINTR) return absl::DataLossError(absl::StrCat("message: ", strerror(errno)));
  }
}

// Fills `out`; false at an end of file before the first byte.
absl::StatusOr<bool> ReadExactly(int fd, char* out, size_t size, int64_t deadline) {
  size_t done = 0;
  while (done < size) {
    KILN_RETURN_IF_ERROR(WaitFor(fd, POLLIN, deadline));
    const ssize_t count = read(fd, out + done, size - done);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return absl::DataLossError(absl::StrCat("message: ", strerror(errno)));
    if (count == 0 && done == 0) return false;
    if (count == 0) return Cut();
    done += static_cast<size_t>(count);
  }
  return true;
}

// write(2), but a socket whose other end is gone is an error, not a signal, and one that is full
// does not block.
ssize_t WriteSome(int fd, const char* bytes, size_t count) {
  const ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent < 0 && errno == ENOTSOCK ? write(fd, bytes, count) : sent;
}

}  // namespace

absl::StatusOr<std::string> ReadFrame(int fd, int timeout_ms) {
  const int64_t deadline = timeout_ms < 0 ? -1 : NowMs() + timeout_ms;
  char header[4];
  KILN_ASSIGN_OR_RETURN(const bool any, ReadExactly(fd, header, sizeof(header), deadline));
  if (!any) return absl::NotFoundError("message: the stream has ended");
  const uint64_t size = LoadU32(absl::string_view(header, sizeof(header)));
  if (size > kMostBytes) {
    return absl::DataLossError(
        absl::StrCat("message: a frame of ", size, " bytes, more than the limit of ", kMostBytes));
  }
  std::string payload(size, '\0');
  KILN_ASSIGN_OR_RETURN(const bool whole, ReadExactly(fd, payload.data(), size, deadline));
  if (!whole && size > 0) return Cut();
  return payload;
}

absl::Status WriteFrame(int fd, absl::string_view payload, int timeout_ms) {
  const int64_t deadline = timeout_ms < 0 ? -1 : NowMs() + timeout_ms;
  if (payload.size() > kMostBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("message: ", payload.size(), " bytes, more than the limit of ", kMostBytes));
  }
  std::string frame;
  AppendU32(frame, static_cast<uint32_t>(payload.size()));
  absl::StrAppend(&frame, payload);
  for (size_t done = 0; done < frame.size();) {
    KILN_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline));
    const ssize_t count = WriteSome(fd, frame.data() + done, frame.size() - done);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return absl::DataLossError(absl::StrCat("message: ", strerror(errno)));
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

}  // namespace kiln
