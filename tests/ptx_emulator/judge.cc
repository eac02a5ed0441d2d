// SPDX-License-Identifier: Apache-2.0
#include "tests/ptx_emulator/judge.h"

#include <algorithm>

namespace kiln::ptx {
namespace {

using Wide = __int128;
using UWide = unsigned __int128;
using Args = const uint64_t*;

uint64_t Cut(Wide value, int bits) {
  return static_cast<uint64_t>(value) & (bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1);
}

Wide Signed(uint64_t value, int bits) {
  const Wide wide = Cut(value, bits);
  return wide >> (bits - 1) != 0 ? wide - (Wide{1} << bits) : wide;
}

// ---- floats: (-1)^negative * significand * 2^exponent
struct Number {
  enum { kFinite, kInfinite, kNan } kind = kFinite;
  bool negative = false;
  UWide significand = 0;
  int exponent = 0;
};

struct FormatOf {
  int bits, fraction;
  int ExponentBits() const { return bits - 1 - fraction; }
  int Bias() const { return (1 << (ExponentBits() - 1)) - 1; }
  uint64_t Nan() const {
    return bits == 16 ? 0x7fff : bits == 32 ? 0x7fffffff : 0x7ff8000000000000;
  }
};
constexpr FormatOf kHalf = {16, 10}, kBrain = {16, 7}, kSingle = {32, 23}, kDouble = {64, 52};

Number Decode(uint64_t bits, FormatOf format) {
  Number number;
  number.negative = (bits >> (format.bits - 1) & 1) != 0;
  const uint64_t fraction = bits & ((uint64_t{1} << format.fraction) - 1);
  const int top = (1 << format.ExponentBits()) - 1;
  const int exponent = static_cast<int>(bits >> format.fraction) & top;
  if (exponent == top) {
    number.kind = fraction != 0 ? Number::kNan : Number::kInfinite;
    return number;
  }
  number.significand = exponent == 0 ? fraction : fraction | uint64_t{1} << format.fraction;
  number.exponent = (exponent == 0 ? 1 : exponent) - format.Bias() - format.fraction;
  return number;
}

// `inexact`: the number lies a little further from 0. Modes: 'n', 'z', 'm', 'p'.
uint64_t Encode(const Number& number, FormatOf format, char mode, bool inexact = false) {
  const uint64_t sign = static_cast<uint64_t>(number.negative) << (format.bits - 1);
  const uint64_t infinity = Cut(~Wide{0}, format.ExponentBits()) << format.fraction;
  if (number.kind == Number::kNan) return format.Nan();
  if (number.kind == Number::kInfinite) return sign | infinity;
  const int lowest = 1 - format.Bias() - format.fraction;  // exponent of the last subnormal bit
  UWide significand = number.significand;
  int exponent = number.exponent;
  bool half = false, rest = inexact;
  // Down to the format's precision and to its lowest exponent, one bit at a time.
  while (significand >> (format.fraction + 1) != 0 || (exponent < lowest && exponent > -4000)) {
    if (significand == 0 && !half) {
      exponent = lowest;
      break;
    }
    rest |= half;
    half = (significand & 1) != 0;
    significand >>= 1;
    ++exponent;
  }
  while (exponent > lowest && significand >> format.fraction == 0 && significand != 0) {
    significand <<= 1;  // only exact numbers are so short
    --exponent;
  }
  const bool away = mode == 'n'   ? half && (rest || (significand & 1) != 0)
                    : mode == 'z' ? false
                                  : (half || rest) && number.negative == (mode == 'm');
  if (away) ++significand;
  if (significand >> (format.fraction + 1) != 0) {
    significand >>= 1;
    ++exponent;
  }
  if (significand == 0) return sign;
  if (significand >> format.fraction == 0) return sign | static_cast<uint64_t>(significand);
  const int biased = exponent + format.fraction + format.Bias();
  if (biased >= (1 << format.ExponentBits()) - 1) {
    const bool infinite = mode == 'n' || (mode != 'z' && number.negative == (mode == 'm'));
    return sign | (infinite ? infinity : infinity - 1);
  }
  return sign | static_cast<uint64_t>(biased) << format.fraction |
         (static_cast<uint64_t>(significand) & ((uint64_t{1} << format.fraction) - 1));
}

int BitLength(UWide value) {
  int length = 0;
  while (value >> length != 0 && length < 127) ++length;
  return length;
}

uint64_t AddNumbers(Number a, Number b, FormatOf format, char mode) {
  if (a.kind == Number::kNan || b.kind == Number::kNan) return format.Nan();
  if (a.kind == Number::kInfinite || b.kind == Number::kInfinite) {
    const bool both = a.kind == b.kind;
    if (both && a.negative != b.negative) return format.Nan();
    return Encode(a.kind == Number::kInfinite ? a : b, format, mode);
  }
  if (a.significand == 0 && b.significand == 0) {
    Number zero;
    zero.negative = a.negative == b.negative ? a.negative : mode == 'm';
    return Encode(zero, format, mode);
  }
  if (a.significand == 0) return Encode(b, format, mode);
  if (b.significand == 0) return Encode(a, format, mode);
  if (a.exponent + BitLength(a.significand) < b.exponent + BitLength(b.significand)) {
    std::swap(a, b);
  }
  // a to the left end of 124 bits, b to the same exponent, what falls off it kept as the last bit.
  const int shift = 124 - BitLength(a.significand);
  a.significand <<= shift;
  a.exponent -= shift;
  const int down = a.exponent - b.exponent;
  if (down <= 0) {
    b.significand <<= -down;
  } else {
    const bool lost = down > 126 || (b.significand & ((UWide{1} << down) - 1)) != 0;
    b.significand = down > 126 ? 0 : b.significand >> down;
    b.significand |= lost ? 1 : 0;
  }
  Number sum = a;
  if (a.negative == b.negative) {
    sum.significand = a.significand + b.significand;
  } else if (a.significand >= b.significand) {
    sum.significand = a.significand - b.significand;
  } else {
    sum.significand = b.significand - a.significand;
    sum.negative = b.negative;
  }
  if (sum.significand == 0) sum.negative = mode == 'm';
  return Encode(sum, format, mode);
}

Number Product(const Number& a, const Number& b) {
  Number product;
  product.negative = a.negative != b.negative;
  const bool zero = (a.kind == Number::kFinite && a.significand == 0) ||
                    (b.kind == Number::kFinite && b.significand == 0);
  if (a.kind == Number::kNan || b.kind == Number::kNan) {
    product.kind = Number::kNan;
  } else if (a.kind == Number::kInfinite || b.kind == Number::kInfinite) {
    product.kind = zero ? Number::kNan : Number::kInfinite;
  } else {
    product.significand = a.significand * b.significand;
    product.exponent = a.exponent + b.exponent;
  }
  return product;
}

uint64_t DivideNumbers(const Number& a, const Number& b, FormatOf format, char mode) {
  Number quotient;
  quotient.negative = a.negative != b.negative;
  const bool a_zero = a.kind == Number::kFinite && a.significand == 0;
  const bool b_zero = b.kind == Number::kFinite && b.significand == 0;
  if (a.kind == Number::kNan || b.kind == Number::kNan || (a_zero && b_zero) ||
      (a.kind == Number::kInfinite && b.kind == Number::kInfinite)) {
    return format.Nan();
  }
  if (a.kind == Number::kInfinite || b_zero) {
    quotient.kind = Number::kInfinite;
    return Encode(quotient, format, mode);
  }
  if (a_zero || b.kind == Number::kInfinite) return Encode(quotient, format, mode);
  const int shift = 124 - BitLength(a.significand);
  const UWide dividend = a.significand << shift;
  quotient.significand = dividend / b.significand;
  quotient.exponent = a.exponent - shift - b.exponent;
  return Encode(quotient, format, mode, dividend % b.significand != 0);
}

uint64_t RootOf(const Number& a, FormatOf format, char mode) {
  if (a.kind == Number::kNan) return format.Nan();
  if (a.kind == Number::kFinite && a.significand == 0) return Encode(a, format, mode);
  if (a.negative) return format.Nan();
  if (a.kind == Number::kInfinite) return Encode(a, format, mode);
  int shift = 120 - BitLength(a.significand);
  if ((a.exponent - shift) % 2 != 0) ++shift;
  const UWide radicand = a.significand << shift;
  UWide root = 0;
  for (int bit = 62; bit >= 0; --bit) {
    const UWide trial = root | UWide{1} << bit;
    if (trial * trial <= radicand) root = trial;
  }
  Number number;
  number.significand = root;
  number.exponent = (a.exponent - shift) / 2;
  return Encode(number, format, mode, root * root != radicand);
}

uint64_t ToInteger(const Number& a, int bits, bool is_signed, char mode, bool wide_rule) {
  const Wide highest = (Wide{1} << (is_signed ? bits - 1 : bits)) - 1;
  const Wide lowest = is_signed ? -highest - 1 : 0;
  if (a.kind == Number::kNan) return wide_rule ? uint64_t{1} << (bits - 1) : 0;
  Wide magnitude = Wide{1} << 100;
  if (a.kind == Number::kFinite && a.exponent < 60) {
    bool half = false, rest = false;
    UWide significand = a.significand;
    for (int i = a.exponent; i < 0; ++i) {
      rest |= half;
      half = (significand & 1) != 0;
      significand >>= 1;
    }
    if (a.exponent > 0) significand <<= a.exponent;
    const bool away = mode == 'n'   ? half && (rest || (significand & 1) != 0)
                      : mode == 'z' ? false
                                    : (half || rest) && a.negative == (mode == 'm');
    magnitude = static_cast<Wide>(significand) + (away ? 1 : 0);
  } else if (a.kind == Number::kFinite && a.significand == 0) {
    magnitude = 0;
  }
  return Cut(std::clamp(a.negative ? -magnitude : magnitude, lowest, highest), bits);
}

Number FromInteger(Wide value) {
  Number number;
  number.negative = value < 0;
  number.significand = static_cast<UWide>(value < 0 ? -value : value);
  return number;
}

// -1, 0, 1, or 2 where a NaN is among them.
int CompareFloats(const Number& a, const Number& b) {
  if (a.kind == Number::kNan || b.kind == Number::kNan) return 2;
  const auto key = [](const Number& n) {  // monotone in the value
    if (n.kind == Number::kInfinite) return n.negative ? -INT64_MAX : INT64_MAX;
    const auto bits = static_cast<int64_t>(Encode(n, kDouble, 'n') & ~(uint64_t{1} << 63));
    return n.negative ? -bits : bits;
  };
  const int64_t x = key(a), y = key(b);
  return x < y ? -1 : x > y ? 1 : 0;
}

bool Ordered(const std::string& name, int order) {
  if (name == "eq") return order == 0;
  if (name == "ne") return order == -1 || order == 1;
  if (name == "lt") return order == -1;
  if (name == "le") return order == -1 || order == 0;
  if (name == "gt") return order == 1;
  if (name == "ge") return order == 0 || order == 1;
  if (name == "num") return order != 2;
  if (name == "nan") return order == 2;
  return order == 2 || Ordered(name.substr(0, name.size() - 1), order);
}

class Table {
 public:
  std::vector<JudgedOp> Make() {
    for (const int bits : {16, 32, 64}) {
      for (const bool is_signed : {false, true}) AddIntegers(bits, is_signed);
      AddLogic(bits);
    }
    AddFields();
    AddFloats("f32", kSingle);
    AddFloats("f64", kDouble);
    AddHalves("f16", kHalf);
    AddHalves("bf16", kBrain);
    AddIntegerConversions();
    return std::move(ops_);
  }

