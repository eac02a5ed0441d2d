# SPDX-License-Identifier: Apache-2.0
"""The attributes of RunOptions and CompileOptions as keywords, with their types."""
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


Options = TypeVar("Options", _kiln.RunOptions, _kiln.CompileOptions)


def applied(options: Options, settings: object, names: type) -> Options:
    """A copy of the options with these settings."""
    made = copy.copy(options)
    known = names.__annotations__
    assert isinstance(settings, dict)
    for name, value in settings.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f'did you mean "{near[0]}"?' if near else "see kiln.CompileOptions"
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
