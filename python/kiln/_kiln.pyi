"""Kiln's C++ interface; import kiln."""

from collections.abc import Mapping, Sequence


# SPDX-License-Identifier: Apache-2.0
# Made by tests/python/stub_test.py --write.
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias
#: NumPy's arrays, PyTorch's tensors, and whatever else has a buffer or __dlpack__.
ArrayLike: TypeAlias = Any

def log_to(write: Callable[[int, str], None] | None) -> None: ...

def set_log_level(level: str) -> None:
    """
    'debug', 'info', 'warning', 'error' or 'off'; at first KILN_LOG, or 'warning'.
    """

class Tensor:
    """
    A view of memory with an element type, a shape and strides.

    It has the buffer protocol and DLPack, so numpy.asarray(t) and torch.from_dlpack(t) are views too.
    """

    def __init__(self, array: object) -> None:
        """A view of an array of any library."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""

    @property
    def dtype(self) -> str: ...

    @property
    def nbytes(self) -> int: ...

    def numpy(self) -> Any:
        """The same memory as an array of NumPy."""

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Any: ...

    def __dlpack__(self, *, stream: object = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...

    def __repr__(self) -> str: ...

def empty(shape: int | Sequence[int], dtype: str = 'float32') -> Tensor:
    """New memory, dense, aligned to 64 bytes and not initialised."""

class Port:
    """An input or output as the model declares it."""

    @property
    def name(self) -> str: ...

    @property
    def dtype(self) -> str:
        """NumPy's name of it: 'float32', 'int64', 'bfloat16'."""

    @property
    def shape(self) -> tuple[int | str, ...] | None:
        """Numbers, and expressions over symbols; None: a run tells."""

    @property
    def optional(self) -> bool: ...

    def __repr__(self) -> str: ...

class Launch:
    """Time of one launch of a profiled run."""

    @property
    def kind(self) -> str:
        """'kernel', 'library', 'copy' or 'host'."""

    @property
    def name(self) -> str:
        """The user's nodes."""

    @property
    def ms(self) -> float: ...

    @property
    def bytes(self) -> int:
        """Read and written."""

    @property
    def vm(self) -> bool:
        """Whether the VM ran it."""

    def __repr__(self) -> str: ...

class Cache:
    """A kernel cache that a program opens for itself: CompileOptions.cache."""

    def __init__(self, directory: str | None = None, *, read_only: bool = False, max_bytes: int = 2147483648, packs: Sequence[str] = [], trust_unsigned: bool = False, shared_directory: str = '', on_event: object | None = None) -> None:
        """
        on_event(kind, key, target, wall_ms) is called for each event, soon after it; kind is 'hit', 'miss', 'published', 'not_published', 'damaged' or 'evicted'.
        """

    @property
    def directory(self) -> str: ...

    @property
    def read_only(self) -> bool: ...

    def counters(self) -> dict[str, int]:
        """Counts since it was opened: hits, misses, published and so on."""

class Runtime:
    """
    What models share: threads, memory budgets, the cache, compiled kernels.
    """

    def __init__(self, *, threads: int = 0, spin_us: int = 1000, memory_budget: int = 0, idle_budget: int = 0, build_jobs: int = 0, cache: Cache | None = None, device: str = '', require_device: bool = False) -> None: ...

    @staticmethod
    def default() -> Runtime:
        """The process's."""

    @property
    def threads(self) -> int: ...

    def metrics(self) -> dict[str, int]:
        """Counts since it was made, and bytes now."""

    def maintain(self) -> None:
        """
        Does now what is never done on a caller's thread: prunes the cache, and so on.
        """