 private:
  void Add(std::string name, int result, std::vector<int> sources,
           std::function<uint64_t(Args)> value) {
    ops_.push_back({std::move(name), result, std::move(sources), std::move(value)});
  }

  void AddIntegers(int n, bool is_signed) {
    const std::string type = (is_signed ? ".s" : ".u") + std::to_string(n);
    const auto v = [n, is_signed](uint64_t x) { return is_signed ? Signed(x, n) : Wide{x}; };
    const auto binary = [&](const std::string& op, std::function<Wide(Wide, Wide)> f) {
      Add(op + type, n, {n, n}, [=](Args x) { return Cut(f(v(x[0]), v(x[1])), n); });
    };
    binary("add", [](Wide a, Wide b) { return a + b; });
    binary("sub", [](Wide a, Wide b) { return a - b; });
    binary("mul.lo", [](Wide a, Wide b) {
      return static_cast<Wide>(static_cast<UWide>(a) * static_cast<UWide>(b));
    });
    binary("mul.hi", [n, is_signed](Wide a, Wide b) {
      if (is_signed || n < 64) return a * b >> n;
      return static_cast<Wide>(static_cast<UWide>(a) * static_cast<UWide>(b) >> 64);
    });
    binary("min", [](Wide a, Wide b) { return a < b ? a : b; });
    binary("max", [](Wide a, Wide b) { return a < b ? b : a; });
    binary("div", [](Wide a, Wide b) { return b == 0 ? Wide{-1} : a / b; });
    binary("rem", [](Wide a, Wide b) { return b == 0 ? a : a % b; });
    Add("mad.lo" + type, n, {n, n, n}, [=](Args x) {
      return Cut(static_cast<Wide>(static_cast<UWide>(v(x[0])) * static_cast<UWide>(v(x[1])) +
                                   static_cast<UWide>(v(x[2]))),
                 n);
    });
    Add("sad" + type, n, {n, n, n}, [=](Args x) {
      const Wide difference = v(x[0]) - v(x[1]);
      return Cut(v(x[2]) + (difference < 0 ? -difference : difference), n);
    });
    if (n < 64) {
      Add("mul.wide" + type, 2 * n, {n, n}, [=](Args x) { return Cut(v(x[0]) * v(x[1]), 2 * n); });
      Add("mad.wide" + type, 2 * n, {n, n, 2 * n},
          [=](Args x) { return Cut(v(x[0]) * v(x[1]) + Wide{x[2]}, 2 * n); });
    }
    if (is_signed) {
      Add("neg" + type, n, {n}, [=](Args x) { return Cut(-v(x[0]), n); });
      Add("abs" + type, n, {n}, [=](Args x) { return Cut(v(x[0]) < 0 ? -v(x[0]) : v(x[0]), n); });
    }
    Add("shr" + type, n, {n, 32},
        [=](Args x) { return Cut(v(x[0]) >> std::min<uint64_t>(x[1], 100), n); });
    for (const char* order : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      Add(std::string("setp.") + order + type, 1, {n, n}, [=](Args x) -> uint64_t {
        const Wide a = v(x[0]), b = v(x[1]);
        return Ordered(order, a < b ? -1 : a > b ? 1 : 0);
      });
    }
  }

