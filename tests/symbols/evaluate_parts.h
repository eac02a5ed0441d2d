// SPDX-License-Identifier: Apache-2.0
// What the files of the second evaluator share: walks over coordinates, broadcasting, outcomes.
#ifndef KILN_TESTS_SYMBOLS_EVALUATE_PARTS_H_
#define KILN_TESTS_SYMBOLS_EVALUATE_PARTS_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/symbols/evaluate.h"

namespace kiln::symbols {

using Inputs = std::vector<const Array*>;
inline constexpr int64_t kMost = 200'000;  // elements

inline Evaluated Wrong(std::string why) { return {Outcome::kError, std::move(why), {}}; }
inline Evaluated Undefined(std::string why) { return {Outcome::kUndefined, std::move(why), {}}; }
inline Evaluated TooLarge() { return {Outcome::kTooLarge, "too large", {}}; }
inline Evaluated One(Array array) { return {Outcome::kValue, "", {std::move(array)}}; }

inline int64_t Int(long double value) { return static_cast<int64_t>(value); }
Ints IntsOf(const Array& array);

int64_t Attr(const ModelNode& node, const std::string& name, int64_t otherwise);
Ints ListAttr(const ModelNode& node, const std::string& name, const Ints& otherwise);
std::string TextAttr(const ModelNode& node, const std::string& name, const std::string& otherwise);
// `axis` counted from the front; false outside of the rank.
bool NormalAxis(int64_t& axis, size_t rank);

// The next coordinate in row-major order; false behind the last.
bool Next(Ints& at, const Ints& shape);
int64_t Flat(const Ints& at, const Ints& shape);
// An array whose element at each coordinate f gives.
Array Filled(int type, Ints shape, const std::function<long double(const Ints&)>& f);
// Whether the shape has a negative extent or too many elements.
bool IsBad(const Ints& shape);
Evaluated Bad(const Ints& shape);  // what a node of such a result gives

long double ElementAt(const Array& array, const Ints& at);
// The element that broadcasting puts at `at`.
long double BroadcastAt(const Array& array, const Ints& at);
bool BroadcastShape(const Ints& a, const Ints& b, Ints& out);

// The families of operators; nothing: the operator is none of them.
std::optional<Evaluated> EvaluateMove(const ModelNode& node, const Inputs& in);
std::optional<Evaluated> EvaluateWindow(const ModelNode& node, const Inputs& in);
std::optional<Evaluated> EvaluateControl(const ModelNode& node, const Inputs& in,
                                         const Values& scope);

}  // namespace kiln::symbols

#endif  // KILN_TESTS_SYMBOLS_EVALUATE_PARTS_H_
