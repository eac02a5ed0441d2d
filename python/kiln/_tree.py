# SPDX-License-Identifier: Apache-2.0
"""Where Kiln's programs are: in a wheel below `tree`, else on the search path."""
import os
import pathlib
import shutil
import subprocess

TREE = pathlib.Path(__file__).absolute().parent / "tree"


def helper(name: str, variable: str) -> str:
    """The path of a helper of this very build, or "" where Kiln is to look for it. A wheel's own comes before
    any that lies beside the interpreter, which would be one of another build."""
    path = TREE / "libexec" / "kiln" / name
    return str(path) if path.is_file() and not os.environ.get(variable) else ""


def program() -> str:
    """The program `kiln`."""
    own = TREE / "bin" / "kiln"
    found = str(own) if own.is_file() else shutil.which("kiln")
    if found is None:
        raise FileNotFoundError(f'the program "kiln" is neither in "{own.parent}" nor on the search path; install Kiln')
    return found


def run(arguments: list[str]) -> "subprocess.CompletedProcess[str]":
    """Runs the program `kiln` and returns what it says."""
    return subprocess.run([program(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
