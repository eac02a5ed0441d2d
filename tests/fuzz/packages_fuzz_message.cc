// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/packages_fuzz_message.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

constexpr FuzzKind kInt = FuzzKind::kInt, kInts = FuzzKind::kInts, kDoubles = FuzzKind::kDoubles,
                   kText = FuzzKind::kText, kKernel = FuzzKind::kKernel, kBytes = FuzzKind::kBytes,
                   kMessage = FuzzKind::kMessage;

const FuzzMessageType& AttributeMessage() {
  static const FuzzMessageType attribute = {"Attribute", {{1, "name", kText}, {2, "ints", kInts}}};
  return attribute;
}

const FuzzMessageType& ThunkMessage() {
  static const FuzzMessageType ref = {"Ref",
                                      {{1, "buffer", kInt},
                                       {2, "offset", kText},
                                       {3, "dtype", kInt},
                                       {4, "shape", kText},
                                       {5, "strides", kText}}};
  static const FuzzMessageType& attribute = AttributeMessage();
  static const FuzzMessageType post_op = {"PostOp", {{1, "name", kText}, {2, "numbers", kDoubles}}};
  static const FuzzMessageType kernel = {"KernelThunk",
                                         {{1, "kernel", kInt},
                                          {2, "inputs", kMessage, &ref},
                                          {3, "dims", kText},
                                          {4, "params", kBytes},
                                          {5, "outputs", kMessage, &ref}}};
  static const FuzzMessageType library = {"LibraryThunk",
                                          {{1, "op", kText},
                                           {2, "attributes", kMessage, &attribute},
                                           {3, "inputs", kMessage, &ref},
                                           {4, "outputs", kMessage, &ref},
                                           {5, "post_ops", kMessage, &post_op}}};
  static const FuzzMessageType move = {"MoveThunk",
                                       {{1, "from", kMessage, &ref}, {2, "to", kMessage, &ref}}};
  static const FuzzMessageType host = {
      "HostThunk", {{1, "op", kText}, {4, "outputs", kMessage, &ref}, {5, "dims", kText}}};
  static const FuzzMessageType thunk = {"Thunk",
                                        {{1, "kernel", kMessage, &kernel},
                                         {2, "library", kMessage, &library},
                                         {3, "view", kMessage, &move},
                                         {4, "copy", kMessage, &move},
                                         {5, "host", kMessage, &host},
                                         {15, "name", kText}}};
  return thunk;
}

const FuzzMessageType& ProgramMessage() {
  static const FuzzMessageType buffer = {"Buffer",
                                         {{1, "kind", kInt},
                                          {2, "bytes", kText},
                                          {3, "index", kInt},
                                          {4, "device", kText},
                                          {5, "name", kText}}};
  static const FuzzMessageType choice = {"KernelChoice",
                                         {{1, "key", kBytes},
                                          {2, "schedule", kText},
                                          {3, "at_most", kInts},
                                          {4, "in_place", kInts},
                                          {5, "row_step", kInt},
                                          {6, "open", kInts}}};
  static const FuzzMessageType kernel = {"KernelDef",
                                         {{1, "text", kKernel},
                                          {2, "choices", kMessage, &choice},
                                          {3, "name", kText},
                                          {4, "example", kInts},
                                          {5, "grain", kInt}}};
  static const FuzzMessageType region = {"Region", {{1, "thunks", kMessage, &ThunkMessage()}}};
  static const FuzzMessageType range = {
      "SubRange", {{2, "buffer", kInt}, {3, "of", kInt}, {4, "offset", kText}}};
  static const FuzzMessageType port = {"Port",
                                       {{1, "name", kText},
                                        {2, "dtype", kInt},
                                        {3, "shape", kText},
                                        {4, "buffer", kInt},
                                        {5, "optional", kInt},
                                        {7, "elements", kText},
                                        {8, "any_rank", kInt}}};
  static const FuzzMessageType constant = {"program.Constant",
                                           {{1, "dtype", kInt}, {2, "shape", kInts}}};
  static const FuzzMessageType program = {"Program",
                                          {{1, "inputs", kMessage, &port},
                                           {2, "outputs", kMessage, &port},
                                           {3, "buffers", kMessage, &buffer},
                                           {4, "kernels", kMessage, &kernel},
                                           {5, "regions", kMessage, &region},
                                           {6, "sub_ranges", kMessage, &range},
                                           {7, "constants", kMessage, &constant},
                                           {8, "parallel_grain", kInt}}};
  return program;
}

