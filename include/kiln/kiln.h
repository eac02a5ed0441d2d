// SPDX-License-Identifier: Apache-2.0
/* Kiln in C: compiles models, runs them, looks into them.
 *
 *   kiln_model* model = NULL;
 *   kiln_status* status = kiln_compile("net.onnx", NULL, &model);       // NULL: default options
 *   if (status != NULL) { fprintf(stderr, "%s\n", kiln_status_message(status)); return 1; }
 *   kiln_context* context = kiln_context_new(model);
 *   const int64_t shape[] = {1, 64};
 *   kiln_tensor* x = NULL;
 *   status = kiln_tensor_view(data, KILN_F32, 2, shape, NULL, NULL, NULL, &x);
 *   if (status == NULL) status = kiln_context_bind(context, 0, x);
 *   if (status == NULL) status = kiln_context_run(context, NULL);
 *   kiln_tensor* y = NULL;
 *   if (status == NULL) status = kiln_context_output(context, 0, &y);
 *
 * It says what the C++ headers of the same names say, where all is explained: kiln/model.h and so
 * on. What holds for all of it:
 *
 * - A function that may fail returns a kiln_status: NULL where all went well, else an error that
 *   the caller gives to kiln_status_free. Then no result is written. It takes no handle that is
 *   NULL, as one of a call that failed: KILN_INVALID_ARGUMENT.
 * - Handles belong to the caller, who gives each to its kiln_..._free, which takes NULL too. A
 *   handle shares what it needs: a model may be freed before its contexts, a tensor after its
 *   context. Strings and arrays that a handle returns live as long as it does; those that a
 *   function takes are copied, unless it says otherwise.
 * - A struct begins with its own size, struct_size. One of options is made by its ..._default(),
 *   which sets it; of one that a function fills the caller sets it before. Later versions have more
 *   fields at the end, so a program and a library of different versions understand each other.
 * - Functions of models, runtimes and caches may be called by any number of threads at once; a
 *   context, a builder and a tensor are one thread's at a time.
 * - Callbacks must not throw or longjmp.
 *
 * libkiln_runtime.so has all but what stands below "The compiler".
 */
#ifndef KILN_KILN_H_
#define KILN_KILN_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_C_API __attribute__((visibility("default")))

/* The version of this interface: raised by one when functions or fields are added. A library with
 * another SOVERSION is another interface. */
#define KILN_ABI_VERSION 1
KILN_C_API uint32_t kiln_abi_version(void); /* of the library */
KILN_C_API const char* kiln_version(void);  /* "0.1.0" */

/* ---- Errors. The numbers stay as they are: those of absl::StatusCode. */

typedef enum kiln_code {
  KILN_OK = 0,
  KILN_CANCELLED = 1,
  KILN_UNKNOWN = 2,
  KILN_INVALID_ARGUMENT = 3, /* the model, an option or an input is wrong */
  KILN_DEADLINE_EXCEEDED = 4,
  KILN_NOT_FOUND = 5,           /* no such file; no variant in a package for these inputs */
  KILN_PERMISSION_DENIED = 7,   /* a file or directory may not be used */
  KILN_RESOURCE_EXHAUSTED = 8,  /* memory, disk or a limit */
  KILN_FAILED_PRECONDITION = 9, /* a call out of order, as an output before the first run */
  KILN_UNIMPLEMENTED = 12,      /* the model needs what Kiln does not have; all of it is listed */
  KILN_INTERNAL = 13,           /* a bug of Kiln: please report it */
  KILN_UNAVAILABLE = 14,        /* the system refused a thread or process: worth another try */
  KILN_DATA_LOSS = 15           /* a file is damaged */
} kiln_code;

typedef struct kiln_status kiln_status;
KILN_C_API kiln_code kiln_status_code(const kiln_status* status); /* of NULL: KILN_OK */
/* What is wrong, with both values, and what to do; no line end. */
KILN_C_API const char* kiln_status_message(const kiln_status* status);
KILN_C_API void kiln_status_free(kiln_status* status);

/* ---- Log lines (kiln/log.h). */

