// SPDX-License-Identifier: Apache-2.0
/* kiln/kiln.h from C, against libkiln.so: what it computes, what it refuses, who frees what. Each check that fails is a line;
 * exit 1 if there was one.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kiln/kiln.h"

static int failures = 0;

static void check(int ok, int line, const char* what) {
  if (ok) return;
  ++failures;
  printf("c_test.c:%d: %s\n", line, what);
}
#define CHECK(condition) check((condition) != 0, __LINE__, #condition)

static void ok(kiln_status* status, int line, const char* what) {
  if (status == NULL) return;
  ++failures;
  printf("c_test.c:%d: %s: %s\n", line, what, kiln_status_message(status));
  kiln_status_free(status);
}
#define OK(call) ok((call), __LINE__, #call)

/* The call must fail with this code, and a message that has `part`. */
static void fails(kiln_status* status, kiln_code code, const char* part, int line) {
  if (kiln_status_code(status) != code || strstr(kiln_status_message(status), part) == NULL) {
    ++failures;
    printf("c_test.c:%d: code %d, \"%s\"; wanted code %d and \"%s\"\n", line,
           (int)kiln_status_code(status), kiln_status_message(status), (int)code, part);
  }
  kiln_status_free(status);
}
#define FAILS(call, code, part) fails((call), (code), (part), __LINE__)

static kiln_tensor* view(void* data, kiln_dtype type, size_t rank, const int64_t* shape) {
  kiln_tensor* tensor = NULL;
  OK(kiln_tensor_view(data, type, rank, shape, NULL, NULL, NULL, &tensor));
  return tensor;
}

/* y [n, 4] = softmax(x * 2); exp of the largest element is 1 before the division. */
static kiln_builder* softmax_graph(void) {
  const char* const dims[] = {"n", "4"};
  kiln_builder* builder = kiln_builder_new("c");
  const kiln_value x = kiln_builder_input(builder, "x", KILN_F32, dims, 2);
  const kiln_value product[] = {x, kiln_builder_scalar(builder, KILN_F32, 2.0)};
  kiln_value scaled = -1, y = -1;
  CHECK(kiln_builder_op(builder, "mul", product, 2, NULL, 0, "scaled", &scaled, 1) == 1);
  kiln_attr axis;
  memset(&axis, 0, sizeof axis);
  axis.name = "axis";
  axis.kind = KILN_ATTR_INT;
  axis.i = -1;
  CHECK(kiln_builder_op(builder, "softmax", &scaled, 1, &axis, 1, NULL, &y, 1) == 1);
  kiln_builder_output(builder, y, "y");
  OK(kiln_builder_status(builder));
  return builder;
}

static void check_softmax(const float* x, const float* y, int rows) {
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int k = 0; k < 4; ++k) sum += exp(2.0 * x[4 * r + k]);
    for (int k = 0; k < 4; ++k) CHECK(fabs(exp(2.0 * x[4 * r + k]) / sum - y[4 * r + k]) < 1e-6);
  }
}

static kiln_model* compile(kiln_builder* builder, const kiln_compile_options* options) {
  kiln_model* model = NULL;
  OK(kiln_builder_compile(builder, options, &model));
  kiln_builder_free(builder);
  return model;
}

static kiln_compile_options on_vm(void) {
  kiln_compile_options options = kiln_compile_options_default();
  options.compile_mode = KILN_COMPILE_NEVER;
  options.no_cache = 1;
  return options;
}

static float numbers[] = {0, 1, -1, 2, 0.5f, 0.25f, 3, -4};
static const int64_t two_by_four[] = {2, 4};

