#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints kernel/math_f64_tables.h: the coefficients of the f64 expansions. Needs mpmath, and numpy for f32.

  kernel/math_coefficients.py > kernel/math_f64_tables.h
  kernel/math_coefficients.py --f32        those of softplus, atan, asin, sin and cos in kernel/math_f32.cc

Each polynomial interpolates its function in the Chebyshev nodes of its interval, which is within a few per cent of the
minimax polynomial, in 60 digits; only then are its coefficients rounded. The comment above each table states the
largest error of the rounded polynomial, relative to what it is added to.
"""
import sys

import mpmath as mp

mp.mp.dps = 60


def interpolate(f, low, high, degree):
    n = degree + 1
    nodes = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    return list(mp.lu_solve(mp.matrix([[x**i for i in range(n)] for x in nodes]), mp.matrix([f(x) for x in nodes])))


def table(name, what, f, low, high, degree, weight):
    """`weight(x)` is what an error of the polynomial at x is multiplied with, relative to the result."""
    c = [float(x) for x in interpolate(f, mp.mpf(low), mp.mpf(high), degree)]
    error = 0
    for k in range(401):
        x = mp.mpf(low) + (mp.mpf(high) - low) * k / 400
        x = x if x != 0 else mp.mpf(high) / 10**6
        error = max(error, abs((sum(mp.mpf(a) * x**i for i, a in enumerate(c)) - f(x)) * weight(x)))
    print(f"// {what}: 2^{float(mp.log(error, 2)):.1f}.")
    print(f"inline constexpr double {name}[] = {{")
    for a in reversed(c):
        print(f"    {float.hex(a)},")
    print("};")


def of_root(f):
    """A function of z = x^2, given as a function of x."""
    return lambda z: f(mp.sqrt(z))


def fit_f32(name, f, high, degree, weight):
    """Least squares, weighted anew towards the smallest largest error (Lawson's method), each coefficient from the
    lowest on rounded to f32 before the next ones are found."""
    import numpy as np
    low = mp.mpf("1e-4")
    at = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (k + mp.mpf("0.5")) / 400) for k in range(400)]
    x, want, weights = (np.array([float(g(z)) for z in at]) for g in (lambda z: z, f, weight))
    done = []
    for i in range(degree + 1):
        rest = want - sum(a * x**j for j, a in enumerate(done))
        powers, lawson, best = np.stack([x**j for j in range(i, degree + 1)], 1), np.ones_like(x), (9e9, None)
        for _ in range(60):
            scale = np.sqrt(lawson) * weights
            c = np.linalg.lstsq(powers * scale[:, None], rest * scale, rcond=None)[0]
            error = np.abs((powers @ c - rest) * weights)
            best = min(best, (error.max(), c), key=lambda b: b[0])
            lawson = lawson * (error + 1e-30) / (lawson * (error + 1e-30)).max()
        done.append(float(np.float32(best[1][0])))
    error = np.abs((sum(a * x**j for j, a in enumerate(done)) - want) * weights).max()
    print(f"{name}: 2^{np.log2(error):.1f}\n  " + ", ".join(float.hex(a) for a in reversed(done)))


def tables_f32():
    quarter = (mp.pi / 4 * mp.mpf("1.0005"))**2
    odd = lambda g: of_root(lambda x: (g(x) / x - 1) / x**2)
    relative = lambda g: of_root(lambda x: x**3 / g(x))
    fit_f32("(log(1 + t) - t) / t^2, t <= 1", lambda t: (mp.log(1 + t) - t) / t**2, mp.mpf(1), 9,
            lambda t: t**2 / mp.log(1 + t))
    fit_f32("(atan x - x) / x^3 in x^2, x <= 1", odd(mp.atan), mp.mpf(1), 8, relative(mp.atan))
    fit_f32("(asin x - x) / x^3 in x^2, x <= 1/2", odd(mp.asin), mp.mpf("0.25"), 4, relative(mp.asin))
    fit_f32("(sin x - x) / x^3 in x^2, x <= pi / 4", odd(mp.sin), quarter, 2, relative(mp.sin))
    fit_f32("(cos x - 1 + x^2 / 2) / x^4 in x^2, x <= pi / 4",
            of_root(lambda x: (mp.cos(x) - 1 + x * x / 2) / x**4), quarter, 2, lambda z: z * z / mp.cos(mp.sqrt(z)))


def quadrants():
    """1 / (2 pi) in words of 64 bits after 32 bits of zero."""
    mp.mp.dps = 420
    bits = int(mp.floor(mp.ldexp(1 / (2 * mp.pi), 64 * 19 - 32)))
    mp.mp.dps = 60
    print("// 1 / (2 pi), most significant word first, after 32 bits of zero.")
    print("inline constexpr uint64_t kTwoOverPi[] = {")
    for k in range(19):
        print(f"    0x{bits >> 64 * (18 - k) & (2**64 - 1):016x},")
    print("};")


def main():
    print("// SPDX-License-Identifier: Apache-2.0")
    print("// Written by kernel/math_coefficients.py. Coefficients from the highest power down.")
    print("#ifndef KILN_KERNEL_MATH_F64_TABLES_H_\n#define KILN_KERNEL_MATH_F64_TABLES_H_\n")
    print("#include <cstdint>\n\nnamespace kiln::math_internal {\n")
    quarter = mp.pi / 4 * mp.mpf("1.0001")
    half_ln2 = mp.log(2) / 2 * mp.mpf("1.0001")
    table("kSin", "(sin x - x) / x^3 in x^2, |x| <= pi / 4", of_root(lambda x: (mp.sin(x) - x) / x**3), 0, quarter**2, 5,
          lambda z: z)
    print()
    table("kCos", "(cos x - 1 + x^2 / 2) / x^4 in x^2, |x| <= pi / 4",
          of_root(lambda x: (mp.cos(x) - 1 + x * x / 2) / x**4), 0, quarter**2, 5, lambda z: z * z / mp.cos(mp.sqrt(z)))
    print()
    table("kExp", "(e^x - 1 - x - x^2 / 2) / x^3, |x| <= ln 2 / 2",
          lambda x: sum(x**k / mp.factorial(k + 3) for k in range(40)), -half_ln2, half_ln2, 9, lambda x: x * x)
    print()
    table("kLog", "(atanh s / s - 1 - s^2 / 3) / s^4 in s^2, s = (m - 1) / (m + 1), m in [sqrt 1/2, sqrt 2]",
          lambda z: sum(z**k / (2 * k + 5) for k in range(60)), 0, mp.mpf("0.02945"), 9, lambda z: z * z)
    print()
    table("kErf", "erf x / x - 1 in x^2, x <= 0.84375", of_root(lambda x: mp.erf(x) / x - 1), 0, mp.mpf("0.7120"), 11,
          lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)))
    print()
    at = lambda t: 4 * (1 + t) / (1 - t)
    table("kErfc", "(1 + 2 x) e^(x^2) erfc x in (x - 4) / (x + 4), 1/2 <= x <= 30",
          lambda t: (1 + 2 * at(t)) * mp.exp(at(t)**2) * mp.erfc(at(t)), mp.mpf(-7) / 9, mp.mpf(26) / 34, 23,
          lambda t: mp.mpf(1))
    print()
    table("kAtan", "(atan x - x) / x^3 in x^2, x <= tan(pi / 8)", of_root(lambda x: (mp.atan(x) - x) / x**3), 0,
          (mp.tan(mp.pi / 8) * mp.mpf("1.0001"))**2, 11, lambda z: z)
    print()
    table("kAsin", "(asin x - x) / x^3 in x^2, x <= 1/2", of_root(lambda x: (mp.asin(x) - x) / x**3), 0,
          mp.mpf("0.25001"), 12, lambda z: z)
    print()
    table("kSinh", "(sinh x - x) / x^3 in x^2, x <= 1", of_root(lambda x: (mp.sinh(x) - x) / x**3), 0, mp.mpf(1), 7,
          lambda z: z)
    print()
    table("kCbrt", "cube root of m in [sqrt 1/2, sqrt 2]", lambda m: mp.cbrt(m), mp.sqrt(mp.mpf(1) / 2), mp.sqrt(2), 4,
          lambda m: 1 / mp.cbrt(m))
    print()
    quadrants()
    print("\n}  // namespace kiln::math_internal\n\n#endif  // KILN_KERNEL_MATH_F64_TABLES_H_")


if __name__ == "__main__":
    tables_f32() if "--f32" in sys.argv[1:] else main()
