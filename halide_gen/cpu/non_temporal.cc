// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/non_temporal.h"

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernel/abi.h"

namespace kiln {
namespace {

using Names = std::set<std::string, std::less<>>;

constexpr absl::string_view kEntry = "k_argv", kAnywhere = ".anywhere", kLines = ".lines";

constexpr char kPrefetch[] = "\tprefetcht0\t",
               kNotWithNonTemporal[] = " # not with non-temporal stores";

// What each aligned store is without alignment.
constexpr std::pair<absl::string_view, absl::string_view> kUnaligned[] = {
    {"vmovaps", "vmovups"}, {"vmovapd", "vmovupd"},     {"vmovdqa", "vmovdqu"},
    {"movaps", "movups"},   {"vmovdqa32", "vmovdqu32"}, {"vmovdqa64", "vmovdqu64"},
    {"movapd", "movupd"},   {"movdqa", "movdqu"}};

bool IsNameChar(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '$'; }

// "\tvmovaps\t%zmm0, 8(%rdi)   # comment" as operation and operands.
struct Instruction {
  absl::string_view operation, operands;

  explicit Instruction(absl::string_view line) {
    if (line.empty() || line[0] != '\t') return;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    const size_t end = line.find('\t');
    operation = line.substr(0, end);
    if (end != absl::string_view::npos) operands = line.substr(end + 1);
  }
};

// The form without alignment of an aligned store to memory; empty if it is none.
absl::string_view UnalignedStore(const Instruction& instruction) {
  const bool store = absl::StartsWith(instruction.operands, "%") &&  // from a register
                     absl::StrContains(instruction.operands, "(");
  for (const auto& [aligned, unaligned] : kUnaligned) {
    if (store && instruction.operation == aligned) return unaligned;
  }
  return "";
}

// No store under a mask bypasses the caches. The stack is read again soon.
bool StoresToOutput(const Instruction& instruction) {
  return !UnalignedStore(instruction).empty() && absl::EndsWith(instruction.operands, ")") &&
         !absl::StrContains(instruction.operands, "%rsp") &&
         !absl::StrContains(instruction.operands, "(%rbp)");
}

// Whether a function ends here: it returns, or jumps to another that returns for it.
bool Leaves(const Instruction& instruction) {
  return instruction.operation == "retq" || (absl::StartsWith(instruction.operation, "j") &&
                                             !absl::StartsWith(instruction.operands, ".L"));
}

// The lines of sections of code, and the names that they define.
struct Code {
  std::vector<absl::string_view> lines;
  Names defined;

  explicit Code(absl::string_view assembly) {
    bool inside = false;
    for (const absl::string_view line : absl::StrSplit(assembly, '\n')) {
      const Instruction directive(line);
      if (directive.operation == ".section" || directive.operation == ".text")
        inside = directive.operation == ".text" || absl::StartsWith(directive.operands, ".text");
      if (!inside) continue;
      lines.push_back(line);
      const size_t colon = line.find(':');
      if (!line.empty() && IsNameChar(line[0]) && colon != absl::string_view::npos)
        defined.emplace(line.substr(0, colon));
    }
  }
};

// `line` with `suffix` after each of `names`.
std::string Renamed(absl::string_view line, const Names& names, absl::string_view suffix) {
  std::string out;
  for (size_t at = 0; at < line.size();) {
    size_t end = at;
    while (end < line.size() && IsNameChar(line[end])) ++end;
    const absl::string_view word = line.substr(at, end - at);
    absl::StrAppend(&out, word, names.count(word) > 0 ? suffix : "");
    if (end < line.size()) out += line[end++];
    at = end;
  }
  return out;
}

std::string Ordinary(absl::string_view assembly) {
  std::string out;
  for (const absl::string_view line : absl::StrSplit(assembly, '\n')) {
    const Instruction instruction(line);
    const absl::string_view unaligned = UnalignedStore(instruction);
    if (unaligned.empty()) {
      absl::StrAppend(&out, line, "\n");
    } else {
      absl::StrAppend(&out, "\t", unaligned, "\t", instruction.operands, "\n");
    }
  }
  return out;
}

std::string Streaming(const Code& code) {
  std::string out;
  for (const absl::string_view line : code.lines) {
    const Instruction instruction(line);
    if (absl::EndsWith(line, kNotWithNonTemporal)) continue;
    if (StoresToOutput(instruction)) {
      const bool vex = instruction.operation[0] == 'v';
      absl::StrAppend(&out, vex ? "\tvmovntps\t" : "\tmovntps\t", instruction.operands, "\n");
    } else {
      // Others read what a task wrote once it has returned.
      if (Leaves(instruction)) out += "\tsfence\n";
      absl::StrAppend(&out, Renamed(line, code.defined, kLines), "\n");
    }
  }
  return out;
}

}  // namespace

std::string WithPrefetches(absl::string_view assembly) {
  std::string out;
  absl::string_view last;  // prefetch of the block, as far as its like may follow
  for (const absl::string_view line : absl::StrSplit(assembly, '\n')) {
    const Instruction instruction(line);
    const bool is_label = !line.empty() && line[0] != '\t';
    if (is_label || absl::StartsWith(instruction.operation, "j")) last = "";
    if (instruction.operation != "prefetchnta") {
      absl::StrAppend(&out, line, "\n");
    } else if (instruction.operands == last) {
      out.insert(out.find('\n', out.rfind(kPrefetch)), kNotWithNonTemporal);
      last = "";
    } else {
      absl::StrAppend(&out, kPrefetch, instruction.operands, "\n");
      last = instruction.operands;
    }
  }
  return out;
}

std::string WithNonTemporalStores(absl::string_view assembly, std::span<const LineExtent> extents,
                                  size_t inputs) {
  const Code code(assembly);
  bool any = false;
  for (const absl::string_view line : code.lines) any = any || StoresToOutput(Instruction(line));
  const bool tables = absl::StrContains(assembly, ".LJTI");
  if (!any || tables || code.defined.count(kEntry) == 0) return Ordinary(assembly);
  const Names entry = {std::string(kEntry)};
  std::string choice = absl::StrCat("\t.text\n\t.globl\t", kEntry, "\n\t.type\t", kEntry,
                                    ",@function\n", kEntry, ":\n");
  for (const auto& [dim, multiple] : extents) {
    absl::StrAppend(&choice, "\tmovq\t", (1 + inputs + dim) * sizeof(void*), "(%rdi), %rax\n",
                    "\ttestl\t$", multiple - 1, ", (%rax)\n\tjne\t", kEntry, kAnywhere, "\n");
  }
  absl::StrAppend(&choice, "\tmovq\t(%rdi), %rax\n\tmovq\t(%rax), %rax\n\tcmpb\t$0, ",
                  offsetof(LaunchContext, non_temporal), "(%rax)\n\tjne\t", kEntry, kLines,
                  "\n\tjmp\t", kEntry, kAnywhere, "\n\t.size\t", kEntry, ", .-", kEntry, "\n");
  return absl::StrCat(Renamed(Ordinary(assembly), entry, kAnywhere), Streaming(code), choice);
}

}  // namespace kiln