struct Reader {
  absl::string_view rest;

  uint64_t Number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest.empty()) std::abort();
      const auto byte = static_cast<uint8_t>(rest[0]);
      rest.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    std::abort();
  }
  absl::string_view Bytes(uint64_t size) {
    if (size > rest.size()) std::abort();
    const absl::string_view bytes = rest.substr(0, size);
    rest.remove_prefix(size);
    return bytes;
  }
};

void ReadPayload(FuzzField& field, absl::string_view payload) {
  Reader packed{payload};
  switch (field.type->kind) {
    case kInts:
      while (!packed.rest.empty()) field.numbers.push_back(packed.Number());
      break;
    case kDoubles:
      while (!packed.rest.empty()) {
        uint64_t bits = 0;
        std::memcpy(&bits, packed.Bytes(8).data(), 8);
        field.numbers.push_back(bits);
      }
      break;
    case kMessage:
      field.message.push_back(ParseFuzzMessage(*field.type->message, payload));
      break;
    default:
      field.bytes = std::string(payload);
  }
}

// Where a field stands: its message, and its place there.
struct Spot {
  FuzzMessage* message;
  size_t at;
};

void Collect(FuzzMessage& message, std::vector<Spot>& spots, std::vector<FuzzMessage*>& messages,
             std::vector<std::string>& texts) {
  messages.push_back(&message);
  for (size_t i = 0; i < message.fields.size(); ++i) {
    FuzzField& field = message.fields[i];
    spots.push_back({&message, i});
    if (field.type->kind == kText) texts.push_back(field.bytes);
    if (field.type->kind == kMessage) Collect(field.message[0], spots, messages, texts);
  }
}

size_t Below(std::mt19937_64& random, size_t n) { return static_cast<size_t>(random() % n); }

std::string ExpensiveText(std::mt19937_64& random, const std::vector<std::string>& texts) {
  static const char* const kTexts[] = {"0",
                                       "1",
                                       "-1",
                                       "2",
                                       "3",
                                       "7",
                                       "n",
                                       "",
                                       "n*n",
                                       "n + 1",
                                       "n - 1",
                                       "8*n",
                                       "n/2",
                                       "n%2",
                                       "n/0",
                                       "n%0",
                                       "2147483647",
                                       "2147483648",
                                       "4294967296",
                                       "2305843009213693952",
                                       "4611686018427387904",
                                       "9223372036854775807",
                                       "-9223372036854775807",
                                       "n*2305843009213693952",
                                       "min(n, 2)",
                                       "max(n, 1000000)",
                                       "zz",
                                       "1099511627776",
                                       "65536",
                                       "1048576",
                                       "n == 3",
                                       "n % 8 == 0",
                                       "conv",
                                       "matmul",
                                       "max_pool",
                                       "average_pool",
                                       "top_k",
                                       "lookup",
                                       "cumulative",
                                       "scatter_elements",
                                       "scatter_nd",
                                       "conv_backward_weights",
                                       "max_pool_backward",
                                       "average_pool_backward",
                                       "conv_transpose",
                                       "kernel",
                                       "strides",
                                       "pads",
                                       "dilations",
                                       "group",
                                       "axis",
                                       "relu",
                                       "add",
                                       "dims",
                                       "cuda",
                                       "(n + 1)/2",
                                       "`",
                                       "\n",
                                       "=",
                                       "((((((("};
  const size_t which = Below(random, 8);
  if (which < 3 && !texts.empty()) return texts[Below(random, texts.size())];
  if (which == 3 && Below(random, 20) == 0) return std::string(100'000, '(');
  return kTexts[Below(random, std::size(kTexts))];
}

// Another text for a kernel: a token for another of its tokens, a number, or a line.
std::string OtherKernel(const std::string& text, std::mt19937_64& random) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  const size_t at = Below(random, lines.size());
  switch (Below(random, 4)) {
    case 0:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at),
                   lines[Below(random, lines.size())]);
      break;
    default: {
      // Tokens are runs of letters and digits.
      const auto is_word = [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c));
      };
      std::vector<std::pair<size_t, size_t>> words;
      for (size_t i = 0; i < text.size();) {
        size_t end = i;
        while (end < text.size() && is_word(text[end])) ++end;
        if (end > i) words.emplace_back(i, end - i);
        i = std::max(end, i + 1);
      }
      if (words.empty()) return "";
      const auto [begin, size] = words[Below(random, words.size())];
      const auto [from, length] = words[Below(random, words.size())];
      const std::string word = Below(random, 2) == 0
                                   ? text.substr(from, length)
                                   : absl::StrCat(static_cast<int64_t>(ExpensiveNumber(random)));
      return absl::StrCat(text.substr(0, begin), word, text.substr(begin + size));
    }
  }
  return absl::StrJoin(lines, "\n");
}