  void AddLogic(int n) {
    const std::string type = ".b" + std::to_string(n);
    Add("and" + type, n, {n, n}, [](Args x) { return x[0] & x[1]; });
    Add("or" + type, n, {n, n}, [](Args x) { return x[0] | x[1]; });
    Add("xor" + type, n, {n, n}, [](Args x) { return x[0] ^ x[1]; });
    Add("not" + type, n, {n}, [=](Args x) { return Cut(~Wide{x[0]}, n); });
    Add("shl" + type, n, {n, 32},
        [=](Args x) { return x[1] >= 64 ? 0 : Cut(static_cast<Wide>(UWide{x[0]} << x[1]), n); });
    Add("selp" + type, n, {n, n, 1}, [](Args x) { return x[2] != 0 ? x[0] : x[1]; });
    Add("slct" + type + ".s32", n, {n, n, 32},
        [](Args x) { return x[2] >> 31 == 0 ? x[0] : x[1]; });
  }

  void AddFields() {
    for (const int n : {32, 64}) {
      const std::string type = std::to_string(n);
      Add("popc.b" + type, 32, {n}, [=](Args x) {
        uint64_t count = 0;
        for (int i = 0; i < n; ++i) count += x[0] >> i & 1;
        return count;
      });
      Add("clz.b" + type, 32, {n}, [=](Args x) {
        uint64_t zeros = 0;
        while (zeros < static_cast<uint64_t>(n) && (x[0] >> (n - 1 - zeros) & 1) == 0) ++zeros;
        return zeros;
      });
      Add("brev.b" + type, n, {n}, [=](Args x) {
        uint64_t out = 0;
        for (int i = 0; i < n; ++i) out |= (x[0] >> i & 1) << (n - 1 - i);
        return out;
      });
      Add("bfe.u" + type, n, {n, 32, 32}, [=](Args x) {  // as the manual's loop, in wide numbers
        const uint64_t position = x[1] & 255, length = x[2] & 255;
        const UWide field = position >= 64 ? 0 : UWide{x[0]} >> position;
        return Cut(static_cast<Wide>(length >= 64 ? field : field & ((UWide{1} << length) - 1)), n);
      });
      Add("bfi.b" + type, n, {n, n, 32, 32}, [=](Args x) {
        const uint64_t position = x[2] & 255, length = x[3] & 255;
        uint64_t out = x[1];
        for (uint64_t i = 0; i < length && position + i < static_cast<uint64_t>(n); ++i) {
          out = (out & ~(uint64_t{1} << (position + i))) | (x[0] >> i & 1) << (position + i);
        }
        return out;
      });
      Add("bfind.u" + type, 32, {n}, [=](Args x) {
        for (int i = n - 1; i >= 0; --i) {
          if ((x[0] >> i & 1) != 0) return static_cast<uint64_t>(i);
        }
        return uint64_t{0xffffffff};
      });
    }
    Add("prmt.b32", 32, {32, 32, 32}, [](Args x) {
      uint64_t out = 0;
      for (int i = 3; i >= 0; --i) {
        const uint64_t selector = x[2] >> (4 * i);
        const uint64_t from = (selector & 7) < 4 ? x[0] : x[1];
        uint64_t byte = from >> (8 * (selector & 3)) & 255;
        if ((selector & 8) != 0) byte = byte >= 128 ? 255 : 0;
        out = out << 8 | byte;
      }
      return out;
    });
    for (const bool left : {true, false}) {
      Add(left ? "shf.l.wrap.b32" : "shf.r.wrap.b32", 32, {32, 32, 32}, [=](Args x) {
        const UWide both = UWide{x[1]} << 32 | x[0];
        const uint64_t by = x[2] % 32;
        return Cut(static_cast<Wide>(left ? both << by >> 32 : both >> by), 32);
      });
    }
    Add("lop3.b32", 32, {32, 32, 32, -8}, [](Args x) {
      uint64_t out = 0;
      for (int i = 0; i < 32; ++i) {
        const uint64_t index = (x[0] >> i & 1) * 4 + (x[1] >> i & 1) * 2 + (x[2] >> i & 1);
        out |= (x[3] >> index & 1) << i;
      }
      return out;
    });
  }