typedef enum kiln_log_level {
  KILN_LOG_DEBUG = 0,
  KILN_LOG_INFO = 1,
  KILN_LOG_WARNING = 2,
  KILN_LOG_ERROR = 3,
  KILN_LOG_OFF = 4
} kiln_log_level;
typedef void (*kiln_log_fn)(void* user, kiln_log_level level, const char* message);
/* Lines go to `write` from now on, on any thread, also at once; NULL: to stderr. */
KILN_C_API void kiln_set_log(kiln_log_fn write, void* user);
KILN_C_API void kiln_set_log_level(kiln_log_level level);

/* ---- Tensors (kiln/tensor.h): views with a share in what owns the memory. */

typedef enum kiln_dtype {
  KILN_F32 = 0,
  KILN_F64 = 1,
  KILN_F16 = 2,
  KILN_BF16 = 3,
  KILN_I8 = 4,
  KILN_I16 = 5,
  KILN_I32 = 6,
  KILN_I64 = 7,
  KILN_U8 = 8,
  KILN_U16 = 9,
  KILN_U32 = 10,
  KILN_U64 = 11,
  KILN_BOOL = 12
} kiln_dtype;
KILN_C_API size_t kiln_dtype_size(kiln_dtype type); /* bytes of an element; 0: no such type */

typedef struct kiln_tensor kiln_tensor;
typedef void (*kiln_release_fn)(void* user);
/* A view of `data`. `strides`, in elements, may be zero or negative; NULL: dense. `release` is
 * called with `user` when nothing needs the memory any more, on whichever thread that is; NULL: the
 * caller keeps it alive. On an error it is not called. */
KILN_C_API kiln_status* kiln_tensor_view(void* data, kiln_dtype type, size_t rank,
                                         const int64_t* shape, const int64_t* strides,
                                         kiln_release_fn release, void* user, kiln_tensor** out);
/* Dense, 64-byte aligned, not initialised. */
KILN_C_API kiln_status* kiln_tensor_allocate(kiln_dtype type, size_t rank, const int64_t* shape,
                                             kiln_tensor** out);
KILN_C_API void* kiln_tensor_data(const kiln_tensor* tensor);
KILN_C_API kiln_dtype kiln_tensor_dtype(const kiln_tensor* tensor);
KILN_C_API size_t kiln_tensor_rank(const kiln_tensor* tensor);
KILN_C_API const int64_t* kiln_tensor_shape(const kiln_tensor* tensor);
KILN_C_API const int64_t* kiln_tensor_strides(const kiln_tensor* tensor);
KILN_C_API void kiln_tensor_free(kiln_tensor* tensor);
/* DLPack 1.x. From: the tensor takes over `managed`, and calls its deleter; on an error it stays
 * the caller's. To: the consumer calls the deleter of *out. */
struct DLManagedTensorVersioned;
KILN_C_API kiln_status* kiln_tensor_from_dlpack(struct DLManagedTensorVersioned* managed,
                                                kiln_tensor** out);
KILN_C_API kiln_status* kiln_tensor_to_dlpack(const kiln_tensor* tensor,
                                              struct DLManagedTensorVersioned** out);

/* ---- The kernel cache (kiln/cache.h). */

typedef struct kiln_cache kiln_cache;
typedef struct kiln_cache_settings {
  size_t struct_size;
  const char* directory; /* NULL: KILN_CACHE_DIR, XDG_CACHE_HOME/kiln or HOME/.cache/kiln */
  int32_t read_only;
  int64_t max_bytes;        /* on disk; 0: no limit */
  const char* const* packs; /* looked into first */
  size_t num_packs;
  const char* shared_directory; /* looked into last, never written; NULL: none */
  int32_t trust_unsigned;       /* packs that nobody known has signed are read too */
  const char* trusted_signers;  /* the text of a trust file (docs/cache.md); NULL: nobody */
} kiln_cache_settings;
static inline kiln_cache_settings kiln_cache_settings_default(void) {
  kiln_cache_settings options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.max_bytes = (int64_t)2 << 30;
  return options;
}
typedef struct kiln_cache_counters {
  size_t struct_size;
  uint64_t hits, misses, published, failures, publish_failures, damaged, evictions, saved_ms;
} kiln_cache_counters;
KILN_C_API kiln_status* kiln_cache_open(const kiln_cache_settings* settings, kiln_cache** out);
KILN_C_API void kiln_cache_count(const kiln_cache* cache, kiln_cache_counters* out);
KILN_C_API const char* kiln_cache_directory(const kiln_cache* cache);
KILN_C_API void kiln_cache_free(kiln_cache* cache);