void ChangeNumbers(std::vector<uint64_t>& numbers, bool doubles, std::mt19937_64& random) {
  static constexpr double kDoubleValues[] = {0,      -1,     1,        1e300,
                                             -1e300, 1e-320, HUGE_VAL, 2147483648.0};
  const auto value = [&] {
    if (!doubles) return ExpensiveNumber(random);
    uint64_t bits = 0;
    std::memcpy(&bits, &kDoubleValues[Below(random, std::size(kDoubleValues))], sizeof bits);
    return bits;
  };
  const size_t way = Below(random, 4);
  if (numbers.empty() || way == 0) {
    numbers.push_back(value());
  } else if (way == 1) {
    numbers.erase(numbers.begin() + static_cast<std::ptrdiff_t>(Below(random, numbers.size())));
  } else {
    numbers[Below(random, numbers.size())] = value();
  }
}

std::string Shown(const FuzzField& field) {
  switch (field.type->kind) {
    case kInt:
      return absl::StrCat(static_cast<int64_t>(field.number));
    case kInts:
    case kDoubles:
      return absl::StrCat("[",
                          absl::StrJoin(field.numbers, ", ",
                                        [](std::string* out, uint64_t v) {
                                          absl::StrAppend(out, static_cast<int64_t>(v));
                                        }),
                          "]");
    case kMessage:
      return "{}";
    default:
      return absl::StrCat("\"", absl::CEscape(field.bytes.substr(0, 400)), "\"");
  }
}

void Change(FuzzField& field, std::mt19937_64& random, const std::vector<std::string>& texts) {
  switch (field.type->kind) {
    case kInt:
      field.number = ExpensiveNumber(random);
      break;
    case kInts:
    case kDoubles:
      ChangeNumbers(field.numbers, field.type->kind == kDoubles, random);
      break;
    case kText:
      field.bytes = ExpensiveText(random, texts);
      break;
    case kKernel:
      field.bytes = OtherKernel(field.bytes, random);
      break;
    case kBytes:
      if (field.bytes.empty() || Below(random, 3) == 0) {
        field.bytes.resize(Below(random, 40), 'x');
      } else {
        field.bytes[Below(random, field.bytes.size())] ^= static_cast<char>(1 + Below(random, 255));
      }
      break;
    case kMessage:
      break;
  }
}

// A field of a message's type, with a value of its own.
std::string AddField(FuzzMessage& message, std::mt19937_64& random,
                     const std::vector<std::string>& texts) {
  const std::vector<FuzzFieldType>& types = message.type->fields;
  FuzzField field;
  field.type = &types[Below(random, types.size())];
  if (field.type->kind == kMessage) field.message.push_back({field.type->message, {}});
  Change(field, random, texts);
  const std::string what =
      absl::StrCat(message.type->name, ".", field.type->name, " added: ", Shown(field));
  message.fields.push_back(std::move(field));
  return what;
}

// Swaps with a field of the same number anywhere in a message of the same type.
std::string SwapField(const Spot& spot, const std::vector<Spot>& spots, std::mt19937_64& random) {
  FuzzField& field = spot.message->fields[spot.at];
  std::vector<FuzzField*> alike;
  for (const Spot& other : spots) {
    FuzzField& candidate = other.message->fields[other.at];
    if (candidate.type == field.type && &candidate != &field) alike.push_back(&candidate);
  }
  if (alike.empty()) return "";
  FuzzField& other = *alike[Below(random, alike.size())];
  const std::string what = absl::StrCat(Shown(field), " <-> ", Shown(other));
  // A message may hold the other: then it takes its place.
  FuzzField copy = other, mine = field;
  if (field.type->kind == kMessage) {
    field = std::move(copy);
  } else {
    other = std::move(mine);
    field = std::move(copy);
  }
  return what;
}