class RunOptions:
    """How a model runs. Names are those of kiln/model.h."""

    def __init__(self) -> None: ...

    @property
    def threads(self) -> int:
        """
        Hard cap of the model, however many callers it has; 0: the CPUs of this process.
        """

    @threads.setter
    def threads(self, arg: int, /) -> None: ...

    @property
    def runtime(self) -> Runtime | None:
        """Whose threads, memory and budgets are used; None: the process's."""

    @runtime.setter
    def runtime(self, arg: Runtime | None, /) -> None: ...

    @property
    def workspace_limit(self) -> int:
        """Bytes beside its operands that a launch may take; 0: no limit."""

    @workspace_limit.setter
    def workspace_limit(self, arg: int, /) -> None: ...

    @property
    def states(self) -> list[tuple[str, str]]:
        """
        Pairs of an input and the output that is its next value: a context keeps them.
        """

    @states.setter
    def states(self, arg: Sequence[tuple[str, str]], /) -> None: ...

    @property
    def temporaries(self) -> str:
        """'planned', 'separate' or 'allocated': where temporaries lie."""

    @temporaries.setter
    def temporaries(self, arg: str, /) -> None: ...

    @property
    def output_memory(self) -> str:
        """
        'fresh': new memory for outputs that nobody has bound; 'bound': an error.
        """

    @output_memory.setter
    def output_memory(self, arg: str, /) -> None: ...

    @property
    def check_first_run(self) -> bool:
        """Each plan is verified before its first run."""

    @check_first_run.setter
    def check_first_run(self, arg: bool, /) -> None: ...

    @property
    def batch_invariant(self) -> bool:
        """Each sample of a batch has the bits that it has alone."""

    @batch_invariant.setter
    def batch_invariant(self, arg: bool, /) -> None: ...

    @property
    def record_level(self) -> int:
        """
        1: the first shapes are the only ones; 2: and what made plans is given up.
        """

    @record_level.setter
    def record_level(self, arg: int, /) -> None: ...

    def __copy__(self) -> RunOptions: ...

class CompileOptions(RunOptions):
    """How a model is compiled, and runs. Names are those of kiln/options.h."""

    def __init__(self) -> None: ...

    @property
    def graph_opt_level(self) -> int:
        """0 to 3."""

    @graph_opt_level.setter
    def graph_opt_level(self, arg: int, /) -> None: ...

    @property
    def jit_level(self) -> int:
        """0: no fusion, 1: element-wise groups, 2: and reductions."""

    @jit_level.setter
    def jit_level(self, arg: int, /) -> None: ...

    @property
    def math(self) -> str:
        """'strict' or 'fast'."""

    @math.setter
    def math(self, arg: str, /) -> None: ...

    @property
    def compile_mode(self) -> str:
        """When kernels are built: 'block', 'background' or 'never'."""

    @compile_mode.setter
    def compile_mode(self, arg: str, /) -> None: ...

    @property
    def cache(self) -> Cache | str | Literal[False] | None:
        """
        None: the environment's; False: none at all; a directory; or a kiln.Cache.
        """

    @cache.setter
    def cache(self, value: Cache | str | PathLike[str] | Literal[False] | None, /) -> None: ...

    @property
    def cache_read_only(self) -> bool:
        """The cache is looked into and never written."""

    @cache_read_only.setter
    def cache_read_only(self, arg: bool, /) -> None: ...

    @property
    def codegen(self) -> str:
        """Path of kiln-codegen; '': looked for."""

    @codegen.setter
    def codegen(self, arg: str, /) -> None: ...

    @property
    def validator(self) -> str:
        """Path of kiln-validate; '': looked for."""

    @validator.setter
    def validator(self, arg: str, /) -> None: ...

    @property
    def target(self) -> str:
        """'x86-64-v3' or the like: this machine's at first."""

    @target.setter
    def target(self, arg: str, /) -> None: ...

    @property
    def build_jobs(self) -> int:
        """Kernels built at once; 0: by CPUs."""

    @build_jobs.setter
    def build_jobs(self, arg: int, /) -> None: ...

    @property
    def kernel_timeout_ms(self) -> int:
        """For building one kernel."""

    @kernel_timeout_ms.setter
    def kernel_timeout_ms(self, arg: int, /) -> None: ...

    @property
    def kernel_cpu_ms(self) -> int:
        """Processor time for building one kernel; 0: no limit."""

    @kernel_cpu_ms.setter
    def kernel_cpu_ms(self, arg: int, /) -> None: ...

    @property
    def max_weight_bytes(self) -> int:
        """A model whose constants have more is refused."""

    @max_weight_bytes.setter
    def max_weight_bytes(self, arg: int, /) -> None: ...

    @property
    def external_data_links(self) -> str:
        """'refuse' or 'follow': links on the way to external data."""

    @external_data_links.setter
    def external_data_links(self, arg: str, /) -> None: ...

    @property
    def updatable(self) -> list[str]:
        """Names of constants that Model.update may replace."""

    @updatable.setter
    def updatable(self, arg: Sequence[str], /) -> None: ...

    @property
    def const_shapes(self) -> dict[str, tuple[int, ...]]:
        """Inputs that always have these shapes."""

    @const_shapes.setter
    def const_shapes(self, value: Mapping[str, int | Sequence[int]], /) -> None: ...

    @property
    def disabled_passes(self) -> list[str]: ...

    @disabled_passes.setter
    def disabled_passes(self, arg: Sequence[str], /) -> None: ...

    @property
    def no_fuse(self) -> list[str]:
        """Names of nodes that join no kernel."""

    @no_fuse.setter
    def no_fuse(self, arg: Sequence[str], /) -> None: ...

    @property
    def schedule_choice(self) -> str:
        """
        'heuristic', 'profile' (measure first) or 'reproducible' (by price alone).
        """

    @schedule_choice.setter
    def schedule_choice(self, arg: str, /) -> None: ...

    @property
    def tune_at(self) -> dict[str, int]:
        """Values of the model's symbols for which 'profile' measures."""

    @tune_at.setter
    def tune_at(self, arg: Mapping[str, int], /) -> None: ...

    def __copy__(self) -> CompileOptions: ...