/* ---- The runtime (kiln/runtime.h): what models share inside a program. */

typedef struct kiln_runtime kiln_runtime;
typedef struct kiln_runtime_options {
  size_t struct_size;
  int32_t threads;         /* 0: the CPUs this process may use */
  int64_t spin_us;         /* how long an idle thread stays awake; 0: not at all */
  int64_t memory_budget;   /* bytes; 0: no limit */
  int64_t idle_budget;     /* bytes; 0: no limit */
  int32_t build_jobs;      /* 0: as many as there are processors */
  const kiln_cache* cache; /* NULL: that of the environment */
  int32_t no_cache;
  /* Memory for arenas, copies of inputs, and outputs: both or none. */
  void* (*allocate)(void* user, size_t bytes, size_t alignment);
  void (*deallocate)(void* user, void* memory, size_t bytes);
  /* Threads of the host (kiln::Executor::Start). Must return 0 or 1. */
  int32_t (*start)(void* user, int32_t members, void (*task)(void* data, int32_t member),
                   void* data);
  void (*on_thread_start)(void* user, int32_t member);
  void* user;             /* given to all of these; must live as long as the process */
  const char* device;     /* "cuda", "cuda:1", "cuda-emulated"; NULL or "": the CPU alone */
  int32_t require_device; /* 1: a model without code for the device is an error */
} kiln_runtime_options;
static inline kiln_runtime_options kiln_runtime_options_default(void) {
  kiln_runtime_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.spin_us = 1000;
  return options;
}
typedef struct kiln_metrics {
  size_t struct_size;
  int64_t runs, failed_runs, vm_runs, plans, variants;
  int64_t kernels_built, kernels_cached, kernels_failed;
  int64_t memory_bytes, memory_peak, idle_bytes;
} kiln_metrics;
KILN_C_API kiln_status* kiln_runtime_create(const kiln_runtime_options* options,
                                            kiln_runtime** out);
KILN_C_API kiln_status* kiln_runtime_default(kiln_runtime** out);
KILN_C_API int32_t kiln_runtime_threads(const kiln_runtime* runtime);
KILN_C_API void kiln_runtime_metrics(const kiln_runtime* runtime, kiln_metrics* out);
KILN_C_API void kiln_runtime_maintain(kiln_runtime* runtime);
KILN_C_API void kiln_runtime_free(kiln_runtime* runtime);

/* ---- Models and contexts (kiln/model.h). */

typedef struct kiln_model kiln_model;
typedef struct kiln_context kiln_context;
typedef struct kiln_shared_arena kiln_shared_arena;

/* An input or output as the model declares it. */
typedef struct kiln_port {
  size_t struct_size;
  const char* name;
  kiln_dtype dtype;
  int32_t optional;
  int32_t any_rank; /* of an output: a run tells its shape */
  size_t rank;
  const int64_t* shape;    /* -1 where the extent is an expression */
  const char* const* dims; /* "3", "batch", "2*seq" */
} kiln_port;

/* A launch of a run with its operands; views of memory that later launches may reuse. */
typedef struct kiln_thunk {
  size_t struct_size;
  const char* kind; /* kernel, library, copy, host */
  const char* name;
  size_t num_inputs, num_outputs;
  const kiln_tensor* const* inputs; /* for the call only */
  const kiln_tensor* const* outputs;
} kiln_thunk;

typedef enum kiln_temporaries {
  KILN_TEMPORARIES_PLANNED = 0,
  KILN_TEMPORARIES_SEPARATE = 1,
  KILN_TEMPORARIES_ALLOCATED = 2
} kiln_temporaries;
typedef enum kiln_output_memory {
  KILN_OUTPUT_REUSED = 0,
  KILN_OUTPUT_FRESH = 1,
  KILN_OUTPUT_BOUND = 2
} kiln_output_memory;