// Gives all expressions that read alike one value, so that what has to agree still does.
std::string ChangeEverywhere(const std::vector<Spot>& spots, const std::vector<std::string>& texts,
                             std::mt19937_64& random) {
  if (texts.empty()) return "";
  const std::string from = texts[Below(random, texts.size())], to = ExpensiveText(random, texts);
  for (const Spot& spot : spots) {
    FuzzField& field = spot.message->fields[spot.at];
    if (field.type->kind == kText && field.bytes == from) field.bytes = to;
  }
  return absl::StrCat("every \"", absl::CEscape(from), "\" -> \"", absl::CEscape(to.substr(0, 400)),
                      "\"");
}

// A variant's script has callees, which have variants.
const FuzzMessageType& PackagedVariant() {
  static FuzzMessageType variant = {"packaged.Variant", {}};
  if (!variant.fields.empty()) return variant;
  static const FuzzMessageType constant = {
      "packaged.Constant", {{1, "dtype", kInt}, {2, "shape", kInts}, {4, "blob", kInt}}};
  static const FuzzMessageType slot = {
      "Slot",
      {{1, "name", kText}, {2, "dtype", kInt}, {3, "shape", kText}, {4, "elements", kText}}};
  static const FuzzMessageType slot_constant = {
      "SlotConstant", {{1, "slot", kInt}, {2, "value", kMessage, &constant}}};
  static const FuzzMessageType callee = {"Callee",
                                         {{1, "ports", kMessage, &ProgramMessage()},
                                          {2, "variants", kMessage, &variant},
                                          {3, "symbols", kText}}};
  static const FuzzMessageType step = {"Step",
                                       {{1, "kind", kInt},
                                        {2, "name", kText},
                                        {3, "op", kText},
                                        {4, "attributes", kMessage, &AttributeMessage()},
                                        {5, "inputs", kInts},
                                        {6, "outputs", kInts},
                                        {7, "callees", kInts},
                                        {8, "carried", kInt},
                                        {9, "released", kInts}}};
  static const FuzzMessageType script = {"Script",
                                         {{1, "slots", kMessage, &slot},
                                          {2, "constants", kMessage, &slot_constant},
                                          {3, "inputs", kInts},
                                          {4, "outputs", kInts},
                                          {5, "callees", kMessage, &callee},
                                          {6, "steps", kMessage, &step}}};
  variant.fields = {{1, "guards", kText},
                    {2, "program", kMessage, &ProgramMessage()},
                    {3, "constants", kMessage, &constant},
                    {4, "script", kMessage, &script}};
  return variant;
}

}  // namespace

const FuzzMessageType& PackageMessage() {
  static const FuzzMessageType blob = {
      "Blob", {{1, "offset", kInt}, {2, "stored", kInt}, {3, "bytes", kInt}, {4, "codec", kInt}}};
  static const FuzzMessageType target = {
      "packaged.Target", {{1, "name", kText}, {2, "variants", kMessage, &PackagedVariant()}}};
  static const FuzzMessageType packed = {"PackedConstant",
                                         {{1, "blob", kInt},
                                          {2, "offset", kInt},
                                          {3, "bytes", kInt},
                                          {4, "layout", kText},
                                          {5, "packed", kInt}}};
  static const FuzzMessageType constant = {
      "packaged.Constant", {{1, "dtype", kInt}, {2, "shape", kInts}, {4, "blob", kInt}}};
  static const FuzzMessageType test = {"TestCase",
                                       {{1, "inputs", kMessage, &constant},
                                        {2, "outputs", kMessage, &constant},
                                        {4, "silent", kInt}}};
  static const FuzzMessageType note = {"Note", {{1, "key", kText}, {2, "value", kText}}};
  static const FuzzMessageType package = {"packaged.Package",
                                          {{1, "ports", kMessage, &ProgramMessage()},
                                           {2, "targets", kMessage, &target},
                                           {3, "blobs", kMessage, &blob},
                                           {4, "packed", kMessage, &packed},
                                           {5, "test_cases", kMessage, &test},
                                           {6, "user_info", kText},
                                           {7, "metadata", kMessage, &note},
                                           {8, "model_version", kInt}}};
  return package;
}