class Context:
    """One caller's buffers: what is bound stays bound, states are kept."""

    def bind(self, input: str, array: ArrayLike) -> None:
        """The array is read where it lies by every run, and held."""

    def bind_parts(self, input: str, arrays: Sequence[ArrayLike]) -> None:
        """The input is the concatenation of the arrays along its first dim."""

    def bind_output(self, output: str, array: ArrayLike) -> None:
        """The output is written into the array, which is held."""

    def set_outputs(self, names: Sequence[str]) -> None:
        """Only these outputs are computed from now on; none named: all."""

    def run(self, *, timeout: float | None = None, cancel: Cancel | None = None) -> None: ...

    def __call__(self, **inputs: ArrayLike) -> dict[str, Any]:
        """Binds the inputs, runs, and returns the outputs by name."""

    def output(self, name: str) -> Any:
        """The last run's output, without a copy."""

    def state(self, input: str) -> Any:
        """A copy of what the next run reads."""

    def set_state(self, input: str, value: ArrayLike) -> None:
        """Copies."""

    def reset_states(self) -> None:
        """As they were at the beginning."""

    def report(self) -> dict[str, int]:
        """Of the last run's plan: memory in bytes, and launches."""

    def profile(self) -> list[Launch]:
        """Runs once with a clock around every launch."""

    def trim(self) -> None:
        """Gives back all memory but that of states."""

class Cancel:
    """Tells runs that were given it to stop."""

    def __init__(self) -> None: ...

    def set(self) -> None:
        """From any thread."""

    @property
    def is_set(self) -> bool: ...

class Model:
    """A model ready to run, by any number of threads at once."""

    @property
    def inputs(self) -> list[Port]: ...

    @property
    def outputs(self) -> list[Port]: ...

    @property
    def updatable(self) -> list[Port]:
        """Constants that update() may replace."""

    @property
    def threads(self) -> int: ...

    def __call__(self, *args: ArrayLike, **inputs: ArrayLike) -> Any:
        """
        Runs once, with inputs by place or by name. The array of the output, or a tuple where there are several; torch tensors where an input is one. `out`, an array, a list or a dict, says where outputs are written.
        """

    def run(self, inputs: dict[str, ArrayLike], *, out: ArrayLike | Sequence[ArrayLike | None] | dict[str, ArrayLike] | None = None, timeout: float | None = None, cancel: Cancel | None = None) -> dict[str, Any]:
        """
        Runs once; arrays by name. It stops after `timeout` seconds, or when `cancel` is set.
        """

    def prepare(self, **shapes: int | Sequence[int]) -> None:
        """Compiles and plans for inputs of these shapes, so that no run has to."""

    def output_shapes(self, **shapes: int | Sequence[int]) -> dict[str, tuple[int, ...]]:
        """Shapes of the outputs for inputs of these shapes."""

    def update(self, name: str, value: ArrayLike) -> None:
        """
        Copies `value` in place of an updatable constant; runs that begin later read it.
        """

    def memory(self) -> dict[str, int]:
        """Where the bytes of the model are."""

    def trim(self) -> None:
        """Gives back the memory of what does not run, and plans but the newest."""

    def profile(self, *args: ArrayLike, **inputs: ArrayLike) -> list[Launch]:
        """Runs twice, the second time with a clock around every launch."""

    def context(self) -> Context:
        """Buffers of one caller, with bound inputs and outputs, and states."""

    def __repr__(self) -> str: ...

