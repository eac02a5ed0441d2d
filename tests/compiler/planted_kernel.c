// SPDX-License-Identifier: Apache-2.0
/* out[i] = in[i] + in[i], right or wrong in the way that PLANTED names. argv: context, in, n, out.
 */
struct Buffer {
  unsigned long long device;
  void* interface;
  float* host;
};

__attribute__((visibility("protected"), aligned(4096))) void* kiln_imports[20];
const unsigned kiln_abi = 2;

int k_argv(void** argv) {
  float* in = ((struct Buffer*)argv[1])->host;
  float* out = ((struct Buffer*)argv[3])->host;
  int n = *(int*)argv[2];
#if PLANTED == 1 /* the tail is left out */
  n = n / 8 * 8;
#elif PLANTED == 10 /* long rows are left half done */
  n = n > 60000 ? n / 2 : n;
#endif
  for (int i = 0; i < n; ++i) {
#if PLANTED == 2 /* another operation */
    out[i] = in[i] * in[i];
#elif PLANTED == 3 /* right but for NaN */
    out[i] = in[i] != in[i] ? 0.0f : in[i] + in[i];
#elif PLANTED == 4 /* right but for -0 */
    out[i] = in[i] + in[i] + 0.0f;
#else
    out[i] = in[i] + in[i];
#endif
  }
#if PLANTED == 5 /* reads whole vectors */
  float sum = 0;
  for (int i = n; i < (n + 7) / 8 * 8; ++i) sum += *(volatile float*)(in + i);
#elif PLANTED == 6 /* writes one element too many */
  out[n] = 0;
#elif PLANTED == 7 /* writes its input */
  if (n > 0) in[0] = 0;
#elif PLANTED == 8
  return -7;
#elif PLANTED == 11 /* never ends */
  while (n > 0) *(volatile int*)&n;
#elif PLANTED == 12 /* an instruction that no machine has */
  if (n > 0) __builtin_trap();
#elif PLANTED == 13 /* ends its process, with success */
  if (n > 0) __asm__ volatile("syscall" : : "a"(231), "D"(0) : "rcx", "r11", "memory");
#elif PLANTED == 9  /* writes one element before the first */
  out[-1] = 0;
#endif
  return 0;
}