static void test_run(kiln_model* model) {
  CHECK(kiln_model_num_inputs(model) == 1 && kiln_model_num_outputs(model) == 1);
  kiln_port port;
  port.struct_size = sizeof port;
  OK(kiln_model_input(model, 0, &port));
  CHECK(strcmp(port.name, "x") == 0 && port.dtype == KILN_F32 && port.rank == 2);
  CHECK(port.shape[0] == -1 && port.shape[1] == 4 && strcmp(port.dims[0], "n") == 0);
  FAILS(kiln_model_input(model, 7, &port), KILN_INVALID_ARGUMENT, "input 7: there are 1");
  size_t index = 9, rank = 0;
  OK(kiln_model_output_index(model, "y", &index));
  CHECK(index == 0);
  FAILS(kiln_model_input_index(model, "z", &index), KILN_NOT_FOUND, "\"z\"");
  const kiln_shape shape = {"x", 2, two_by_four};
  int64_t extents[2] = {0, 0};
  OK(kiln_model_prepare(model, &shape, 1));
  OK(kiln_model_output_shape(model, &shape, 1, 0, extents, 2, &rank));
  CHECK(rank == 2 && extents[0] == 2 && extents[1] == 4);
  kiln_tensor* x = view(numbers, KILN_F32, 2, two_by_four);
  const kiln_tensor* inputs[] = {x};
  kiln_tensor* y = NULL;
  OK(kiln_model_run(model, inputs, 1, NULL, &y, 1));
  check_softmax(numbers, kiln_tensor_data(y), 2);
  kiln_tensor_free(y);
  FAILS(kiln_model_run(model, inputs, 0, NULL, &y, 1), KILN_INVALID_ARGUMENT,
        "0 are given, the model has 1");
  FAILS(kiln_model_run(model, inputs, 1, NULL, &y, 3), KILN_INVALID_ARGUMENT, "room for 3");
  kiln_memory memory;
  memory.struct_size = sizeof memory;
  kiln_model_memory(model, &memory);
  CHECK(memory.plans >= 1);
  kiln_model_trim(model);
  kiln_tensor_free(x);
}

static int32_t count_launch(void* user, const kiln_thunk* thunk) {
  CHECK(strcmp(thunk->kind, "kernel") == 0 && thunk->num_outputs == 1);
  CHECK(kiln_tensor_rank(thunk->outputs[0]) == 2);
  return ++*(int*)user > 1; /* the second run ends here */
}

static void count_start(void* user) { *(int*)user += 0; }

static void tell_launch(void* user, const kiln_launch_time* launch) {
  CHECK(launch->vm == 1 && launch->ms >= 0 && strcmp(launch->kind, "kernel") == 0);
  ++*(int*)user;
}

static void test_context(void) {
  int launches = 0, told = 0;
  kiln_compile_options options = on_vm();
  kiln_run_options run = kiln_run_options_default();
  run.threads = 1;
  run.on_thunk = count_launch;
  run.on_start = count_start;
  run.user = &launches;
  options.run = &run;
  kiln_model* model = compile(softmax_graph(), &options);
  kiln_context* context = kiln_context_new(model);
  CHECK(kiln_model_threads(model) == 1);
  kiln_model_free(model); /* the context has a share of it */
  float y[8];
  kiln_tensor* x = view(numbers, KILN_F32, 2, two_by_four);
  kiln_tensor* room = view(y, KILN_F32, 2, two_by_four);
  FAILS(kiln_context_run(context, NULL), KILN_INVALID_ARGUMENT, "x");
  OK(kiln_context_bind(context, 0, x));
  OK(kiln_context_bind_output(context, 0, room));
  kiln_tensor_free(x);
  kiln_tensor_free(room);
  OK(kiln_context_run(context, NULL));
  check_softmax(numbers, y, 2);
  kiln_plan_report report;
  report.struct_size = sizeof report;
  kiln_context_report(context, &report);
  CHECK(report.kernel_launches == 1 && report.vm_launches == 1);
  FAILS(kiln_context_run(context, NULL), KILN_CANCELLED, "on_thunk ended the run");
  FAILS(kiln_context_output(context, 0, &x), KILN_FAILED_PRECONDITION, "");
  launches = -100;
  OK(kiln_context_profile(context, tell_launch, &told));
  CHECK(told == 1);
  OK(kiln_context_output(context, 0, &x));
  CHECK(kiln_tensor_data(x) == y);
  kiln_tensor_free(x);
  kiln_context_trim(context);
  kiln_context_free(context);
}

/* One output and a flag under a mutex. */
struct waiter {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int done;
  kiln_status* status;
  float y[8];
};

