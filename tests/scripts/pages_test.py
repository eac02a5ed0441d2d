# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/performance.md are what bench/pages makes of bench/results."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load():
    loader = importlib.machinery.SourceFileLoader("pages", str(ROOT / "bench" / "pages"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("pages", loader))
    loader.exec_module(module)
    return module


def result(**changes):
    side = {"commit": "0123456789abcdef", "changed": False}
    times = {"min_ms": 2.0, "median_ms": 3.0}
    ratio = {"min": 1.25, "median": 1.5, "low": 1.0, "high": 2.0}
    return {"mode": "warm", "when": "2026-01-02T03:04:05Z", "machine": {"cpu": "Some CPU", "cpus": 2, "avx512": False}, "load": {"steal": 0.5},
            "old": side, "new": {**side, "changed": True}, "old_args": "", "new_args": "--x", "threads": 1, "level": "3", "rounds": 5,
            "rows": [{"row": "k1", "dtype": "f32", "old": times, "new": times, "ratio": ratio}],
            "geomean": {"all": {"rows": 1, "min": 1.25, "median": 1.5, "low": 1.0, "high": 2.0}}, **changes}


class PagesTest(unittest.TestCase):
    def test_the_page_is_what_the_results_say(self):
        check = subprocess.run([ROOT / "bench" / "pages", "--check"], capture_output=True, text=True)
        self.assertEqual(check.returncode, 0, check.stderr)

    def test_another_figure_is_another_page(self):
        pages = load()
        page = pages.PAGE.read_text()
        made = pages.page_with(page, [result()])
        self.assertIn("| k1 | f32 | 2 | 2 | 1.250 | 1.500 | 1.00 to 2.00 |\n", made)
        self.assertIn("01234567 against 01234567+", made)
        self.assertIn("new with `--x`", made)
        self.assertNotEqual(made, pages.page_with(page, [result(threads=2)]))
        self.assertEqual(made, pages.page_with(made, [result()]))

    def test_the_newest_comes_first_and_cold_rows_have_floors(self):
        pages = load()
        cold = result(mode="cold", when="2026-02-03T00:00:00Z")
        cold["rows"][0].update(cores=2, new={"min_ms": 2.0, "median_ms": 3.0, "floor_ms": 1.5})
        text = pages.section([result(), cold])
        self.assertLess(text.index("Cold"), text.index("Warm"))
        self.assertIn("| 1.00 to 2.00 |  | 1.5 |\n", text)


if __name__ == "__main__":
    unittest.main()
