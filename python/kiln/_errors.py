# SPDX-License-Identifier: Apache-2.0
"""Kiln's errors: a class for each code of kiln.h, whose numbers stay as they are.

    try:
        kiln.compile("net.onnx")
    except kiln.UnimplementedError as error:
        print(error.code, error)   # Code.UNIMPLEMENTED, and all that the model lacks

A message has a subject, what is wrong with both values, and what to do.
"""
import enum


class Code(enum.IntEnum):
    """Whose turn it is."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15


class Error(Exception):
    """What every function of Kiln raises."""

    code: Code = Code.UNKNOWN


class CancelledError(Error):
    """The run was told to stop."""

    code = Code.CANCELLED


class InvalidArgumentError(Error, ValueError):
    """The model, an option or an input is wrong."""

    code = Code.INVALID_ARGUMENT


class DeadlineExceededError(Error, TimeoutError):
    """The run took longer than its timeout."""

    code = Code.DEADLINE_EXCEEDED


class NotFoundError(Error, LookupError):
    """There is no such file, or no variant in a package for these inputs."""

    code = Code.NOT_FOUND


class PermissionDeniedError(Error):
    """A file or directory may not be used."""

    code = Code.PERMISSION_DENIED


class ResourceExhaustedError(Error, MemoryError):
    """Memory, disk or a limit."""

    code = Code.RESOURCE_EXHAUSTED


class FailedPreconditionError(Error):
    """A call out of order, as an output before the first run."""

    code = Code.FAILED_PRECONDITION


class TraceError(FailedPreconditionError):
    """A call of a traced function that does what its record does not; docs/trace.md has every kind."""

    #: "operation", "shape", "constant", ...: the names of docs/trace.md.
    kind: str = ""


class UnimplementedError(Error, NotImplementedError):
    """The model needs what Kiln does not have; the message lists all of it."""

    code = Code.UNIMPLEMENTED


class InternalError(Error):
    """A bug of Kiln: please report it."""

    code = Code.INTERNAL


class UnavailableError(Error):
    """The system refused a thread or process: worth another try."""

    code = Code.UNAVAILABLE


class DataLossError(Error):
    """A file is damaged."""

    code = Code.DATA_LOSS


_CLASSES: dict[int, type[Error]] = {kind.code: kind for kind in Error.__subclasses__()}


def of(code: int, message: str, kind: str = "") -> Error:
    """The error of a code, or of a kind of TraceError, for kiln._kiln to raise."""
    if not kind:
        return _CLASSES.get(code, Error)(message)
    error = TraceError(message)
    error.kind = kind
    return error
