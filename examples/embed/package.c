// SPDX-License-Identifier: Apache-2.0
/* package PACKAGE: runs a package of examples/masked_softmax.graph in memory of its own, and prints an element. */
#include <stdio.h>

#include "kiln/kiln.h"

static int failed(kiln_status* status) {
  if (status == NULL) return 0;
  fprintf(stderr, "%s\n", kiln_status_message(status));
  kiln_status_free(status);
  return 1;
}

/* Binds the ports of `context` to these tensors and runs it. */
static int run(kiln_context* context, const kiln_tensor* x, const kiln_tensor* mask,
               const kiln_tensor* y) {
  return failed(kiln_context_bind(context, 0, x)) || failed(kiln_context_bind(context, 1, mask)) ||
         failed(kiln_context_bind_output(context, 0, y)) || failed(kiln_context_run(context, NULL));
}

int main(int argc, char** argv) {
  static const int64_t x_shape[] = {2, 64}, mask_shape[] = {64};
  static float x_data[2 * 64], mask_data[64], y_data[2 * 64];
  kiln_model* model = NULL;
  kiln_tensor *x = NULL, *mask = NULL, *y = NULL;
  if (argc != 2 || failed(kiln_load_package(argv[1], NULL, 0, &model))) return 1;
  if (failed(kiln_tensor_view(x_data, KILN_F32, 2, x_shape, NULL, NULL, NULL, &x)) ||
      failed(kiln_tensor_view(mask_data, KILN_F32, 1, mask_shape, NULL, NULL, NULL, &mask)) ||
      failed(kiln_tensor_view(y_data, KILN_F32, 2, x_shape, NULL, NULL, NULL, &y)))
    return 1;
  kiln_context* context = kiln_context_new(model);
  const int bad = run(context, x, mask, y);
  if (!bad) printf("%g\n", y_data[0]);
  kiln_context_free(context);
  kiln_tensor_free(x);
  kiln_tensor_free(mask);
  kiln_tensor_free(y);
  kiln_model_free(model);
  return bad;
}
