// SPDX-License-Identifier: Apache-2.0
// Streams and events: clocks that are joined.
#include "ptx_emulator/driver.h"

// NOLINTBEGIN(readability-identifier-naming): the names are the driver's.
namespace kiln::cuda {
namespace {

using ptx::Call;
using ptx::DeviceState;
using ptx::Driver;
using ptx::EventState;
using ptx::Needs;
using ptx::StreamState;

// The host waits for all that was given to the stream.
Result WaitForStream(Driver& driver, DeviceState& device, Stream stream) {
  const StreamState* found = driver.FindStream(stream, device);
  if (found == nullptr) return kInvalidHandle;
  driver.HostKnows(found->clock);
  if (stream != nullptr) return kSuccess;
  for (const auto& [handle, other] : driver.streams.objects()) {
    if (other.blocking && other.device == device.ordinal) driver.HostKnows(other.clock);
  }
  return kSuccess;
}

Result WaitForEvent(Driver& driver, Event event) {
  const EventState* found = driver.events.Find(event);
  if (found == nullptr) return kInvalidHandle;
  driver.HostKnows(found->clock);
  return kSuccess;
}

}  // namespace

Result cuStreamCreate(Stream* stream, unsigned flags) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    if (stream == nullptr || flags > kStreamNonBlocking) return kInvalidValue;
    StreamState made;
    made.device = device.ordinal;
    made.number = driver.next_stream++;
    made.blocking = flags != kStreamNonBlocking;
    *stream = driver.streams.Add(driver.NewHandle(), std::move(made));
    return kSuccess;
  });
}

Result cuStreamDestroy_v2(Stream stream) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState&) {
    return driver.streams.Erase(stream) ? kSuccess : kInvalidHandle;
  });
}

Result cuStreamSynchronize(Stream stream) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    return WaitForStream(driver, device, stream);
  });
}

Result cuStreamQuery(Stream stream) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    return WaitForStream(driver, device, stream);  // its answer is that all is done
  });
}

Result cuStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    StreamState* waits = driver.FindStream(stream, device);
    const EventState* found = driver.events.Find(event);
    if (waits == nullptr || found == nullptr) return kInvalidHandle;
    if (flags > 1) return kInvalidValue;
    ptx::JoinClock(waits->clock, found->clock);
    return kSuccess;
  });
}

Result cuStreamGetCtx(Stream stream, Context* context) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    const StreamState* found =
        stream == nullptr ? &device.default_stream : driver.streams.Find(stream);
    if (found == nullptr) return kInvalidHandle;
    if (context == nullptr) return kInvalidValue;
    *context = ptx::ContextOf(found->device);
    return kSuccess;
  });
}

Result cuEventCreate(Event* event, unsigned flags) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    if (event == nullptr || flags > 7) return kInvalidValue;
    EventState made;
    made.device = device.ordinal;
    made.timed = (flags & kEventDisableTiming) == 0;
    *event = driver.events.Add(driver.NewHandle(), std::move(made));
    return kSuccess;
  });
}

Result cuEventDestroy_v2(Event event) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState&) {
    return driver.events.Erase(event) ? kSuccess : kInvalidHandle;
  });
}

Result cuEventRecord(Event event, Stream stream) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    EventState* found = driver.events.Find(event);
    StreamState* records = driver.FindStream(stream, device);
    if (found == nullptr || records == nullptr || found->device != device.ordinal) {
      return kInvalidHandle;
    }
    driver.BeginStep(*records);
    found->recorded = true;
    found->clock = records->clock;
    found->time = driver.warp_instructions;
    return kSuccess;
  });
}

Result cuEventQuery(Event event) {
  return Call(__func__, Needs::kContext,
              [&](Driver& driver, DeviceState&) { return WaitForEvent(driver, event); });
}

Result cuEventSynchronize(Event event) {
  return Call(__func__, Needs::kContext,
              [&](Driver& driver, DeviceState&) { return WaitForEvent(driver, event); });
}

Result cuEventElapsedTime(float* ms, Event from, Event to) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState&) {
    const EventState* first = driver.events.Find(from);
    const EventState* last = driver.events.Find(to);
    if (ms == nullptr) return kInvalidValue;
    if (first == nullptr || last == nullptr || !first->recorded || !last->recorded ||
        !first->timed || !last->timed) {
      return kInvalidHandle;
    }
    // As if a device did one warp instruction in a nanosecond.
    *ms = static_cast<float>(static_cast<double>(last->time) - static_cast<double>(first->time)) *
          1e-6f;
    return kSuccess;
  });
}

}  // namespace kiln::cuda
// NOLINTEND(readability-identifier-naming)