typedef struct kiln_run_options {
  size_t struct_size;
  int32_t threads;             /* 0: the CPUs this process may use */
  const kiln_runtime* runtime; /* NULL: that of the process */
  int64_t workspace_limit;     /* bytes; 0: no limit */
  const char* const* states;   /* input, output, input, output, ...: state buffers */
  size_t num_states;           /* pairs */
  kiln_temporaries temporaries;
  kiln_output_memory output_memory;
  int32_t check_first_run;
  int32_t batch_invariant;
  int32_t record_level; /* 0, 1, 2 */
  const kiln_shared_arena* shared_arena;
  /* After every launch; not 0 ends the run with KILN_CANCELLED. */
  int32_t (*on_thunk)(void* user, const kiln_thunk* thunk);
  void (*on_start)(void* user);
  void (*on_finish)(void* user, const kiln_status* status); /* the status for the call only */
  void* user; /* given to all of these; must live as long as the model */
} kiln_run_options;
static inline kiln_run_options kiln_run_options_default(void) {
  kiln_run_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  return options;
}

KILN_C_API kiln_shared_arena* kiln_shared_arena_new(void); /* NULL: no memory */
KILN_C_API void kiln_shared_arena_free(kiln_shared_arena* arena);

/* `validate`: not 0: kiln-validate finds no fault with a kernel's code on this CPU before its first
 * use; else the VM runs. */
KILN_C_API kiln_status* kiln_load_package(const char* path, const kiln_run_options* options,
                                          int32_t validate, kiln_model** out);
/* Packages from wherever their bytes are (kiln/package.h). Exactly one of path, descriptor, data and
 * read says where. */
typedef struct kiln_package_source {
  size_t struct_size;
  const char* name;   /* what messages call it; NULL: its path, or "package" */
  const char* path;   /* NULL: none */
  int32_t descriptor; /* -1: none. Of a regular file; not needed after the call */
  const void* data;   /* NULL: none. 64-byte aligned, constants are used where they lie */
  int64_t size;       /* of data, or of what read gives */
  /* The `bytes` bytes from `offset` on; called within the call, on its thread. Not 0: it failed. As
   * for a package that is encrypted: what this gives is plain, and in memory only. */
  int32_t (*read)(void* user, int64_t offset, void* into, int64_t bytes);
  /* When nothing needs `data` or calls `read` any more, on whichever thread that is; NULL: the caller
   * keeps it as long as the model. On an error it is called before the call returns. */
  kiln_release_fn release;
  void* user; /* given to both */
} kiln_package_source;
static inline kiln_package_source kiln_package_source_default(void) {
  kiln_package_source source;
  memset(&source, 0, sizeof source);
  source.struct_size = sizeof source;
  source.descriptor = -1;
  return source;
}
typedef struct kiln_package_options {
  size_t struct_size;
  int32_t validate; /* as for kiln_load_package */
  int32_t read;     /* not 0: constants are read into memory, not mapped */
  /* The text of a trust file (docs/cache.md): KILN_PERMISSION_DENIED for a package that none of its
   * signers has signed. NULL: no signature is looked at. Needs OpenSSL's libcrypto.so.3. */
  const char* trusted_signers;
} kiln_package_options;
static inline kiln_package_options kiln_package_options_default(void) {
  kiln_package_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  return options;
}
KILN_C_API kiln_status* kiln_load_package_from(const kiln_package_source* source,
                                               const kiln_run_options* options,
                                               const kiln_package_options* package,
                                               kiln_model** out);
KILN_C_API void kiln_model_free(kiln_model* model);
KILN_C_API size_t kiln_model_num_inputs(const kiln_model* model);
KILN_C_API size_t kiln_model_num_outputs(const kiln_model* model);
KILN_C_API size_t kiln_model_num_updatable(const kiln_model* model);
/* KILN_INVALID_ARGUMENT: there is no such port. */
KILN_C_API kiln_status* kiln_model_input(const kiln_model* model, size_t index, kiln_port* out);
KILN_C_API kiln_status* kiln_model_output(const kiln_model* model, size_t index, kiln_port* out);
KILN_C_API kiln_status* kiln_model_updatable(const kiln_model* model, size_t index, kiln_port* out);
KILN_C_API kiln_status* kiln_model_input_index(const kiln_model* model, const char* name,
                                               size_t* out);