  void AddFloats(const std::string& type, FormatOf format) {
    const int n = format.bits;
    for (const char mode : {'n', 'z', 'm', 'p'}) {
      const std::string suffix = std::string(".r") + mode + "." + type;
      Add("add" + suffix, n, {n, n}, [=](Args x) {
        return AddNumbers(Decode(x[0], format), Decode(x[1], format), format, mode);
      });
      Add("sub" + suffix, n, {n, n}, [=](Args x) {
        Number b = Decode(x[1], format);
        b.negative = !b.negative;
        return AddNumbers(Decode(x[0], format), b, format, mode);
      });
      Add("mul" + suffix, n, {n, n}, [=](Args x) {
        return Encode(Product(Decode(x[0], format), Decode(x[1], format)), format, mode);
      });
      Add("div" + suffix, n, {n, n}, [=](Args x) {
        return DivideNumbers(Decode(x[0], format), Decode(x[1], format), format, mode);
      });
      Add("sqrt" + suffix, n, {n},
          [=](Args x) { return RootOf(Decode(x[0], format), format, mode); });
      Add("rcp" + suffix, n, {n}, [=](Args x) {
        return DivideNumbers(FromInteger(1), Decode(x[0], format), format, mode);
      });
      if (n == 32) {
        Add("fma" + suffix, n, {n, n, n}, [=](Args x) {
          return AddNumbers(Product(Decode(x[0], format), Decode(x[1], format)),
                            Decode(x[2], format), format, mode);
        });
      }
      AddConversions(type, format, mode);
    }
    for (const char* order : {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu",
                              "geu", "num", "nan"}) {
      Add(std::string("setp.") + order + "." + type, 1, {n, n}, [=](Args x) -> uint64_t {
        return Ordered(order, CompareFloats(Decode(x[0], format), Decode(x[1], format)));
      });
    }
    AddExtremes(type, format);
    if (n == 64) return;
    Add("cvt.f64.f32", 64, {32},
        [](Args x) { return Encode(Decode(x[0], kSingle), kDouble, 'n'); });
    Add("cvt.f32.f16", 32, {16}, [](Args x) { return Encode(Decode(x[0], kHalf), kSingle, 'n'); });
    Add("cvt.f32.bf16", 32, {16},
        [](Args x) { return Encode(Decode(x[0], kBrain), kSingle, 'n'); });
  }

