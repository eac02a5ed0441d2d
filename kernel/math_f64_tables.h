// SPDX-License-Identifier: Apache-2.0
// Written by kernel/math_coefficients.py. Coefficients from the highest power down.
#ifndef KILN_KERNEL_MATH_F64_TABLES_H_
#define KILN_KERNEL_MATH_F64_TABLES_H_

#include <cstdint>

namespace kiln::math_internal {

// (sin x - x) / x^3 in x^2, |x| <= pi / 4: 2^-55.6.
inline constexpr double kSin[] = {
    0x1.5e0af186af739p-33,  -0x1.ae600a926c89ap-26, 0x1.71de37961e4c6p-19,
    -0x1.a01a019e8357dp-13, 0x1.1111111110bb1p-7,   -0x1.5555555555555p-3,
};

// (cos x - 1 + x^2 / 2) / x^4 in x^2, |x| <= pi / 4: 2^-59.5.
inline constexpr double kCos[] = {
    -0x1.907d7aebd5e3dp-37, 0x1.1eeb68b109173p-29,  -0x1.27e4fa17a41b4p-22,
    0x1.a01a019f4e867p-16,  -0x1.6c16c16c16966p-10, 0x1.5555555555555p-5,
};

// (e^x - 1 - x - x^2 / 2) / x^3, |x| <= ln 2 / 2: 2^-58.7.
inline constexpr double kExp[] = {
    0x1.1f66df7fca49fp-29, 0x1.af38a9b0ec855p-26, 0x1.27e4e1f48534fp-22, 0x1.71de0dae63bb3p-19,
    0x1.a01a01a47b054p-16, 0x1.a01a01a7c41d5p-13, 0x1.6c16c16c167e1p-10, 0x1.11111111109b3p-7,
    0x1.5555555555555p-5,  0x1.5555555555556p-3,
};

// (atanh s / s - 1 - s^2 / 3) / s^4 in s^2, s = (m - 1) / (m + 1), m in [sqrt 1/2, sqrt 2]:
// 2^-66.5.
inline constexpr double kLog[] = {
    0x1.9871e3a35ad5fp-5, 0x1.82bd1267b9795p-5, 0x1.af46927e517b2p-5, 0x1.e1e13f14a2b01p-5,
    0x1.111112205c9b4p-4, 0x1.3b13b138ee205p-4, 0x1.745d1745d3f32p-4, 0x1.c71c71c71c705p-4,
    0x1.2492492492492p-3, 0x1.999999999999ap-3,
};

// erf x / x - 1 in x^2, x <= 0.84375: 2^-56.3.
inline constexpr double kErf[] = {
    -0x1.e825d69d1d3abp-31, 0x1.e8189893fb897p-27, -0x1.5e1b193646f4ep-23, 0x1.b9c9e9c88e551p-20,
    -0x1.f4d0c141b977ep-17, 0x1.f9a317ae29790p-14, -0x1.c02db3a01f340p-11, 0x1.565bcd0ceac22p-8,
    -0x1.b82ce31281a53p-6,  0x1.ce2f21a042acep-4,  -0x1.812746b0379e6p-2,  0x1.06eba8214db69p-3,
};

// (1 + 2 x) e^(x^2) erfc x in (x - 4) / (x + 4), 1/2 <= x <= 30: 2^-54.1.
inline constexpr double kErfc[] = {
    0x1.8d5790786104ap-30,  0x1.43eaa5b651350p-29,  -0x1.f12291882beafp-27, -0x1.505778acc0d08p-26,
    0x1.d97d9f5d7d39cp-24,  0x1.4a733aa55c815p-24,  -0x1.bb136a41ef2a3p-21, 0x1.39880e1667713p-22,
    0x1.7f28918685c03p-18,  -0x1.7884f421dfb71p-17, -0x1.995941276885cp-16, 0x1.3be0402fab3e3p-13,
    -0x1.a1df256da1fd8p-13, -0x1.8d4a9a1a0171cp-11, 0x1.49c67285fff14p-8,   -0x1.09623884d83bdp-6,
    0x1.3079edf683b67p-5,   -0x1.0fb06dfe4a689p-4,  0x1.7fee004e124a5p-4,   -0x1.9ddb23c3e9025p-4,
    0x1.16ecefcfa539ap-4,   0x1.f7f5df66fd7a7p-7,   -0x1.1df1ad154a28ep-3,  0x1.3ba5916e9fd7fp+0,
};

// (atan x - x) / x^3 in x^2, x <= tan(pi / 8): 2^-58.2.
inline constexpr double kAtan[] = {
    0x1.0ac7d2dc4c828p-6, -0x1.1b2e7e3386b79p-5, 0x1.74dbcb5c2167ap-5, -0x1.ac7a216389ddfp-5,
    0x1.e19a0439b3b4bp-5, -0x1.110e875de57ebp-4, 0x1.3b1392d04b71cp-4, -0x1.745d165d9ee17p-4,
    0x1.c71c71c30300bp-4, -0x1.249249248d7cap-3, 0x1.9999999999953p-3, -0x1.5555555555555p-2,
};

// (asin x - x) / x^3 in x^2, x <= 1/2: 2^-57.5.
inline constexpr double kAsin[] = {
    0x1.d733cdf1e8b12p-6, -0x1.e6c3690d9eb0ap-7, 0x1.1d2052b6eb685p-6, 0x1.659ea8825b1cap-8,
    0x1.52434da33ae58p-7, 0x1.78262197d4e16p-7,  0x1.c9cf0c30fbb90p-7, 0x1.1c4d35a7a771ap-6,
    0x1.6e8bb1c9c50aep-6, 0x1.f1c71c1da63a6p-6,  0x1.6db6db6e32015p-5, 0x1.3333333332ec9p-4,
    0x1.5555555555556p-3,
};

// (sinh x - x) / x^3 in x^2, x <= 1: 2^-56.6.
inline constexpr double kSinh[] = {
    0x1.99f0806c2628dp-49, 0x1.ae777c36fd5b6p-41, 0x1.612467ccb2260p-33, 0x1.ae6456792a77fp-26,
    0x1.71de3a556f96cp-19, 0x1.a01a01a01a001p-13, 0x1.1111111111111p-7,  0x1.5555555555555p-3,
};

// cube root of m in [sqrt 1/2, sqrt 2]: 2^-16.2.
inline constexpr double kCbrt[] = {
    -0x1.26e9dff4b8569p-5, 0x1.acbd9f5c005f9p-3, -0x1.0c2b25ead282dp-1,
    0x1.cb216702c91b8p-1,  0x1.d093b879adecep-2,
};

// 1 / (2 pi), most significant word first, after 32 bits of zero.
inline constexpr uint64_t kTwoOverPi[] = {
    0x0000000028be60db, 0x9391054a7f09d5f4, 0x7d4d377036d8a566, 0x4f10e4107f9458ea,
    0xf7aef1586dc91b8e, 0x909374b801924bba, 0x827464873f877ac7, 0x2c4a69cfba208d7d,
    0x4baed1213a671c09, 0xad17df904e64758e, 0x60d4ce7d272117e2, 0xef7e4a0ec7fe25ff,
    0xf7816603fbcbc462, 0xd6829b47db4d9fb3, 0xc9f2c26dd3d18fd9, 0xa797fa8b5d49eeb1,
    0xfaf97c5ecf41ce7d, 0xe294a4ba9afed7ec, 0x47e357421580cc11,
};

}  // namespace kiln::math_internal

#endif  // KILN_KERNEL_MATH_F64_TABLES_H_
