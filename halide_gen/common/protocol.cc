// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/protocol.h"

#include "absl/strings/str_cat.h"
#include "base/little_endian.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

// Fields of the three messages. Numbers are never reused.
enum class Tag : uint8_t {
  kBuildId = 1,
  kCompiler,
  kKernel,
  kSchedule,
  kTarget,
  kSection,
  kTimeout,
  kCpu,
  kOutcome,
  kError,
  kSectionName,
  kSectionBytes,
  kIsa,
  kScratch,
  kWall,
  kOfSchedule,
  kAssembler,
  kDisassembler,
};

void PutField(std::string& out, Tag tag, absl::string_view bytes) {
  out.push_back(static_cast<char>(tag));
  AppendU32(out, static_cast<uint32_t>(bytes.size()));
  out.append(bytes.data(), bytes.size());
}

void PutNumber(std::string& out, Tag tag, uint64_t value, int bytes) {
  std::string text;
  AppendLittleEndian(text, value, bytes);
  PutField(out, tag, text);
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("codegen message: ", what, "; is the worker of another version?"));
}

struct Field {
  Tag tag;
  absl::string_view bytes;
};

// Splits off the first field of `rest`.
absl::StatusOr<Field> NextField(absl::string_view& rest) {
  if (rest.size() < 5) return Damaged("a field is cut short");
  const uint64_t size = LoadU32(rest.substr(1, 4));
  if (size > rest.size() - 5) return Damaged("a field is longer than the message");
  const Field field{static_cast<Tag>(rest[0]), rest.substr(5, size)};
  rest.remove_prefix(5 + size);
  return field;
}

absl::Status Number(const Field& field, size_t bytes, uint64_t& value) {
  if (field.bytes.size() != bytes) return Damaged("a number has another size");
  value = LoadLittleEndian(field.bytes, static_cast<int>(field.bytes.size()));
  return absl::OkStatus();
}

}  // namespace

std::string Encode(const CodegenHello& hello) {
  std::string out;
  PutField(out, Tag::kBuildId, hello.build_id);
  PutField(out, Tag::kCompiler, hello.compiler);
  return out;
}

std::string Encode(const CodegenRequest& request) {
  std::string out;
  PutField(out, Tag::kKernel, request.kernel);
  PutField(out, Tag::kSchedule, request.schedule);
  PutField(out, Tag::kTarget, request.target);
  for (const std::string& section : request.sections) PutField(out, Tag::kSection, section);
  PutNumber(out, Tag::kTimeout, request.timeout_ms, 4);
  PutNumber(out, Tag::kCpu, request.cpu_ms, 4);
  PutField(out, Tag::kAssembler, request.assembler);
  PutField(out, Tag::kDisassembler, request.disassembler);
  return out;
}

std::string Encode(const CodegenAnswer& answer) {
  std::string out;
  PutNumber(out, Tag::kOutcome, static_cast<uint64_t>(answer.outcome), 1);
  PutField(out, Tag::kError, answer.error);
  PutNumber(out, Tag::kOfSchedule, answer.of_schedule ? 1 : 0, 1);
  PutField(out, Tag::kSchedule, answer.schedule);
  for (const auto& [name, bytes] : answer.sections) {
    PutField(out, Tag::kSectionName, name);
    PutField(out, Tag::kSectionBytes, bytes);
  }
  PutField(out, Tag::kIsa, answer.isa);
  PutNumber(out, Tag::kScratch, answer.scratch_bytes, 8);
  PutNumber(out, Tag::kWall, answer.wall_ms, 4);
  return out;
}

absl::StatusOr<CodegenHello> DecodeHello(absl::string_view payload) {
  CodegenHello hello;
  while (!payload.empty()) {
    KILN_ASSIGN_OR_RETURN(const Field field, NextField(payload));
    if (field.tag == Tag::kBuildId) {
      hello.build_id = std::string(field.bytes);
    } else if (field.tag == Tag::kCompiler) {
      hello.compiler = std::string(field.bytes);
    } else {
      return Damaged("a hello has an unknown field");
    }
  }
  return hello;
}

absl::StatusOr<CodegenRequest> DecodeRequest(absl::string_view payload) {
  CodegenRequest request;
  uint64_t number = 0;
  while (!payload.empty()) {
    KILN_ASSIGN_OR_RETURN(const Field field, NextField(payload));
    switch (field.tag) {
      case Tag::kKernel:
        request.kernel = std::string(field.bytes);
        break;
      case Tag::kSchedule:
        request.schedule = std::string(field.bytes);
        break;
      case Tag::kTarget:
        request.target = std::string(field.bytes);
        break;
      case Tag::kSection:
        request.sections.emplace_back(field.bytes);
        break;
      case Tag::kTimeout:
        KILN_RETURN_IF_ERROR(Number(field, 4, number));
        request.timeout_ms = static_cast<uint32_t>(number);
        break;
      case Tag::kCpu:
        KILN_RETURN_IF_ERROR(Number(field, 4, number));
        request.cpu_ms = static_cast<uint32_t>(number);
        break;
      case Tag::kAssembler:
        request.assembler = std::string(field.bytes);
        break;
      case Tag::kDisassembler:
        request.disassembler = std::string(field.bytes);
        break;
      default:
        return Damaged("a request has an unknown field");
    }
  }
  return request;
}

absl::StatusOr<CodegenAnswer> DecodeAnswer(absl::string_view payload) {
  CodegenAnswer answer;
  uint64_t number = 0;
  while (!payload.empty()) {
    KILN_ASSIGN_OR_RETURN(const Field field, NextField(payload));
    switch (field.tag) {
      case Tag::kOutcome:
        KILN_RETURN_IF_ERROR(Number(field, 1, number));
        if (number > static_cast<uint64_t>(CodegenAnswer::Outcome::kTimedOut))
          return Damaged("unknown outcome");
        answer.outcome = static_cast<CodegenAnswer::Outcome>(number);
        break;
      case Tag::kError:
        answer.error = std::string(field.bytes);
        break;
      case Tag::kOfSchedule:
        KILN_RETURN_IF_ERROR(Number(field, 1, number));
        answer.of_schedule = number != 0;
        break;
      case Tag::kSchedule:
        answer.schedule = std::string(field.bytes);
        break;
      case Tag::kSectionName:
        answer.sections.emplace_back(std::string(field.bytes), "");
        break;
      case Tag::kSectionBytes:
        if (answer.sections.empty()) return Damaged("a section has no name");
        answer.sections.back().second = std::string(field.bytes);
        break;
      case Tag::kIsa:
        answer.isa = std::string(field.bytes);
        break;
      case Tag::kScratch:
        KILN_RETURN_IF_ERROR(Number(field, 8, answer.scratch_bytes));
        break;
      case Tag::kWall:
        KILN_RETURN_IF_ERROR(Number(field, 4, number));
        answer.wall_ms = static_cast<uint32_t>(number);
        break;
      default:
        return Damaged("an answer has an unknown field");
    }
  }
  return answer;
}

}  // namespace kiln
