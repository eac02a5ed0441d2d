# SPDX-License-Identifier: Apache-2.0
"""kiln.trace and kiln.freeze."""
import functools
import inspect
import os
import types
from collections.abc import Callable
from typing import Any, TypedDict, Unpack, cast, overload

from kiln import _kiln, _settings
from kiln._arrays import by_place


class TraceStats(TypedDict):
    """What a traced function did; operations and segments are those of the newest variant, variants those that are kept."""

    calls: int
    records: int
    replays: int
    frozen_calls: int
    errors: int
    runs: int
    variants: int
    operations: int
    segments: int


class Traced:
    """A traced function: called as the function is. One thread at a time calls it."""

    def __init__(self, function: Callable[..., Any], name: str, symbolic: bool, capture_as_const: bool, record_only: bool,
                 symbolic_shape: bool, profiling: bool, options: _kiln.CompileOptions, frozen: bool = False) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._trace = _kiln.Trace(name, symbolic, capture_as_const, record_only, symbolic_shape, profiling, options, frozen)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._trace.call(self._function, by_place(self._function, arguments, named) if named else arguments)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A traced method: its object is passed on as it is."""
        return self if instance is None else types.MethodType(self, instance)

    @property
    def stats(self) -> TraceStats:
        """calls, records, replays, frozen_calls, errors, runs, variants; and of the newest variant operations and segments."""
        return cast(TraceStats, self._trace.stats)

    def get_profile(self) -> str:
        """JSON: the programs of the newest variant with the times of their launches; needs profiling=True."""
        return self._trace.profile()

    def dump(self, file: str | os.PathLike[str], options: _kiln.DumpOptions | None = None,
             **settings: Unpack[_settings.DumpSettings]) -> _kiln.DumpInfo:
        """Writes the newest record as a model: .onnx, .graph, or .kiln, a package. Settings are attributes of DumpOptions.

            step.dump("step.kiln", arg_names=["x"], input_data=["x:#rand(0, 1)"])

        The function is frozen, or has been traced with capture_as_const or record_only. docs/trace.md says what becomes of each option.
        """
        made = _settings.applied(_kiln.DumpOptions() if options is None else options, settings, _settings.DumpSettings)
        return self._trace.dump(os.fspath(file), made)

    def forget(self) -> None:
        """Drops what is recorded: the next call records."""
        self._trace.forget()


def _options(options: _kiln.CompileOptions | None, settings: object) -> _kiln.CompileOptions:
    if options is None:
        options = _kiln.CompileOptions()
        options.compile_mode = "background"
    return _settings.with_helpers(_settings.applied(options, settings, _settings.CompileSettings))


@overload
def trace(function: Callable[..., Any], options: _kiln.CompileOptions | None = None, *, name: str = "", symbolic: bool = False,
          capture_as_const: bool = False, record_only: bool = False, symbolic_shape: bool = True, profiling: bool = False,
          **settings: Unpack[_settings.CompileSettings]) -> Traced: ...


@overload
def trace(function: None = None, options: _kiln.CompileOptions | None = None, *, name: str = "", symbolic: bool = False,
          capture_as_const: bool = False, record_only: bool = False, symbolic_shape: bool = True, profiling: bool = False,
          **settings: Unpack[_settings.CompileSettings]) -> Callable[[Callable[..., Any]], Traced]: ...


def trace(function: Callable[..., Any] | None = None, options: _kiln.CompileOptions | None = None, *, name: str = "",
          symbolic: bool = False, capture_as_const: bool = False, record_only: bool = False, symbolic_shape: bool = True,
          profiling: bool = False, **settings: Unpack[_settings.CompileSettings]) -> Any:
    """A function of arrays that its first call records, and later calls replay as compiled programs.

        @kiln.trace
        def step(w, g):
            return w - 0.1 * g

        w = step(w, g)

    Arguments that are arrays (kiln.Array, NumPy's, any with DLPack) arrive as kiln.Array, all others as they are; what comes
    back is a kiln.Array, a tuple or list of them, or None. A later call runs the function again, and compares each operation
    with the record: a difference is a kiln.TraceError, never a wrong answer. docs/trace.md says what a record is, and what
    the options do; settings are attributes of CompileOptions.
    """
    def decorate(traced: Callable[..., Any]) -> Traced:
        return Traced(traced, name or getattr(traced, "__name__", "trace"), symbolic, capture_as_const, record_only, symbolic_shape,
                      profiling, _options(options, settings))

    return decorate if function is None else decorate(function)


@overload
def freeze(function: Callable[..., Any], options: _kiln.CompileOptions | None = None, *, name: str = "", symbolic_shape: bool = True,
           profiling: bool = False, **settings: Unpack[_settings.CompileSettings]) -> Traced: ...


@overload
def freeze(function: None = None, options: _kiln.CompileOptions | None = None, *, name: str = "", symbolic_shape: bool = True,
           profiling: bool = False, **settings: Unpack[_settings.CompileSettings]) -> Callable[[Callable[..., Any]], Traced]: ...


def freeze(function: Callable[..., Any] | None = None, options: _kiln.CompileOptions | None = None, *, name: str = "",
           symbolic_shape: bool = True, profiling: bool = False, **settings: Unpack[_settings.CompileSettings]) -> Any:
    """A trace whose function is not run any more from the third call on: the first records, the second compares.

    All that later calls compare is types and shapes of arguments, and that captured arrays are still held by somebody else. So it takes
    arrays alone, and functions that have no state: no closure, no method. What the function reads from globals, and what it does beside
    computing with arrays, is not seen; docs/trace.md has a list.
    """
    def decorate(frozen: Callable[..., Any]) -> Traced:
        if not inspect.isfunction(frozen) or frozen.__closure__:
            raise TypeError("freeze: the function captures something, or is no plain function; pass what it needs as arguments")
        return Traced(frozen, name or frozen.__name__, False, False, False, symbolic_shape, profiling, _options(options, settings), True)

    return decorate if function is None else decorate(function)


def set_lazy_options(options: _kiln.CompileOptions | None = None, **settings: Unpack[_settings.CompileSettings]) -> None:
    """How arrays of this thread are computed outside of traces, from the next program on. Settings are attributes of CompileOptions."""
    _kiln.set_lazy_options(_options(options, settings))
