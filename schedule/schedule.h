// SPDX-License-Identifier: Apache-2.0
// Schedule: how the loops of one kernel run, as typed data.
//
// Each template has a struct of its own (schedule/<device>/<template>.h) with the numbers that its
// code is made from. Only the template's two files, here and in halide_gen, read them. Everybody
// else has a Schedule, which is one of those structs together with what holds for all of them, and
// its text form:
//
//   row_reduction step=32 task=32768 levels=1 in_place=0:0
//
// Fields come in the order of their struct; those with their default value are left out. Equal
// texts are equal schedules, so the text stands in cache keys.
//
// A struct names its fields once, in Visit: what prints, parses, checks ranges, and varies fields
// are visitors. Example:
//
//   struct Pointwise : FieldsOf<Pointwise> {
//     int64_t step = 16, task = 1 << 15;
//     void Visit(FieldVisitor& fields) override {
//       fields.Int("step", step, {1, kMostLanes});
//       fields.Int("task", task, kTaskRange);
//     }
//   };
#ifndef KILN_SCHEDULE_SCHEDULE_H_
#define KILN_SCHEDULE_SCHEDULE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/decision.h"
#include "base/target.h"
#include "kernel/kernel.h"
#include "kernel/launch_info.h"
#include "schedule/loops.h"
#include "schedule/machine.h"
#include "schedule/size_class.h"

namespace kiln {

class Schedule;

// The values that a field may have, both ends included.
struct Range {
  int64_t least, most;
};
inline constexpr Range kTaskRange{1, 1 << 30};  // correctness

class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;
  virtual void Int(const char* name, int64_t& value, Range range) = 0;
  // A number that says for which extents the code is right: another one is no other speed.
  virtual void Bound(const char* name, int64_t& value, Range range) { Int(name, value, range); }
  virtual void Flag(const char* name, bool& value) = 0;
  // A dim of the kernel that is not its innermost one, and a number of dims counted from the
  // innermost on: at most all of them but one, or `all`.
  virtual void Dim(const char* name, int64_t& dim) = 0;
  virtual void Dims(const char* name, int64_t& count, bool all = false) = 0;
  // A number for each dim, or the numbers of some operands or stages; empty is the default.
  virtual void List(const char* name, std::vector<int64_t>& values, Range range) = 0;
  // The schedule of a part of the kernel.
  virtual void Part(const char* name, Schedule& part) = 0;
};

struct ScheduleFields {
  virtual ~ScheduleFields() = default;
  virtual void Visit(FieldVisitor& fields) = 0;
  virtual std::shared_ptr<ScheduleFields> Copy() const = 0;
  // kInvalidArgument if the fields do not suit a kernel that the template accepts, dims aside.
  virtual absl::Status CheckFor(const Kernel&) const { return absl::OkStatus(); }
  // What the executor and the validator of the code need to know; in_place aside.
  virtual LaunchInfo Info() const = 0;
  // What their price depends on.
  virtual LoopSummary Loops(const Kernel& kernel) const = 0;
};

template <typename T>
struct FieldsOf : ScheduleFields {
  std::shared_ptr<ScheduleFields> Copy() const override {
    return std::make_shared<T>(static_cast<const T&>(*this));
  }
};

// A way to run kernels of some form: one record each, in the file of its struct. Pure functions.
struct Template {
  const char* name;
  const char* doc;
  Decision (*accepts)(const Kernel& kernel);
  // Schedules for a kernel that is accepted, in a size class; none where the template has nothing
  // to offer for such extents. What they cost is told by price.h, not here: a bound on what is
  // offered is one of correctness, of registers, or of the time that compiling takes.
  std::vector<Schedule> (*candidates)(const Kernel& kernel, const SizeClass& sizes,
                                      const Machine& machine);
  std::shared_ptr<ScheduleFields> (*make)();  // the struct with its defaults
  bool adds = false;                          // takes kernels whose output adds, and no others
  Decision Accepts(const Kernel& kernel) const;
};

template <typename T>
std::shared_ptr<ScheduleFields> Make() {
  return std::make_shared<T>();
}

// A value; copies share the fields, which do not change. Thread-compatible.
class Schedule {
 public:
  Schedule() = default;  // of no template; only to be assigned to
  template <typename T>
  Schedule(const Template& of, T fields)
      : template_(&of), fields_(std::make_shared<T>(std::move(fields))) {}

  bool Is(const Template& of) const { return template_ == &of; }
  const char* name() const { return template_->name; }

  // The fields, of a schedule that is of T's template.
  template <typename T>
  const T& As() const {
    return static_cast<const T&>(*fields_);
  }

  // (input, output) pairs: the output may be written over this input.
  std::vector<std::pair<int32_t, int32_t>> in_place;

  LaunchInfo Info() const;
  LoopSummary Loops(const Kernel& kernel) const { return fields_->Loops(kernel); }
  std::string ToString() const;
  friend bool operator==(const Schedule& a, const Schedule& b) {
    return a.ToString() == b.ToString();
  }

  // All fields with their values, as texts.
  std::vector<std::pair<std::string, std::string>> Values() const;

  // Gives this schedule fields of its own, and lets `visitor` change them.
  void VisitCopy(FieldVisitor& visitor);

  // kInvalidArgument names the word that is wrong, and what may stand there.
  static absl::StatusOr<Schedule> Parse(absl::string_view text, DeviceKind device);

  // kInvalidArgument if the template does not accept the kernel, or a field names a dim that the
  // kernel lacks: code for it would be nonsense rather than slow.
  absl::Status CheckFor(const Kernel& kernel) const;

  // Schedules that differ from this one in one number, which is doubled or halved within its range:
  // what a set of candidates may have missed. For measurements.
  std::vector<Schedule> Neighbours() const;

 private:
  friend class ScheduleParser;
  const Template* template_ = nullptr;
  std::shared_ptr<ScheduleFields> fields_;
};

// Sets, as the lists of fields name them: the numbers for which `in` holds, and back.
std::vector<int64_t> Members(const std::vector<bool>& in);
std::vector<bool> AsFlags(const std::vector<int64_t>& members, size_t size);

}  // namespace kiln

#endif  // KILN_SCHEDULE_SCHEDULE_H_
