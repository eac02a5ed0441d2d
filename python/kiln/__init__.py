# SPDX-License-Identifier: Apache-2.0
"""Kiln: fuses the operators of a neural network into native kernels, caches them, and runs them.

    import kiln, numpy
    m = kiln.compile("net.onnx")
    y = m(x=numpy.ones((1, 64), "float32"))

Arrays are NumPy's, PyTorch's, or anything else with a buffer or DLPack; they are read and returned without copies.
docs/python.md has it all.
"""
import atexit
import logging
import os
from typing import Any, Unpack

from kiln import _kiln, _settings, ops
from kiln._errors import (
    CancelledError, Code, DataLossError, DeadlineExceededError, Error, FailedPreconditionError, InternalError, InvalidArgumentError,
    NotFoundError, PermissionDeniedError, ResourceExhaustedError, TraceError, UnavailableError, UnimplementedError)
from kiln._grad import grad, value_and_grad
from kiln._kiln import (
    Array, Cache, Cancel, CompileOptions, Context, Description, DumpInfo, DumpOptions, Excluded, Launch, Model, OptimizeForInference, Port,
    RunOptions, Runtime, Tensor, array, empty, lazy_stats, set_log_level)
from kiln._tools import doctor, explain
from kiln._trace import Traced, TraceStats, freeze, set_lazy_options, trace
from kiln._trainer import Trainer

__all__ = [
    "Array", "Cache", "Cancel", "CancelledError", "Code", "CompileOptions", "Context", "DataLossError", "DeadlineExceededError", "Description",
    "DumpInfo", "DumpOptions", "Error", "Excluded", "FailedPreconditionError", "InternalError", "InvalidArgumentError", "Launch", "Model",
    "NotFoundError", "OptimizeForInference", "PermissionDeniedError", "Port", "ResourceExhaustedError", "RunOptions", "Runtime", "Tensor",
    "TraceError", "TraceStats", "Traced", "Trainer", "UnavailableError", "UnimplementedError", "array", "compile", "describe", "doctor",
    "empty", "explain", "freeze", "grad", "lazy_stats", "load", "log", "ops", "set_lazy_options", "set_log_level", "target", "trace",
    "value_and_grad"]

__version__: str = _kiln.version
#: What kernels are compiled for where nothing else is asked: the level of this machine, as "x86-64-v3".
target: str = _kiln.target
#: Where Kiln's lines go.
log = logging.getLogger("kiln")


def _source(model: Any) -> Any:
    return model.SerializeToString() if hasattr(model, "SerializeToString") else model


def compile(model: Any, options: CompileOptions | None = None, *, name: str = "model", folder: str | os.PathLike[str] = "",
            **settings: Unpack[_settings.CompileSettings]) -> Model:
    """Compiles a model; what the cache has of it is fetched instead.

    `model` is a path, an onnx.ModelProto, or bytes, which are read where they lie as long as the model lives. Of bytes,
    `name` is what messages call them and tells the form (".graph" at its end is Kiln's text, ".kiln" a package), and `folder`
    is where external data lie. Settings are attributes of CompileOptions:

        kiln.compile("net.onnx", threads=4, cache="/var/cache/app")
    """
    made = _settings.applied(CompileOptions() if options is None else options, settings, _settings.CompileSettings)
    return _kiln.compile(_source(model), _settings.with_helpers(made), name, os.fspath(folder))


def load(path: str | os.PathLike[str], options: RunOptions | None = None, *, validate: bool = False,
         **settings: Unpack[_settings.RunSettings]) -> Model:
    """Loads a package that `kiln compile -o` has made; no compiler is needed.

    Its code runs in this process: load what you trust. With `validate` it is first compared with the VM on this CPU.
    """
    made = _settings.applied(RunOptions() if options is None else options, settings, _settings.RunSettings)
    return _kiln.load(os.fspath(path), made, validate)


def describe(model: Any, *, name: str = "model", folder: str | os.PathLike[str] = "") -> Description:
    """What a model takes and gives, and which of its operators Kiln lacks, without compiling it."""
    return _kiln.describe(_source(model), name, os.fspath(folder))


_kiln.log_to(log.log)
atexit.register(_kiln.log_to, None)
