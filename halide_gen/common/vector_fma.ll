; SPDX-License-Identifier: Apache-2.0
; What kiln_fma_f32 and kiln_fma_f64 of a vector are (vector_fma.h). After a change, make vector_fma_bitcode.h anew:
;   llvm-as-14 -o - halide_gen/common/vector_fma.ll | base64 -w 88
target triple = "x86_64--linux-gnu"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"

declare float @llvm.fma.f32(float, float, float)
declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
declare double @llvm.fma.f64(double, double, double)
declare <2 x double> @llvm.fma.v2f64(<2 x double>, <2 x double>, <2 x double>)
declare <4 x double> @llvm.fma.v4f64(<4 x double>, <4 x double>, <4 x double>)
declare <8 x double> @llvm.fma.v8f64(<8 x double>, <8 x double>, <8 x double>)

attributes #0 = { alwaysinline nounwind }

define internal float @kiln_fma_f32(float %a, float %b, float %c) #0 {
  %r = call float @llvm.fma.f32(float %a, float %b, float %c)
  ret float %r
}
define internal <4 x float> @kiln_fma_f32x4(<4 x float> %a, <4 x float> %b, <4 x float> %c) #0 {
  %r = call <4 x float> @llvm.fma.v4f32(<4 x float> %a, <4 x float> %b, <4 x float> %c)
  ret <4 x float> %r
}
define internal <8 x float> @kiln_fma_f32x8(<8 x float> %a, <8 x float> %b, <8 x float> %c) #0 {
  %r = call <8 x float> @llvm.fma.v8f32(<8 x float> %a, <8 x float> %b, <8 x float> %c)
  ret <8 x float> %r
}
define internal <16 x float> @kiln_fma_f32x16(<16 x float> %a, <16 x float> %b, <16 x float> %c) #0 {
  %r = call <16 x float> @llvm.fma.v16f32(<16 x float> %a, <16 x float> %b, <16 x float> %c)
  ret <16 x float> %r
}
define internal double @kiln_fma_f64(double %a, double %b, double %c) #0 {
  %r = call double @llvm.fma.f64(double %a, double %b, double %c)
  ret double %r
}
define internal <2 x double> @kiln_fma_f64x2(<2 x double> %a, <2 x double> %b, <2 x double> %c) #0 {
  %r = call <2 x double> @llvm.fma.v2f64(<2 x double> %a, <2 x double> %b, <2 x double> %c)
  ret <2 x double> %r
}
define internal <4 x double> @kiln_fma_f64x4(<4 x double> %a, <4 x double> %b, <4 x double> %c) #0 {
  %r = call <4 x double> @llvm.fma.v4f64(<4 x double> %a, <4 x double> %b, <4 x double> %c)
  ret <4 x double> %r
}
define internal <8 x double> @kiln_fma_f64x8(<8 x double> %a, <8 x double> %b, <8 x double> %c) #0 {
  %r = call <8 x double> @llvm.fma.v8f64(<8 x double> %a, <8 x double> %b, <8 x double> %c)
  ret <8 x double> %r
}

; Linking leaves internal functions behind that nothing uses. LLVM sees that this constructor does nothing, and once the
; functions are inlined, nothing is left of it and of them.
@llvm.global_ctors = appending global [1 x { i32, void ()*, i8* }]
    [{ i32, void ()*, i8* } { i32 65535, void ()* @kiln_use_all, i8* null }]
define internal void @kiln_use_all() {
  call float @kiln_fma_f32(float 0.0, float 0.0, float 0.0)
  call <4 x float> @kiln_fma_f32x4(<4 x float> zeroinitializer, <4 x float> zeroinitializer, <4 x float> zeroinitializer)
  call <8 x float> @kiln_fma_f32x8(<8 x float> zeroinitializer, <8 x float> zeroinitializer, <8 x float> zeroinitializer)
  call <16 x float> @kiln_fma_f32x16(<16 x float> zeroinitializer, <16 x float> zeroinitializer, <16 x float> zeroinitializer)
  call double @kiln_fma_f64(double 0.0, double 0.0, double 0.0)
  call <2 x double> @kiln_fma_f64x2(<2 x double> zeroinitializer, <2 x double> zeroinitializer, <2 x double> zeroinitializer)
  call <4 x double> @kiln_fma_f64x4(<4 x double> zeroinitializer, <4 x double> zeroinitializer, <4 x double> zeroinitializer)
  call <8 x double> @kiln_fma_f64x8(<8 x double> zeroinitializer, <8 x double> zeroinitializer, <8 x double> zeroinitializer)
  ret void
}