KILN_C_API kiln_status* kiln_model_output_index(const kiln_model* model, const char* name,
                                                size_t* out);
KILN_C_API int32_t kiln_model_threads(const kiln_model* model);
KILN_C_API kiln_status* kiln_model_update(kiln_model* model, const char* name,
                                          const kiln_tensor* value);

/* How a run is told to stop: it is looked at between launches. */
typedef struct kiln_cancel kiln_cancel;
KILN_C_API kiln_cancel* kiln_cancel_new(void); /* NULL: no memory */
KILN_C_API void kiln_cancel_set(kiln_cancel* cancel);
KILN_C_API void kiln_cancel_free(kiln_cancel* cancel);
typedef struct kiln_run_control {
  size_t struct_size;
  const kiln_cancel* cancel; /* NULL: nobody cancels */
  int64_t timeout_us;        /* from the call on; 0: none */
  void* stream;              /* cudaStream_t to run in, or NULL (RunControl::stream) */
} kiln_run_control;
static inline kiln_run_control kiln_run_control_default(void) {
  kiln_run_control options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  return options;
}

/* Runs once. `inputs` has a tensor for each input in order, NULL for an optional one that is
 * absent; `outputs`, as many as there are, gets new tensors. */
KILN_C_API kiln_status* kiln_model_run(kiln_model* model, const kiln_tensor* const* inputs,
                                       size_t num_inputs, const kiln_run_control* control,
                                       kiln_tensor** outputs, size_t num_outputs);
/* The same on another thread: returns at once; `done` is called once, with tensors that are its to
 * free, in an array for the call only, or with a status that is its to free. */
typedef void (*kiln_done_fn)(void* user, kiln_status* status, kiln_tensor** outputs,
                             size_t num_outputs);
KILN_C_API kiln_status* kiln_model_run_async(kiln_model* model, const kiln_tensor* const* inputs,
                                             size_t num_inputs, const kiln_run_control* control,
                                             kiln_done_fn done, void* user);

/* The shape of one input. */
typedef struct kiln_shape {
  const char* input;
  size_t rank;
  const int64_t* extents;
} kiln_shape;
KILN_C_API kiln_status* kiln_model_prepare(kiln_model* model, const kiln_shape* shapes,
                                           size_t num_shapes);
/* The extents of an output, at most `capacity` of them written; *rank says how many there are. */
KILN_C_API kiln_status* kiln_model_output_shape(kiln_model* model, const kiln_shape* shapes,
                                                size_t num_shapes, size_t output, int64_t* extents,
                                                size_t capacity, size_t* rank);

typedef struct kiln_memory {
  size_t struct_size;
  int64_t constants, arenas, copies, outputs, states, plans, plan_bytes, idle_contexts, idle_bytes;
  int64_t device_arenas, device_constants; /* in memory of the runtime's device */
} kiln_memory;
KILN_C_API void kiln_model_memory(const kiln_model* model, kiln_memory* out);
KILN_C_API void kiln_model_trim(kiln_model* model);

/* Never NULL where there is memory for a handle. */
KILN_C_API kiln_context* kiln_context_new(kiln_model* model);
KILN_C_API void kiln_context_free(kiln_context* context);
/* The memory of a bound tensor must live until it is replaced or the context goes; the handle may
 * be freed at once. */
KILN_C_API kiln_status* kiln_context_bind(kiln_context* context, size_t input,
                                          const kiln_tensor* tensor);
KILN_C_API kiln_status* kiln_context_bind_parts(kiln_context* context, const char* input,
                                                const kiln_tensor* const* parts, size_t num_parts);
KILN_C_API kiln_status* kiln_context_bind_output(kiln_context* context, size_t output,
                                                 const kiln_tensor* tensor);
