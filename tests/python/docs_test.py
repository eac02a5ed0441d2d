# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of docs/python.md, in order and in one process, and those of examples/python."""
import contextlib
import io
import os
import pathlib
import re
import runpy
import unittest

import support


class Pages(unittest.TestCase):
    def setUp(self):
        os.chdir(support.ROOT)

    def test_page(self):
        try:
            import onnx  # noqa: F401  pylint: disable=unused-import
        except ImportError:
            self.skipTest("onnx is not installed; run scripts/fetch_python")
        text = pathlib.Path("docs/python.md").read_text()
        blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
        self.assertGreater(len(blocks), 10)
        space = {}
        for block in blocks:
            told = io.StringIO()
            with contextlib.redirect_stdout(told):
                exec(compile(block, "docs/python.md", "exec"), space)  # pylint: disable=exec-used
            for line in re.findall(r"print\(.*\)\s+# (.*)", block):
                self.assertIn(line, told.getvalue())

    def test_example(self):
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            runpy.run_path("examples/python/softmax.py", run_name="__main__")
        self.assertRegex(told.getvalue(), r"differs by at most \S+ from NumPy\n.* us a call")


if __name__ == "__main__":
    unittest.main()
