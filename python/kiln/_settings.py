# SPDX-License-Identifier: Apache-2.0
"""The attributes of RunOptions, CompileOptions and DumpOptions as keywords, with their types."""
import copy
import difflib
from collections.abc import Sequence
from typing import Literal, TypedDict, TypeVar

from kiln import _errors, _kiln, _tree


class RunSettings(TypedDict, total=False):
    threads: int
    runtime: _kiln.Runtime | None
    workspace_limit: int
    states: Sequence[tuple[str, str]]
    temporaries: Literal["planned", "separate", "allocated"]
    output_memory: Literal["fresh", "bound"]
    check_first_run: bool
    batch_invariant: bool
    record_level: int


class CompileSettings(RunSettings, total=False):
    graph_opt_level: int
    jit_level: int
    math: Literal["strict", "fast"]
    compile_mode: Literal["block", "background", "never"]
    cache: "_kiln.Cache | str | Literal[False] | None"
    cache_read_only: bool
    codegen: str
    validator: str
    target: str
    build_jobs: int
    kernel_timeout_ms: int
    kernel_cpu_ms: int
    max_weight_bytes: int
    external_data_links: Literal["refuse", "follow"]
    updatable: Sequence[str]
    const_shapes: dict[str, Sequence[int]]
    disabled_passes: Sequence[str]
    no_fuse: Sequence[str]
    schedule_choice: Literal["heuristic", "profile", "reproducible"]
    tune_at: dict[str, int]


class DumpSettings(TypedDict, total=False):
    arg_names: Sequence[str]
    output_names: Sequence[str]
    append: bool
    keep_var_name: Literal[0, 1, 2]
    keep_opr_name: bool
    keep_param_name: bool
    optimize_for_inference: _kiln.OptimizeForInference | bool | None
    input_data: Sequence[str]
    resize_input: bool
    repeat: int
    input_transform: str
    maxerr: float
    silent: bool
    no_assert: bool
    strip_info_file: str
    append_json: bool
    user_info: str
    metadata: Sequence[tuple[str, str]]
    model_version: int


Options = TypeVar("Options", _kiln.RunOptions, _kiln.CompileOptions, _kiln.DumpOptions)


def applied(options: Options, settings: object, names: type) -> Options:
    """A copy of the options with these settings."""
    made = copy.copy(options)
    known = names.__annotations__
    assert isinstance(settings, dict)
    for name, value in settings.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f'did you mean "{near[0]}"?' if near else f"see kiln.{type(options).__name__}"
            raise TypeError(f'option "{name}": there is none of that name; {hint}')
        try:
            setattr(made, name, value)
        except TypeError:
            raise _errors.InvalidArgumentError(f'option "{name}": is {value!r}, expected {known[name]}') from None
    return made


def with_helpers(options: _kiln.CompileOptions) -> _kiln.CompileOptions:
    """Those of this wheel, where the options name no others."""
    options.codegen = options.codegen or _tree.helper("kiln-codegen", "KILN_CODEGEN")
    options.validator = options.validator or _tree.helper("kiln-validate", "KILN_VALIDATE")
    return options