  void AddConversions(const std::string& type, FormatOf format, char mode) {
    const int n = format.bits;
    const std::string round = std::string("cvt.r") + mode;
    for (const auto& [name, narrow] :
         {std::pair{".f16.", kHalf}, {".bf16.", kBrain}, {".f32.", kSingle}}) {
      const FormatOf to = narrow;
      if (to.bits >= n) continue;
      Add(round + name + type, to.bits, {n},
          [=](Args x) { return Encode(Decode(x[0], format), to, mode); });
    }
    for (const int bits : {16, 32, 64}) {
      for (const bool is_signed : {false, true}) {
        const std::string integer = (is_signed ? ".s" : ".u") + std::to_string(bits);
        Add(round + "i" + integer + "." + type, bits, {n}, [=](Args x) {
          return ToInteger(Decode(x[0], format), bits, is_signed, mode, n == 64 || bits == 64);
        });
        Add(round + "." + type + integer, n, {bits}, [=](Args x) {
          return Encode(FromInteger(is_signed ? Signed(x[0], bits) : Wide{x[0]}), format, mode);
        });
      }
    }
  }

  void AddExtremes(const std::string& type, FormatOf format) {
    const int n = format.bits;
    for (const bool greatest : {false, true}) {
      for (const bool nan : {false, true}) {
        if (nan && n == 64) continue;
        const std::string name = greatest ? "max" : "min";
        Add(name + (nan ? ".NaN." : ".") + type, n, {n, n}, [=](Args x) {
          const Number a = Decode(x[0], format), b = Decode(x[1], format);
          const int order = CompareFloats(a, b);
          if (order == 2) {
            const bool a_nan = a.kind == Number::kNan;
            return nan ? format.Nan() : Encode(a_nan ? b : a, format, 'n');
          }
          const bool take_a = order == 0 ? a.negative != greatest : (order > 0) == greatest;
          return Encode(take_a ? a : b, format, 'n');
        });
      }
    }
  }