static void finish(void* user, kiln_status* status, kiln_tensor** outputs, size_t num_outputs) {
  struct waiter* w = user;
  pthread_mutex_lock(&w->mutex);
  w->status = status;
  if (num_outputs == 1) {
    memcpy(w->y, kiln_tensor_data(outputs[0]), sizeof w->y);
    kiln_tensor_free(outputs[0]);
  }
  w->done = 1;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->mutex);
}

static void run_async(kiln_model* model, const kiln_run_control* control, struct waiter* w) {
  kiln_tensor* x = view(numbers, KILN_F32, 2, two_by_four);
  const kiln_tensor* inputs[] = {x};
  w->done = 0;
  OK(kiln_model_run_async(model, inputs, 1, control, finish, w));
  kiln_tensor_free(x);
  pthread_mutex_lock(&w->mutex);
  while (!w->done) pthread_cond_wait(&w->changed, &w->mutex);
  pthread_mutex_unlock(&w->mutex);
}

static void test_async(kiln_model* model) {
  struct waiter w;
  memset(&w, 0, sizeof w);
  pthread_mutex_init(&w.mutex, NULL);
  pthread_cond_init(&w.changed, NULL);
  run_async(model, NULL, &w);
  OK(w.status);
  check_softmax(numbers, w.y, 2);
  kiln_run_control control = kiln_run_control_default();
  kiln_cancel* cancel = kiln_cancel_new();
  control.cancel = cancel;
  kiln_cancel_set(cancel);
  run_async(model, &control, &w);
  FAILS(w.status, KILN_CANCELLED, "cancelled");
  kiln_cancel_free(cancel);
  control.cancel = NULL;
  control.timeout_us = INT64_MIN;
  run_async(model, &control, &w);
  FAILS(w.status, KILN_DEADLINE_EXCEEDED, "deadline");
  control.timeout_us = INT64_MAX;
  run_async(model, &control, &w);
  OK(w.status);
}

/* h' = h + x, a state that a context keeps. */
static void test_state(void) {
  const char* const dims[] = {"4"};
  const char* const states[] = {"h", "next"};
  kiln_builder* builder = kiln_builder_new("state");
  const kiln_value operands[] = {kiln_builder_input(builder, "h", KILN_F32, dims, 1),
                                 kiln_builder_input(builder, "x", KILN_F32, dims, 1)};
  kiln_value sum = -1;
  kiln_builder_op(builder, "add", operands, 2, NULL, 0, NULL, &sum, 1);
  kiln_builder_output(builder, sum, "next");
  kiln_compile_options options = on_vm();
  kiln_run_options run = kiln_run_options_default();
  run.states = states;
  run.num_states = 1;
  options.run = &run;
  kiln_model* model = compile(builder, &options);
  kiln_context* context = kiln_context_new(model);
  const int64_t four[] = {4};
  size_t input = 9;
  OK(kiln_model_input_index(model, "x", &input));
  kiln_tensor* x = view(numbers, KILN_F32, 1, four);
  OK(kiln_context_bind(context, input, x));
  for (int k = 0; k < 3; ++k) OK(kiln_context_run(context, NULL));
  kiln_tensor* state = NULL;
  OK(kiln_context_state(context, "h", &state));
  CHECK(((float*)kiln_tensor_data(state))[3] == 6.0f);
  kiln_tensor_free(state);
  OK(kiln_context_set_state(context, "h", x));
  OK(kiln_context_run(context, NULL));
  OK(kiln_context_state(context, "h", &state));
  CHECK(((float*)kiln_tensor_data(state))[3] == 4.0f);
  kiln_tensor_free(state);
  OK(kiln_context_reset_states(context));
  OK(kiln_context_state(context, "h", &state));
  CHECK(((float*)kiln_tensor_data(state))[3] == 0.0f);
  kiln_tensor_free(state);
  kiln_tensor_free(x);
  kiln_context_free(context);
  kiln_model_free(model);
}

static int64_t bytes_out = 0;
static int allocations = 0, freed = 0;

