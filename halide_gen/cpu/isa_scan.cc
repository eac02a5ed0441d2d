// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/isa_scan.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace kiln {
namespace {

using Features = std::set<absl::string_view>;

template <typename Names>
bool IsOneOf(absl::string_view op, const Names& names) {
  return std::find(std::begin(names), std::end(names), op) != std::end(names);
}

template <typename Prefixes>
bool StartsWithOneOf(absl::string_view op, const Prefixes& prefixes) {
  return std::any_of(std::begin(prefixes), std::end(prefixes),
                     [&](absl::string_view prefix) { return absl::StartsWith(op, prefix); });
}

// True if an operand is a register of this kind: "ymm" or "k" followed by a digit.
bool UsesRegister(absl::string_view operands, absl::string_view kind) {
  for (size_t at = operands.find(kind); at != absl::string_view::npos;
       at = operands.find(kind, at + 1)) {
    const size_t after = at + kind.size();
    const bool starts =
        at == 0 || !absl::ascii_isalnum(static_cast<unsigned char>(operands[at - 1]));
    if (starts && after < operands.size() &&
        absl::ascii_isdigit(static_cast<unsigned char>(operands[after]))) {
      return true;
    }
  }
  return false;
}

// Registers 16 to 31 exist with EVEX encoding only.
bool UsesHighRegister(absl::string_view operands) {
  for (size_t at = operands.find("mm"); at != absl::string_view::npos;
       at = operands.find("mm", at + 2)) {
    const absl::string_view number = operands.substr(at + 2, 2);
    if (number.size() == 2 && absl::ascii_isdigit(static_cast<unsigned char>(number[1])) &&
        number >= "16" && number <= "31") {
      return true;
    }
  }
  return false;
}

void AddScalarExtensions(absl::string_view op, Features& features) {
  static constexpr absl::string_view kBmi1[] = {"andn", "bextr", "blsi", "blsmsk", "blsr", "tzcnt"};
  static constexpr absl::string_view kBmi2[] = {"bzhi", "mulx", "pdep", "pext",
                                                "rorx", "sarx", "shlx", "shrx"};
  // pand and the like start with other letters; "andnps" is SSE.
  if (StartsWithOneOf(op, kBmi1) && !absl::StartsWith(op, "andnp")) features.insert("bmi1");
  if (StartsWithOneOf(op, kBmi2)) features.insert("bmi2");
  if (absl::StartsWith(op, "lzcnt")) features.insert("lzcnt");
  if (absl::StartsWith(op, "popcnt")) features.insert("popcnt");
  if (absl::StartsWith(op, "movbe")) features.insert("movbe");
  static constexpr absl::string_view kSse41[] = {
      "blendv",  "blendp",   "pblend",  "dpp",     "extractps", "insertps", "pextr",   "pinsr",
      "pmaxs",   "pmaxu",    "pmins",   "pminu",   "pmovsx",    "pmovzx",   "pmul",    "ptest",
      "round",   "packusdw", "pcmpeqq", "mpsadbw", "phminpos",  "movntdqa", "pshufb",  "pabs",
      "palignr", "phadd",    "phsub",   "psign",   "haddp",     "movddup",  "movshdup"};
  if (StartsWithOneOf(op, kSse41)) features.insert("sse41");
  if (op == "pcmpgtq" || absl::StartsWith(op, "crc32")) features.insert({"sse41", "sse42"});
}

void AddAvx512(absl::string_view op, absl::string_view operands, Features& features) {
  features.insert("avx512f");
  if (!UsesRegister(operands, "zmm") && !absl::StartsWith(op, "k")) features.insert("avx512vl");
  static constexpr absl::string_view kDq[] = {
      "vandp",           "vandnp",          "vorp",
      "vxorp",           "vpmullq",         "vcvtqq2",
      "vcvtuqq2",        "vcvttps2qq",      "vcvttpd2qq",
      "vcvtps2qq",       "vcvtpd2qq",       "vcvttps2uqq",
      "vcvttpd2uqq",     "vpmovm2d",        "vpmovm2q",
      "vpmovd2m",        "vpmovq2m",        "vextractf64x2",
      "vextractf32x8",   "vextracti64x2",   "vextracti32x8",
      "vinsertf64x2",    "vinsertf32x8",    "vinserti64x2",
      "vinserti32x8",    "vbroadcastf32x2", "vbroadcastf64x2",
      "vbroadcastf32x8", "vbroadcasti32x2", "vbroadcasti64x2",
      "vbroadcasti32x8", "vfpclass",        "vrange",
      "vreduce"};
  if (StartsWithOneOf(op, kDq)) features.insert("avx512dq");
  if (absl::StartsWith(op, "vpconflict") || absl::StartsWith(op, "vplzcnt"))
    features.insert("avx512cd");
  // Mask instructions exist per width: b is DQ, w is F, d and q are BW; some of b and w mix both.
  if (absl::StartsWith(op, "k")) {
    features.insert(absl::EndsWith(op, "b") ? "avx512dq" : "avx512f");
    if (absl::EndsWith(op, "d") || absl::EndsWith(op, "q")) features.insert("avx512bw");
    if (op == "kaddw" || op == "ktestw") features.insert("avx512dq");
    if (op == "kunpckwd" || op == "kunpckdq") features.insert("avx512bw");
    return;
  }
  // Integer operations on bytes and words.
  static constexpr absl::string_view kBytes[] = {
      "vpadd",        "vpsub",        "vpavg",     "vpack",     "vpmadd",     "vpmulhw",
      "vpmulhuw",     "vpmulhrsw",    "vpmullw",   "vpmovwb",   "vpmovswb",   "vpmovuswb",
      "vpabs",        "vpmovb2m",     "vpmovw2m",  "vpmovm2b",  "vpmovm2w",   "vpalignr",
      "vpshufb",      "vpshufhw",     "vpshuflw",  "vpsllw",    "vpsrlw",     "vpsraw",
      "vpsllvw",      "vpsrlvw",      "vpsravw",   "vpermw",    "vpermi2w",   "vpermt2w",
      "vdbpsadbw",    "vpsadbw",      "vmovdqu8",  "vmovdqu16", "vpunpcklbw", "vpunpckhbw",
      "vpunpcklwd",   "vpunpckhwd",   "vpslldq",   "vpsrldq",   "vpmovsxbw",  "vpmovzxbw",
      "vpbroadcastb", "vpbroadcastw", "vpextr",    "vpinsr",    "vptestmb",   "vptestmw",
      "vptestnmb",    "vptestnmw",    "vpblendmb", "vpblendmw", "vpmaxs",     "vpmaxu",
      "vpmins",       "vpminu",       "vpcmp"};
  if (!StartsWithOneOf(op, kBytes)) return;
  // Of the families that have all widths, d and q are F.
  static constexpr absl::string_view kAllWidths[] = {"vpadd",  "vpsub",  "vpabs",  "vpmaxs",
                                                     "vpmaxu", "vpmins", "vpminu", "vpcmp"};
  const bool wide =
      StartsWithOneOf(op, kAllWidths) && (absl::EndsWith(op, "d") || absl::EndsWith(op, "q"));
  if (!wide) features.insert("avx512bw");
}

void AddVector(absl::string_view op, absl::string_view operands, Features& features) {
  features.insert("avx");
  if (absl::StartsWith(op, "vfm") || absl::StartsWith(op, "vfnm")) features.insert("fma");
  if (absl::StartsWith(op, "vcvtph2ps") || absl::StartsWith(op, "vcvtps2ph"))
    features.insert("f16c");
  // Integers in ymm, broadcasts from registers, gathers and variable shifts are AVX2: any of these
  // names it.
  if (absl::StartsWith(op, "vp") || absl::StartsWith(op, "vbroadcast") ||
      absl::StartsWith(op, "vgather") || absl::StartsWith(op, "vextracti") ||
      absl::StartsWith(op, "vinserti") || absl::StartsWith(op, "vpermp")) {
    features.insert("avx2");
  }
  const bool masked = absl::StrContains(operands, "{");
  static constexpr absl::string_view kEvexOnly[] = {
      "vmovdqu8",  "vmovdqu16",   "vmovdqu32",   "vmovdqu64", "vmovdqa32",   "vmovdqa64",
      "vpternlog", "vrndscale",   "vscalef",     "vgetexp",   "vgetmant",    "vfixupimm",
      "vpermi2",   "vpermt2",     "vpcompress",  "vcompress", "vpexpand",    "vexpand",
      "vcvtusi2",  "vcvttps2udq", "vcvttpd2udq", "vcvtudq2",  "vcvttss2usi", "vcvttsd2usi",
      "vpord",     "vporq",       "vpandd",      "vpandq",    "vpandnd",     "vpandnq",
      "vpxord",    "vpxorq",      "vprol",       "vpror",     "vpsraq",      "vpsravq",
      "vpabsq",    "vpmaxsq",     "vpmaxuq",     "vpminsq",   "vpminuq",     "valign",
      "vshuff",    "vshufi",      "vcvtqq2",     "vcvtuqq2",  "vpmullq",     "vpmovdb",
      "vpmovdw",   "vpmovqb",     "vpmovqw",     "vpmovqd",   "vpmovwb",     "vpmovsd",
      "vpmovusd",  "vpmovsq",     "vpmovusq",    "vpmovsw",   "vpmovusw",    "vpscatter",
      "vscatter",  "vpconflict",  "vplzcnt",     "vrcp14",    "vrsqrt14"};
  if (masked || UsesRegister(operands, "zmm") || UsesRegister(operands, "k") ||
      UsesHighRegister(operands) || StartsWithOneOf(op, kEvexOnly)) {
    AddAvx512(op, operands, features);
  }
}

}  // namespace

std::string IsaOf(absl::string_view assembly) {
  Features features;
  for (absl::string_view line : absl::StrSplit(assembly, '\n')) {
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty() || line[0] == '.' || absl::EndsWith(line, ":")) continue;
    const size_t end = line.find_first_of(" \t");
    const absl::string_view op = line.substr(0, end);
    const absl::string_view operands = end == absl::string_view::npos ? "" : line.substr(end);
    if (op[0] == 'v') {
      AddVector(op, operands, features);
    } else if (op[0] == 'k' && UsesRegister(operands, "k")) {
      AddAvx512(op, operands, features);
    } else {
      AddScalarExtensions(op, features);
    }
  }
  if (features.count("avx512f") > 0) features.insert({"avx", "avx2"});
  return absl::StrJoin(features, " ");
}

}  // namespace kiln
