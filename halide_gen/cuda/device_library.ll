; SPDX-License-Identifier: Apache-2.0
; The device functions that kernels call (device_library.h). After a change, make device_library_bitcode.h anew:
;   llvm-as-14 -o - halide_gen/cuda/device_library.ll | base64 -w 88
; Instructions stand in inline assembly, so that LLVM does not look into them.

attributes #0 = { alwaysinline nounwind readnone }

; Signed bytes to 32 bits. A selector of prmt whose highest bit is set is that byte's sign, eight times.
define i32 @kiln_widen_i8(i8 %a) #0 {
  %w = zext i8 %a to i32
  %r = call i32 asm "prmt.b32 $0, $1, 0, 0x8880;", "=r,r"(i32 %w) #0
  ret i32 %r
}
define <4 x i32> @kiln_widen_i8x4(<4 x i8> %a) #0 {
  %w = bitcast <4 x i8> %a to i32
  %b0 = call i32 asm "prmt.b32 $0, $1, 0, 0x8880;", "=r,r"(i32 %w) #0
  %b1 = call i32 asm "prmt.b32 $0, $1, 0, 0x9991;", "=r,r"(i32 %w) #0
  %b2 = call i32 asm "prmt.b32 $0, $1, 0, 0xaaa2;", "=r,r"(i32 %w) #0
  %b3 = call i32 asm "prmt.b32 $0, $1, 0, 0xbbb3;", "=r,r"(i32 %w) #0
  %v0 = insertelement <4 x i32> undef, i32 %b0, i32 0
  %v1 = insertelement <4 x i32> %v0, i32 %b1, i32 1
  %v2 = insertelement <4 x i32> %v1, i32 %b2, i32 2
  %v3 = insertelement <4 x i32> %v2, i32 %b3, i32 3
  ret <4 x i32> %v3
}

; f32 to the bits of f16 and bf16, to nearest even; a NaN becomes 0x7fff.
define i16 @kiln_f16(float %a) #0 {
  %r = call i16 asm "cvt.rn.f16.f32 $0, $1;", "=h,f"(float %a) #0
  ret i16 %r
}
define <2 x i16> @kiln_f16x2(<2 x float> %a) #0 {
  %low = extractelement <2 x float> %a, i32 0
  %high = extractelement <2 x float> %a, i32 1
  %w = call i32 asm "cvt.rn.f16x2.f32 $0, $1, $2;", "=r,f,f"(float %high, float %low) #0
  %r = bitcast i32 %w to <2 x i16>
  ret <2 x i16> %r
}
define i16 @kiln_bf16(float %a) #0 {
  %r = call i16 asm "cvt.rn.bf16.f32 $0, $1;", "=h,f"(float %a) #0
  ret i16 %r
}
define <2 x i16> @kiln_bf16x2(<2 x float> %a) #0 {
  %low = extractelement <2 x float> %a, i32 0
  %high = extractelement <2 x float> %a, i32 1
  %w = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %high, float %low) #0
  %r = bitcast i32 %w to <2 x i16>
  ret <2 x i16> %r
}

; The bits of bf16 to f32.
define float @kiln_widen_bf16(i16 %a) #0 {
  %w = zext i16 %a to i32
  %s = shl i32 %w, 16
  %r = bitcast i32 %s to float
  ret float %r
}
define <2 x float> @kiln_widen_bf16x2(<2 x i16> %a) #0 {
  %w = bitcast <2 x i16> %a to i32
  %l = shl i32 %w, 16
  %h = and i32 %w, -65536
  %low = bitcast i32 %l to float
  %high = bitcast i32 %h to float
  %v = insertelement <2 x float> undef, float %low, i32 0
  %r = insertelement <2 x float> %v, float %high, i32 1
  ret <2 x float> %r
}

; f32 to the f32 of its bf16: the upper half of a pair is one.
define float @kiln_round_bf16(float %a) #0 {
  %w = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %a, float 0.0) #0
  %r = bitcast i32 %w to float
  ret float %r
}