class Description:
    """What a model takes and gives."""

    @property
    def inputs(self) -> list[Port]: ...

    @property
    def outputs(self) -> list[Port]: ...

    @property
    def form(self) -> str:
        """'onnx', 'graph' or 'package'."""

    @property
    def unsupported(self) -> list[str]:
        """Operators that compile() refuses."""

def compile(model: Any, options: CompileOptions, name: str, folder: str) -> Model: ...

def load(path: str, options: RunOptions, validate: bool) -> Model: ...

def describe(model: object, name: str, folder: str) -> Description: ...

class Trainer:
    """What kiln.Trainer is made of."""

    def __init__(self, model: Any, compile: CompileOptions, name: str, folder: str, loss: str, optimizer: str, schedule: str, lr: float, more: dict[str, Any]) -> None: ...

    @property
    def inputs(self) -> list[Port]:
        """Of a step: the model's, and labels."""

    @property
    def outputs(self) -> list[Port]: ...

    @property
    def parameters(self) -> list[Port]:
        """What is trained."""

    @property
    def statistics(self) -> list[Port]:
        """Running means and variances."""

    @property
    def steps(self) -> int:
        """Steps so far."""

    @property
    def learning_rate(self) -> float:
        """Of the next step."""

    def step(self, **inputs: ArrayLike) -> float:
        """One update by this batch; the loss before it."""

    def evaluate(self, **inputs: ArrayLike) -> tuple[float, dict[str, Any]]:
        """Loss and outputs of the model in its form for inference."""

    def run(self, **inputs: ArrayLike) -> dict[str, Any]:
        """The outputs alone; there are no labels."""

    def parameter(self, name: str) -> Any:
        """A copy of a parameter or statistic."""

    def set_parameter(self, name: str, value: ArrayLike) -> None:
        """Copies `value` into a parameter or statistic."""

    def set_schedule(self, schedule: str, lr: float) -> None:
        """Another schedule; its steps count from the trainer's first."""

    def save(self, path: str | PathLike[str], metadata: dict[str, str] = {}) -> None:
        """Everything that later steps depend on, in a safetensors file."""

    def load(self, path: str | PathLike[str]) -> dict[str, str]:
        """The other way; gives the metadata."""

    def export_onnx(self, path: str | PathLike[str]) -> None:
        """The model for inference with the parameters as they are."""

