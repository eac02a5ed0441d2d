# SPDX-License-Identifier: Apache-2.0
"""What the program `kiln` says, as Python's data."""
import contextlib
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

from kiln import _errors, _tree

# Exit codes of docs/cli.md.
_CODES = {2: _errors.Code.INVALID_ARGUMENT, 3: _errors.Code.INVALID_ARGUMENT, 4: _errors.Code.UNIMPLEMENTED, 5: _errors.Code.UNAVAILABLE,
          7: _errors.Code.NOT_FOUND, 70: _errors.Code.INTERNAL}


@contextlib.contextmanager
def _file(model: Any) -> Iterator[str]:
    """The path of a model, which bytes are written to for a while."""
    if isinstance(model, (str, os.PathLike)):
        yield os.fspath(model)
        return
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        path = pathlib.Path(folder, "model.onnx")
        path.write_bytes(model.SerializeToString() if hasattr(model, "SerializeToString") else model)
        yield str(path)


def _json(arguments: list[str], passes: tuple[int, ...] = (0,)) -> dict[str, Any]:
    done = _tree.run([*arguments, "--json"])
    if done.returncode not in passes:
        raise _errors.of(_CODES.get(done.returncode, _errors.Code.UNKNOWN), done.stderr.strip())
    results: dict[str, Any] = json.loads(done.stdout)["results"]
    return results


def explain(model: Any, *arguments: str) -> dict[str, Any]:
    """Why nodes are, or are not, in one kernel: `kiln explain --json` (docs/json.md).

    `model` is a path, bytes or an onnx.ModelProto; further arguments are those of the command:

        kiln.explain("net.onnx", "--schedule")["edges"]
    """
    with _file(model) as path:
        return _json(["explain", path, *arguments])


def doctor() -> dict[str, Any]:
    """Whether this machine is fit, and what to do: `kiln doctor --json` (docs/json.md)."""
    return _json(["doctor"], passes=(0, 1, 5, 6, 7))  # what it advises on is no error
