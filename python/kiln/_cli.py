# SPDX-License-Identifier: Apache-2.0
"""The command `kiln` of a wheel, and `python -m kiln`: becomes the program of that name."""
import os
import sys

from kiln import _tree


def main() -> None:
    program = _tree.program()
    os.execv(program, ["kiln", *sys.argv[1:]])