KILN_C_API kiln_status* kiln_context_set_outputs(kiln_context* context, const char* const* names,
                                                 size_t num_names);
KILN_C_API kiln_status* kiln_context_set_arena(kiln_context* context, void* memory, int64_t bytes);
KILN_C_API kiln_status* kiln_context_run(kiln_context* context, const kiln_run_control* control);
/* A view, valid until the next run. */
KILN_C_API kiln_status* kiln_context_output(const kiln_context* context, size_t output,
                                            kiln_tensor** out);
KILN_C_API kiln_status* kiln_context_state(const kiln_context* context, const char* input,
                                           kiln_tensor** out);
KILN_C_API kiln_status* kiln_context_set_state(kiln_context* context, const char* input,
                                               const kiln_tensor* value);
KILN_C_API kiln_status* kiln_context_reset_states(kiln_context* context);
KILN_C_API void kiln_context_trim(kiln_context* context);

typedef struct kiln_plan_report {
  size_t struct_size;
  int64_t arena, lower_bound, sum, constants;
  int64_t kernel_launches, library_launches, other_launches, vm_launches, bytes_moved;
} kiln_plan_report;
KILN_C_API void kiln_context_report(const kiln_context* context, kiln_plan_report* out);

/* Runs once with a clock around every launch, and tells each. */
typedef struct kiln_launch_time {
  size_t struct_size;
  const char* kind;
  const char* name;
  double ms;
  int64_t bytes;
  int32_t vm;
} kiln_launch_time;
typedef void (*kiln_profile_fn)(void* user, const kiln_launch_time* launch);
KILN_C_API kiln_status* kiln_context_profile(kiln_context* context, kiln_profile_fn tell,
                                             void* user);

/* ---- The compiler: libkiln.so alone (kiln/compile.h, kiln/options.h, kiln/graph.h). */

typedef enum kiln_compile_mode {
  KILN_COMPILE_BLOCK = 0,      /* kernels are compiled before the first run */
  KILN_COMPILE_BACKGROUND = 1, /* while the model runs on the VM */
  KILN_COMPILE_NEVER = 2
} kiln_compile_mode;
typedef enum kiln_schedule_choice {
  KILN_SCHEDULE_HEURISTIC = 0,
  KILN_SCHEDULE_PROFILE = 1,
  KILN_SCHEDULE_REPRODUCIBLE = 2
} kiln_schedule_choice;

typedef struct kiln_compile_options {
  size_t struct_size;
  const kiln_run_options* run; /* NULL: all defaults */
  int32_t graph_opt_level;     /* 0 to 3 */
  int32_t jit_level;           /* 0 to 2 */
  kiln_compile_mode compile_mode;
  kiln_schedule_choice schedule_choice;
  const kiln_cache* cache; /* NULL: that of the runtime, or of the environment */
  int32_t no_cache;
  const char* codegen;   /* path of kiln-codegen; NULL: looked for */
  const char* validator; /* path of kiln-validate; NULL: looked for */
  const char* target;    /* "x86-64-v3"; NULL: this machine's */
  int32_t build_jobs;
  uint32_t kernel_timeout_ms; /* for building one kernel */
  uint32_t kernel_cpu_ms;     /* of processor time for that; 0: no limit */
  int64_t max_weight_bytes;
  int32_t follow_links;         /* to external data */
  const char* const* updatable; /* names of constants */
  size_t num_updatable;
  const kiln_shape* const_shapes;
  size_t num_const_shapes;
  const char* const* disabled_passes;
  size_t num_disabled_passes;
  const char* const* no_fuse; /* names of nodes */
  size_t num_no_fuse;
} kiln_compile_options;
static inline kiln_compile_options kiln_compile_options_default(void) {
  kiln_compile_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.graph_opt_level = 3;
  options.jit_level = 2;
  options.kernel_timeout_ms = 30000;
  options.kernel_cpu_ms = 4000;
  options.max_weight_bytes = (int64_t)4 << 30;
  return options;
}

KILN_C_API kiln_status* kiln_compile(const char* path, const kiln_compile_options* options,
                                     kiln_model** out);