const FuzzMessageType& StoredModelMessage() {
  static const FuzzMessageType range = {
      "FileRange", {{1, "file", kInt}, {2, "offset", kInt}, {3, "loose", kInt}}};
  static const FuzzMessageType place = {"Place",
                                        {{1, "dtype", kInt},
                                         {2, "shape", kInts},
                                         {3, "here", kBytes},
                                         {4, "range", kMessage, &range},
                                         {5, "blob", kBytes}}};
  static const FuzzMessageType variant = {"stored.Variant",
                                          {{1, "guards", kText},
                                           {2, "program", kMessage, &ProgramMessage()},
                                           {3, "constants", kMessage, &place},
                                           {4, "signature", kText}}};
  static const FuzzMessageType model = {"stored.Model",
                                        {{1, "ports", kMessage, &ProgramMessage()},
                                         {2, "external", kText},
                                         {3, "variants", kMessage, &variant}}};
  return model;
}

FuzzMessage ParseFuzzMessage(const FuzzMessageType& type, absl::string_view bytes) {
  FuzzMessage message{&type, {}};
  Reader reader{bytes};
  while (!reader.rest.empty()) {
    const uint64_t tag = reader.Number();
    const auto found = std::find_if(type.fields.begin(), type.fields.end(), [&](const auto& field) {
      return static_cast<uint64_t>(field.number) == tag >> 3;
    });
    if (found == type.fields.end()) std::abort();
    FuzzField field;
    field.type = &*found;
    if ((tag & 7) == 0) {
      field.number = reader.Number();
    } else if ((tag & 7) == 2) {
      const uint64_t size = reader.Number();
      ReadPayload(field, reader.Bytes(size));
    } else {
      std::abort();
    }
    message.fields.push_back(std::move(field));
  }
  return message;
}

std::string Serialize(const FuzzMessage& message) {
  std::string out;
  for (const FuzzField& field : message.fields) {
    const int number = field.type->number;
    std::string packed;
    switch (field.type->kind) {
      case kInt:
        out += NumberField(number, static_cast<int64_t>(field.number));
        break;
      case kInts:
        for (const uint64_t value : field.numbers) packed += Varint(value);
        out += BytesField(number, packed);
        break;
      case kDoubles:
        out += BytesField(number, RawBytes(field.numbers));
        break;
      case kMessage:
        out += BytesField(number, Serialize(field.message[0]));
        break;
      default:
        out += BytesField(number, field.bytes);
    }
  }
  return out;
}

std::string Mutate(FuzzMessage& message, std::mt19937_64& random, bool everywhere) {
  std::vector<Spot> spots;
  std::vector<FuzzMessage*> messages;
  std::vector<std::string> texts;
  Collect(message, spots, messages, texts);
  const size_t way = Below(random, everywhere ? 11 : 10);
  if (way == 10) return ChangeEverywhere(spots, texts, random);
  if (spots.empty() || way == 0)
    return AddField(*messages[Below(random, messages.size())], random, texts);
  const Spot spot = spots[Below(random, spots.size())];
  std::vector<FuzzField>& fields = spot.message->fields;
  FuzzField& field = fields[spot.at];
  const std::string name = absl::StrCat(spot.message->type->name, ".", field.type->name);
  const auto place = fields.begin() + static_cast<std::ptrdiff_t>(spot.at);
  const bool changeable = field.type->kind != kMessage;
  if (way == 1 || (!changeable && way < 4)) {
    const std::string what = absl::StrCat(name, " taken out: ", Shown(field));
    fields.erase(place);
    return what;
  }
  if (way == 2 || (!changeable && way < 7)) {
    const FuzzField copy = field;
    fields.insert(place, copy);
    return absl::StrCat(name, " doubled");
  }
  if (way == 3 || !changeable) return absl::StrCat(name, ": ", SwapField(spot, spots, random));
  const std::string before = Shown(field);
  Change(field, random, texts);
  return absl::StrCat(name, ": ", before, " -> ", Shown(field));
}

uint64_t ExpensiveNumber(std::mt19937_64& random) {
  static constexpr int64_t kNumbers[] = {0,
                                         -1,
                                         1,
                                         2,
                                         3,
                                         4,
                                         5,
                                         7,
                                         12,
                                         int64_t{1} << 31,
                                         (int64_t{1} << 31) - 1,
                                         int64_t{1} << 61,
                                         INT64_MAX,
                                         INT64_MIN,
                                         -2,
                                         1000};
  return static_cast<uint64_t>(kNumbers[Below(random, std::size(kNumbers))]);
}

}  // namespace kiln