class Array:
    """
    A value with operators. What it is computed of is recorded, and is computed in one program when the value is read.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> str: ...

    @property
    def ndim(self) -> int: ...

    @property
    def size(self) -> int: ...

    def __len__(self) -> int: ...

    def __repr__(self) -> str: ...

    __hash__: None  # type: ignore[assignment]

    def __add__(self, other: object, /) -> Array: ...

    def __radd__(self, other: object, /) -> Array: ...

    def __sub__(self, other: object, /) -> Array: ...

    def __rsub__(self, other: object, /) -> Array: ...

    def __mul__(self, other: object, /) -> Array: ...

    def __rmul__(self, other: object, /) -> Array: ...

    def __truediv__(self, other: object, /) -> Array: ...

    def __rtruediv__(self, other: object, /) -> Array: ...

    def __mod__(self, other: object, /) -> Array: ...

    def __rmod__(self, other: object, /) -> Array: ...

    def __pow__(self, other: object, /) -> Array: ...

    def __rpow__(self, other: object, /) -> Array: ...

    def __matmul__(self, other: object, /) -> Array: ...

    def __rmatmul__(self, other: object, /) -> Array: ...

    def __and__(self, other: object, /) -> Array: ...

    def __rand__(self, other: object, /) -> Array: ...

    def __or__(self, other: object, /) -> Array: ...

    def __ror__(self, other: object, /) -> Array: ...

    def __xor__(self, other: object, /) -> Array: ...

    def __rxor__(self, other: object, /) -> Array: ...

    def __lt__(self, other: object, /) -> Array: ...

    def __le__(self, other: object, /) -> Array: ...

    def __gt__(self, other: object, /) -> Array: ...

    def __ge__(self, other: object, /) -> Array: ...

    def __eq__(self, other: object, /) -> Any: ...

    def __ne__(self, other: object, /) -> Any: ...

    def __neg__(self) -> Array: ...

    def __abs__(self) -> Array: ...

    def __invert__(self) -> Array: ...

    def eval(self) -> Array:
        """Runs what the array is computed of; the array."""

    def item(self) -> Any:
        """The one element. A read."""

    def numpy(self) -> Any:
        """The elements as a read-only array of NumPy. A read."""

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Any: ...

    def __dlpack__(self, **how: Any) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...

    def __float__(self) -> float: ...

    def __int__(self) -> int: ...

    def __bool__(self) -> bool: ...

    def __getitem__(self, key: Any, /) -> Array: ...

    def __array_ufunc__(self, function: Any, method: str, *operands: Any, **settings: Any) -> Any: ...

    def __array_function__(self, function: Any, types: Any, arguments: Any, named: Any, /) -> Any: ...

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, **more: None) -> Array: ...

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, **more: None) -> Array: ...

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, **more: None) -> Array: ...

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, **more: None) -> Array: ...

def array(object: object, dtype: object = None, *, copy: bool = True) -> Array:
    """
    An array of the elements of any array, or of what NumPy makes one of. Without `copy` it is over that memory: what is written there is seen by runs that begin later.
    """

def apply(name: str, operands: tuple[object, ...], attributes: dict[str, Any], types: dict[str, str | None], results: int) -> Any:
    """
    One call of an operator, by its name; kiln.ops has a function for each.
    """

class OptimizeForInference:
    """Simplifications of a dump. Names are those of kiln/trace_dump.h."""

    def __init__(self, *, enable_io16xc32: bool = False, enable_ioc16: bool = False, layout: str = '', fuse_conv_bias_nonlinearity: bool = False, fuse_conv_bias_with_z: bool = False, fuse_preprocess: bool = False) -> None: ...

    @property
    def enable_io16xc32(self) -> bool:
        """
        Floats between operations, and results, become f16; each computes in f32.
        """

    @enable_io16xc32.setter
    def enable_io16xc32(self, arg: bool, /) -> None: ...

    @property
    def enable_ioc16(self) -> bool:
        """Not there: an error."""

    @enable_ioc16.setter
    def enable_ioc16(self, arg: bool, /) -> None: ...

    @property
    def layout(self) -> str:
        """Of activations, in a package: 'nhwc', 'nchw'; '': as is."""

    @layout.setter
    def layout(self, arg: str, /) -> None: ...

    @property
    def fuse_conv_bias_nonlinearity(self) -> bool: ...

    @fuse_conv_bias_nonlinearity.setter
    def fuse_conv_bias_nonlinearity(self, arg: bool, /) -> None: ...

    @property
    def fuse_conv_bias_with_z(self) -> bool: ...

    @fuse_conv_bias_with_z.setter
    def fuse_conv_bias_with_z(self, arg: bool, /) -> None: ...

    @property
    def fuse_preprocess(self) -> bool: ...

    @fuse_preprocess.setter
    def fuse_preprocess(self, arg: bool, /) -> None: ...

class DumpOptions:
    """
    What a traced function is written as. Names are those of kiln/trace_dump.h.
    """

    def __init__(self) -> None: ...

    @property
    def arg_names(self) -> list[str]:
        """Of arguments, in their order."""

    @arg_names.setter
    def arg_names(self, arg: Sequence[str], /) -> None: ...

    @property
    def output_names(self) -> list[str]:
        """Of results, in their order."""

    @output_names.setter
    def output_names(self, arg: Sequence[str], /) -> None: ...

    @property
    def append(self) -> bool:
        """Not there: an error."""

    @append.setter
    def append(self, arg: bool, /) -> None: ...

    @property
    def keep_var_name(self) -> int:
        """
        Which names values have: 0, of arguments; 1, and of results; 2, of all.
        """

    @keep_var_name.setter
    def keep_var_name(self, arg: int, /) -> None: ...

    @property
    def keep_opr_name(self) -> bool:
        """Operations are called after operator and line."""

    @keep_opr_name.setter
    def keep_opr_name(self, arg: bool, /) -> None: ...

    @property
    def keep_param_name(self) -> bool:
        """Captured arrays are 'param_0' and so on."""

    @keep_param_name.setter
    def keep_param_name(self, arg: bool, /) -> None: ...

    @property
    def optimize_for_inference(self) -> OptimizeForInference | None:
        """
        True: what is exact is simplified; more as an OptimizeForInference says.
        """

    @optimize_for_inference.setter
    def optimize_for_inference(self, value: OptimizeForInference | bool | None, /) -> None: ...

    @property
    def input_data(self) -> list[str]:
        """Test cases of a package: 'x:x.npy', '#rand(0, 1)'."""

    @input_data.setter
    def input_data(self, arg: Sequence[str], /) -> None: ...

    @property
    def resize_input(self) -> bool:
        """What files hold is resized to the argument's extents."""

    @resize_input.setter
    def resize_input(self, arg: bool, /) -> None: ...

    @property
    def repeat(self) -> int:
        """And stands so often behind itself."""

    @repeat.setter
    def repeat(self, arg: int, /) -> None: ...

    @property
    def input_transform(self) -> str:
        """And is an expression over `data`."""

    @input_transform.setter
    def input_transform(self, arg: str, /) -> None: ...

    @property
    def maxerr(self) -> float:
        """Of floats, absolute and relative."""

    @maxerr.setter
    def maxerr(self, arg: float, /) -> None: ...

    @property
    def silent(self) -> bool:
        """The self-test says nothing of cases that are right."""

    @silent.setter
    def silent(self, arg: bool, /) -> None: ...

    @property
    def no_assert(self) -> bool:
        """It runs them, and compares nothing."""

    @no_assert.setter
    def no_assert(self, arg: bool, /) -> None: ...

    @property
    def strip_info_file(self) -> str:
        """A JSON file with operators and types of the model."""

    @strip_info_file.setter
    def strip_info_file(self, arg: str, /) -> None: ...

    @property
    def append_json(self) -> bool:
        """As a further model of that file."""

    @append_json.setter
    def append_json(self, arg: bool, /) -> None: ...

    @property
    def user_info(self) -> str:
        """A text, stored in the file."""

    @user_info.setter
    def user_info(self, arg: str, /) -> None: ...

    @property
    def metadata(self) -> list[tuple[str, str]]:
        """Pairs of texts, stored in the file."""

    @metadata.setter
    def metadata(self, arg: Sequence[tuple[str, str]], /) -> None: ...

    @property
    def model_version(self) -> int: ...

    @model_version.setter
    def model_version(self, arg: int, /) -> None: ...

    def __copy__(self) -> DumpOptions: ...