  void AddHalves(const std::string& type, FormatOf format) {
    const auto sum = [=](uint64_t a, uint64_t b) {
      return AddNumbers(Decode(a, format), Decode(b, format), format, 'n');
    };
    const auto product = [=](uint64_t a, uint64_t b) {
      return Encode(Product(Decode(a, format), Decode(b, format)), format, 'n');
    };
    const auto fused = [=](uint64_t a, uint64_t b, uint64_t c) {
      return AddNumbers(Product(Decode(a, format), Decode(b, format)), Decode(c, format), format,
                        'n');
    };
    const auto high = [](uint64_t x) { return x >> 16; };
    const auto low = [](uint64_t x) { return x & 0xffff; };
    Add("add.rn." + type, 16, {16, 16}, [=](Args x) { return sum(x[0], x[1]); });
    Add("mul.rn." + type, 16, {16, 16}, [=](Args x) { return product(x[0], x[1]); });
    Add("fma.rn." + type, 16, {16, 16, 16}, [=](Args x) { return fused(x[0], x[1], x[2]); });
    Add("add.rn." + type + "x2", 32, {32, 32},
        [=](Args x) { return sum(high(x[0]), high(x[1])) << 16 | sum(low(x[0]), low(x[1])); });
    Add("fma.rn." + type + "x2", 32, {32, 32, 32}, [=](Args x) {
      return fused(high(x[0]), high(x[1]), high(x[2])) << 16 |
             fused(low(x[0]), low(x[1]), low(x[2]));
    });
    Add("cvt.rn." + type + "x2.f32", 32, {32, 32}, [=](Args x) {
      return Encode(Decode(x[0], kSingle), format, 'n') << 16 |
             Encode(Decode(x[1], kSingle), format, 'n');
    });
    AddExtremes(type, format);
  }

  void AddIntegerConversions() {
    for (const int from : {8, 16, 32, 64}) {
      for (const int to : {8, 16, 32, 64}) {
        for (int signs = 0; signs < 8; ++signs) {
          const bool from_signed = (signs & 1) != 0, to_signed = (signs & 2) != 0;
          const bool saturate = (signs & 4) != 0;
          const std::string name = std::string("cvt") + (saturate ? ".sat." : ".") +
                                   (to_signed ? "s" : "u") + std::to_string(to) + "." +
                                   (from_signed ? "s" : "u") + std::to_string(from);
          const int register_bits = std::max(to, 16);
          Add(name, register_bits, {std::max(from, 16)}, [=](Args x) {
            Wide value = from_signed ? Signed(x[0], from) : Wide{Cut(x[0], from)};
            const Wide highest = (Wide{1} << (to_signed ? to - 1 : to)) - 1;
            if (saturate) value = std::clamp(value, to_signed ? -highest - 1 : Wide{0}, highest);
            const uint64_t cut = Cut(value, to);
            return Cut(to_signed ? Signed(cut, to) : Wide{cut}, register_bits);
          });
        }
      }
    }
  }

  std::vector<JudgedOp> ops_;
};

}  // namespace

const std::vector<JudgedOp>& JudgedOps() {
  static const auto* const ops = new std::vector<JudgedOp>(Table().Make());
  return *ops;
}

}  // namespace kiln::ptx
