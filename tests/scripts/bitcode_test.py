#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Functions in LLVM's text (halide_gen/**/*.ll) are those that the headers beside them hold as bitcode. Skipped without LLVM 14's tools."""
import base64
import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def disassembled(bitcode):
    """The module as text, without the names of files."""
    text = subprocess.run(["llvm-dis-14", "-o", "-", "-"], input=bitcode, check=True, capture_output=True).stdout.decode()
    return [line for line in text.splitlines() if not line.startswith(("; ModuleID", "source_filename"))]


class Bitcode(unittest.TestCase):
    @unittest.skipUnless(shutil.which("llvm-as-14") and shutil.which("llvm-dis-14"), "LLVM 14's tools are not installed")
    def test_headers_hold_what_the_text_says(self):
        texts = sorted((ROOT / "halide_gen").glob("*/*.ll"))
        self.assertGreaterEqual(len(texts), 2)
        for text in texts:
            with self.subTest(text.name):
                want = subprocess.run(["llvm-as-14", "-o", "-", text], check=True, capture_output=True).stdout
                header = text.with_name(text.stem + "_bitcode.h").read_text()
                got = base64.b64decode("".join(re.findall(r'^ {4}"([^"]*)"', header, re.M)))
                self.assertEqual(disassembled(got), disassembled(want), f"{text.name}: run the command that it names")


if __name__ == "__main__":
    unittest.main()