class DumpInfo:
    """What a dump has written."""

    @property
    def operations(self) -> int:
        """Of the model."""

    @property
    def bytes(self) -> int:
        """Of the file."""

    @property
    def kernels(self) -> int:
        """Of a package."""

    @property
    def on_vm(self) -> int:
        """Of these, those without code."""

    @property
    def inputs(self) -> list[str]: ...

    @property
    def outputs(self) -> list[str]: ...

    @property
    def parameters(self) -> list[str]: ...

    def __repr__(self) -> str: ...

class Trace:
    """What kiln.trace is made of."""

    def __init__(self, name: str, symbolic: bool, capture_as_const: bool, record_only: bool, symbolic_shape: bool, profiling: bool, compile: CompileOptions, frozen: bool) -> None: ...

    def call(self, function: Callable[..., Any], arguments: tuple[object, ...]) -> Any: ...

    @property
    def stats(self) -> dict[str, int]: ...

    def profile(self) -> str: ...

    def dump(self, file: str, options: DumpOptions) -> DumpInfo: ...

    def forget(self) -> None: ...

def differentiate(function: Callable[..., Any], arguments: tuple[object, ...], by: Sequence[int], with_values: bool) -> tuple[Any, tuple[Array, ...]]:
    """What kiln.grad and kiln.value_and_grad are made of."""

class Excluded:
    """A region that is left out of the trace it is in; also outside of one."""

    def __init__(self) -> None: ...

    def __enter__(self) -> Excluded: ...

    def __exit__(self, *error: object) -> None: ...

def set_lazy_options(options: CompileOptions) -> None: ...

def lazy_stats() -> dict[str, int]:
    """
    Of the calling thread: operations, runs, structures, compiled, loop_flushes.
    """

version: str

target: str