/* A model file in memory. `release` is called when no model needs `data` any more, which is read
 * where it lies, and after an error; NULL: it is copied. `name` is what messages call it, and its end tells the form
 * (".graph", ".kiln", else ONNX); `folder` is where external data lie, or NULL. */
KILN_C_API kiln_status* kiln_compile_bytes(const void* data, size_t size, const char* name,
                                           const char* folder, kiln_release_fn release, void* user,
                                           const kiln_compile_options* options, kiln_model** out);
KILN_C_API kiln_status* kiln_compile_descriptor(int descriptor, const char* name,
                                                const char* folder,
                                                const kiln_compile_options* options,
                                                kiln_model** out);

/* What a model takes and gives, without compiling it. */
typedef struct kiln_description kiln_description;
KILN_C_API kiln_status* kiln_describe(const char* path, kiln_description** out);
KILN_C_API const char* kiln_description_form(const kiln_description* description);
KILN_C_API size_t kiln_description_num_inputs(const kiln_description* description);
KILN_C_API size_t kiln_description_num_outputs(const kiln_description* description);
KILN_C_API size_t kiln_description_num_unsupported(const kiln_description* description);
KILN_C_API kiln_status* kiln_description_input(const kiln_description* description, size_t index,
                                               kiln_port* out);
KILN_C_API kiln_status* kiln_description_output(const kiln_description* description, size_t index,
                                                kiln_port* out);
KILN_C_API const char* kiln_description_unsupported(const kiln_description* description,
                                                    size_t index); /* NULL: no such one */
KILN_C_API void kiln_description_free(kiln_description* description);

/* A graph made call by call. Errors are kept: kiln_builder_compile tells the first. */
typedef struct kiln_builder kiln_builder;
typedef int32_t kiln_value; /* -1: absent, or after an error */
typedef enum kiln_attr_kind {
  KILN_ATTR_INT = 0,
  KILN_ATTR_FLOAT = 1,
  KILN_ATTR_STRING = 2,
  KILN_ATTR_INTS = 3,
  KILN_ATTR_FLOATS = 4,
  KILN_ATTR_DTYPE = 5,
  KILN_ATTR_TENSOR = 6,
  KILN_ATTR_BODY = 7
} kiln_attr_kind;
typedef struct kiln_attr {
  const char* name;
  kiln_attr_kind kind;
  int64_t i; /* KILN_ATTR_INT, KILN_ATTR_DTYPE */
  double f;
  const char* s;
  const int64_t* ints;
  const double* floats;
  size_t count; /* of ints or floats */
  const kiln_tensor* tensor;
  kiln_builder* body; /* its graph is taken over: it can only be freed then */
} kiln_attr;
KILN_C_API kiln_builder* kiln_builder_new(const char* name); /* NULL: no memory */
KILN_C_API void kiln_builder_free(kiln_builder* builder);
/* Extents as text: "64", "batch", "2*seq". */
KILN_C_API kiln_value kiln_builder_input(kiln_builder* builder, const char* name, kiln_dtype type,
                                         const char* const* dims, size_t rank);
KILN_C_API kiln_value kiln_builder_constant(kiln_builder* builder, const kiln_tensor* tensor,
                                            const char* name);
KILN_C_API kiln_value kiln_builder_scalar(kiln_builder* builder, kiln_dtype type, double value);
/* The number of outputs; at most `capacity` of them are written to `out`. 0 after an error. */
KILN_C_API size_t kiln_builder_op(kiln_builder* builder, const char* op, const kiln_value* inputs,
                                  size_t num_inputs, const kiln_attr* attrs, size_t num_attrs,
                                  const char* name, kiln_value* out, size_t capacity);
KILN_C_API void kiln_builder_output(kiln_builder* builder, kiln_value value, const char* name);
KILN_C_API kiln_status* kiln_builder_status(const kiln_builder* builder);
/* Takes the graph over: the builder can only be freed then. */
KILN_C_API kiln_status* kiln_builder_compile(kiln_builder* builder,
                                             const kiln_compile_options* options, kiln_model** out);

#ifdef __cplusplus
}
#endif

#endif /* KILN_KILN_H_ */