static void* allocate(void* user, size_t bytes, size_t alignment) {
  (void)user;
  ++allocations;
  bytes_out += (int64_t)bytes;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void deallocate(void* user, void* memory, size_t bytes) {
  (void)user;
  ++freed;
  bytes_out -= (int64_t)bytes;
  free(memory);
}

static void test_runtime(const char* directory) {
  kiln_cache_settings settings = kiln_cache_settings_default();
  settings.directory = directory;
  kiln_cache* cache = NULL;
  OK(kiln_cache_open(&settings, &cache));
  kiln_runtime_options host = kiln_runtime_options_default();
  host.threads = 1;
  host.allocate = allocate;
  kiln_runtime* runtime = NULL;
  FAILS(kiln_runtime_create(&host, &runtime), KILN_INVALID_ARGUMENT, "belong together");
  host.deallocate = deallocate;
  host.cache = cache;
  OK(kiln_runtime_create(&host, &runtime));
  CHECK(kiln_runtime_threads(runtime) == 1);
  kiln_compile_options options = kiln_compile_options_default();
  kiln_run_options run = kiln_run_options_default();
  run.runtime = runtime;
  options.run = &run;
  options.cache = cache;
  kiln_model* model = compile(softmax_graph(), &options);
  test_run(model);
  kiln_metrics metrics;
  metrics.struct_size = sizeof metrics;
  kiln_runtime_metrics(runtime, &metrics);
  CHECK(metrics.runs == 1 && metrics.kernels_built + metrics.kernels_cached == 1);
  kiln_cache_counters counters;
  counters.struct_size = sizeof counters;
  kiln_cache_count(cache, &counters);
  CHECK(counters.hits + counters.misses >= 1);
  CHECK(strcmp(kiln_cache_directory(cache), directory) == 0);
  CHECK(allocations > 0);
  kiln_model_free(model);
  kiln_runtime_maintain(runtime);
  kiln_runtime_free(runtime);
  kiln_cache_free(cache);
  CHECK(bytes_out == 0 && allocations == freed);
}

static int lines = 0;
static void write_line(void* user, kiln_log_level level, const char* message) {
  CHECK(user == &lines && level >= KILN_LOG_DEBUG && message[0] != '\0');
  ++lines;
}

/* Without a compiler a model runs on the VM, with a warning. */
static void test_log(void) {
  kiln_compile_options options = kiln_compile_options_default();
  options.no_cache = 1;
  options.codegen = "/nowhere/kiln-codegen";
  kiln_set_log(write_line, &lines);
  kiln_set_log_level(KILN_LOG_WARNING);
  kiln_model* model = compile(softmax_graph(), &options);
  test_run(model);
  kiln_model_free(model);
  CHECK(lines > 0);
  kiln_set_log(NULL, NULL);
}

static int released = 0;
static void release(void* user) { ++*(int*)user; }

static const char kText[] =
    "graph text\n"
    "input x : f32 [n]\n"
    "y : f32 [n] = neg(x)\n"
    "output y\n";

static void count(void* user) { ++*(int*)user; }

static int32_t no_bytes(void* user, int64_t offset, void* into, int64_t bytes) {
  (void)offset, (void)into, (void)bytes;
  ++*(int*)user;
  return 7;
}

/* What a reader is given, which `release` takes from it. */
struct held {
  int reads, releases;
};
static int32_t read_while_held(void* user, int64_t offset, void* into, int64_t bytes) {
  struct held* const held = user;
  (void)offset, (void)into, (void)bytes;
  CHECK(held->releases == 0);
  ++held->reads;
  return 7;
}
static void release_held(void* user) { ++((struct held*)user)->releases; }

static void test_package_sources(void) {
  kiln_model* model = NULL;
  int calls = 0;
  kiln_package_source source = kiln_package_source_default();
  FAILS(kiln_load_package_from(&source, NULL, NULL, &model), KILN_INVALID_ARGUMENT,
        "0 of path, descriptor, data and read are set");
  source.path = "/nowhere/net.kiln";
  FAILS(kiln_load_package_from(&source, NULL, NULL, &model), KILN_NOT_FOUND, "/nowhere/net.kiln");
  source.data = kText;
  source.size = (int64_t)strlen(kText);
  source.release = count;
  source.user = &calls;
  FAILS(kiln_load_package_from(&source, NULL, NULL, &model), KILN_INVALID_ARGUMENT, "2 of path");
  CHECK(calls == 1);
  source.path = NULL;
  source.name = "text";
  FAILS(kiln_load_package_from(&source, NULL, NULL, &model), KILN_DATA_LOSS, "\"text\": head: ");
  CHECK(calls == 2);
  source = kiln_package_source_default();
  source.read = no_bytes;
  source.size = 1000;
  source.user = &calls;
  FAILS(kiln_load_package_from(&source, NULL, NULL, &model), KILN_UNAVAILABLE,
        "its reader failed with 7");
  CHECK(calls == 3);
  struct held held = {0, 0};
  source.read = read_while_held;
  source.release = release_held;
  source.user = &held;
  FAILS(kiln_load_package_from(&source, NULL, NULL, &model), KILN_UNAVAILABLE,
        "its reader failed with 7");
  CHECK(held.reads == 1 && held.releases == 1);
  source.read = no_bytes;
  source.release = NULL;
  source.user = &calls;
  kiln_package_options options = kiln_package_options_default();
  options.trusted_signers = "nobody";
  FAILS(kiln_load_package_from(&source, NULL, &options, &model), KILN_INVALID_ARGUMENT,
        "trust file: line 1");
  FAILS(kiln_load_package_from(NULL, NULL, NULL, &model), KILN_INVALID_ARGUMENT, "source");
}

static void test_bytes(void) {
  kiln_compile_options options = on_vm();
  kiln_model* model = NULL;
  OK(kiln_compile_bytes(kText, strlen(kText), "text.graph", NULL, release, &released, &options,
                        &model));
  kiln_model_free(model);
  CHECK(released == 1);
  FAILS(kiln_compile_bytes("graph", 5, "bad.graph", NULL, release, &released, &options, &model),
        KILN_INVALID_ARGUMENT, "bad.graph");
  CHECK(released == 2);
  FAILS(kiln_compile("/nowhere/net.onnx", &options, &model), KILN_NOT_FOUND, "/nowhere/net.onnx");
  FAILS(kiln_compile(NULL, NULL, &model), KILN_INVALID_ARGUMENT, "\"path\": it is NULL");
  FAILS(kiln_load_package("/nowhere/net.kiln", NULL, 0, &model), KILN_NOT_FOUND,
        "/nowhere/net.kiln");
  test_package_sources();
  options.target = "pdp-11";
  FAILS(kiln_compile_bytes(kText, strlen(kText), "text.graph", NULL, NULL, NULL, &options, &model),
        KILN_INVALID_ARGUMENT, "pdp-11");
}

static void test_builder_errors(void) {
  kiln_builder* builder = kiln_builder_new(NULL);
  const char* const dims[] = {"n + "};
  CHECK(kiln_builder_input(builder, "x", KILN_F32, dims, 1) == -1);
  FAILS(kiln_builder_status(builder), KILN_INVALID_ARGUMENT, "n + ");
  CHECK(kiln_builder_scalar(builder, KILN_F32, 1) == -1); /* the first error stays */
  kiln_model* model = NULL;
  FAILS(kiln_builder_compile(builder, NULL, &model), KILN_INVALID_ARGUMENT, "n + ");
  kiln_builder_free(builder);
  builder = kiln_builder_new("ids");
  const kiln_value far = 77;
  kiln_value y = 5;
  CHECK(kiln_builder_op(builder, "neg", &far, 1, NULL, 0, NULL, &y, 1) == 0 && y == -1);
  FAILS(kiln_builder_status(builder), KILN_INVALID_ARGUMENT, "value 77");
  kiln_builder_free(builder);
}

static void test_absent_handles(void) {
  kiln_model* model = NULL;
  kiln_builder* builder = kiln_builder_new("absent");
  const kiln_value x = kiln_builder_scalar(builder, KILN_F32, 1);
  CHECK(kiln_builder_op(builder, "neg", &x, 1, NULL, 0, NULL, NULL, 1) == 0);
  FAILS(kiln_builder_status(builder), KILN_INVALID_ARGUMENT, "\"out\": it is NULL");
  kiln_builder_free(builder);
  CHECK(kiln_builder_scalar(NULL, KILN_F32, 1) == -1);
  FAILS(kiln_builder_compile(NULL, NULL, &model), KILN_INVALID_ARGUMENT, "\"builder\": it is NULL");
  FAILS(kiln_model_run(model, NULL, 0, NULL, NULL, 0), KILN_INVALID_ARGUMENT,
        "\"model\": it is NULL");
  FAILS(kiln_context_run(kiln_context_new(model), NULL), KILN_INVALID_ARGUMENT,
        "\"context\": it is NULL");
}

static void test_enums(void) {
  kiln_run_options run = kiln_run_options_default();
  kiln_compile_options options = on_vm();
  kiln_model* model = NULL;
  options.run = &run;
  options.compile_mode = (kiln_compile_mode)256;
  FAILS(kiln_compile("none", &options, &model), KILN_INVALID_ARGUMENT,
        "compile_mode: is 256, expected 0 to 2");
  options.compile_mode = KILN_COMPILE_NEVER;
  options.schedule_choice = (kiln_schedule_choice)3;
  FAILS(kiln_compile("none", &options, &model), KILN_INVALID_ARGUMENT, "schedule_choice: is 3");
  run.temporaries = (kiln_temporaries)-1;
  FAILS(kiln_load_package("none", &run, 0, &model), KILN_INVALID_ARGUMENT, "temporaries: is -1");
  run.temporaries = KILN_TEMPORARIES_PLANNED;
  run.output_memory = (kiln_output_memory)9;
  FAILS(kiln_load_package("none", &run, 0, &model), KILN_INVALID_ARGUMENT, "output_memory: is 9");
}

static void test_tensors(void) {
  kiln_tensor* tensor = NULL;
  const int64_t negative[] = {-1};
  FAILS(kiln_tensor_allocate(KILN_F32, 1, negative, &tensor), KILN_RESOURCE_EXHAUSTED, "tensor");
  FAILS(kiln_tensor_allocate((kiln_dtype)99, 1, two_by_four, &tensor), KILN_INVALID_ARGUMENT,
        "type 99");
  CHECK(kiln_dtype_size(KILN_BF16) == 2 && kiln_dtype_size((kiln_dtype)99) == 0);
  const int64_t transposed[] = {1, 2};
  released = 0;
  OK(kiln_tensor_view(numbers, KILN_F32, 2, two_by_four, transposed, release, &released, &tensor));
  CHECK(kiln_tensor_strides(tensor)[1] == 2 && kiln_tensor_shape(tensor)[1] == 4);
  struct DLManagedTensorVersioned* managed = NULL;
  kiln_tensor* back = NULL;
  OK(kiln_tensor_to_dlpack(tensor, &managed));
  OK(kiln_tensor_from_dlpack(managed, &back));
  kiln_tensor_free(tensor);
  CHECK(released == 0 && kiln_tensor_data(back) == numbers);
  kiln_tensor_free(back);
  CHECK(released == 1);
  kiln_tensor_free(NULL);
  kiln_status_free(NULL);
}

/* A program of an older version, whose options end after `jit_level`, on a library of this one. */
static void test_shorter_struct(void) {
  kiln_compile_options options;
  memset(&options, 0xee, sizeof options);
  options.struct_size = offsetof(kiln_compile_options, jit_level) + sizeof options.jit_level;
  options.run = NULL;
  options.graph_opt_level = 3;
  options.jit_level = 2;
  kiln_model* model = compile(softmax_graph(), &options);
  struct {
    kiln_memory memory;
  } seen;
  memset(&seen, 0x77, sizeof seen);
  seen.memory.struct_size = offsetof(kiln_memory, arenas);
  kiln_model_memory(model, &seen.memory);
  CHECK(seen.memory.constants >= 0 && seen.memory.arenas == 0x7777777777777777);
  kiln_model_free(model);
}

/* c_test DIRECTORY: of a kernel cache. */
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  CHECK(kiln_abi_version() == KILN_ABI_VERSION && kiln_version()[0] != '\0');
  test_log();
  kiln_compile_options options = on_vm();
  kiln_model* model = compile(softmax_graph(), &options);
  test_run(model);
  test_async(model);
  kiln_model_free(model);
  test_context();
  test_state();
  test_runtime(argv[1]);
  test_bytes();
  test_builder_errors();
  test_absent_handles();
  test_enums();
  test_tensors();
  test_shorter_struct();
  if (failures == 0) printf("all checks passed\n");
  return failures == 0 ? 0 : 1;
}
