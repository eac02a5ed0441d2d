// SPDX-License-Identifier: Apache-2.0
/* A kernel by hand: writes TEST_VALUE times the index to n ints, in parallel, through scratch
 * memory. argv: context, int* out, int* n. */
typedef int (*Task)(void* context, int index, unsigned char* closure);

__attribute__((visibility("protected"), aligned(4096))) void* kiln_imports[20];
const unsigned kiln_abi = 2;

static int One(void* context, int index, unsigned char* closure) {
  void* (*allocate)(void*, unsigned long) = (void* (*)(void*, unsigned long))kiln_imports[1];
  void (*release)(void*, void*) = (void (*)(void*, void*))kiln_imports[2];
  int* scratch = allocate(context, sizeof(int));
  if (scratch == 0) return -1;
  *scratch = TEST_VALUE * index;
  (*(int**)closure)[index] = *scratch;
  release(context, scratch);
  return 0;
}

int k_argv(void** argv) {
  int (*par_for)(void*, Task, int, int, unsigned char*) =
      (int (*)(void*, Task, int, int, unsigned char*))kiln_imports[0];
  int* out = (int*)argv[1];
  return par_for(*(void**)argv[0], One, 0, *(int*)argv[2], (unsigned char*)&out);
}
