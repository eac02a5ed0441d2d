# SPDX-License-Identifier: Apache-2.0
"""docs/performance.md and the figures of README.md are what bench/pages makes of bench/results."""
import copy
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import results
import tables

TEMPLATE = "# Page\n\n## Kernels\n{kernels}\n{left_out?}\n## Slow\n{slow}\n## Networks\n{networks}\n## First\n{first}\n## How\nso\n"


def load():
    loader = importlib.machinery.SourceFileLoader("pages", str(ROOT / "bench" / "pages"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("pages", loader))
    loader.exec_module(module)
    return module


def measured(what="kernels", **changes):
    """A report with two rows: k1 twice as fast as XLA, k2 at half of ONNX Runtime's speed, in which XLA's results differ."""
    def times(least, **more):
        return {"min_ms": least, "median_ms": least + 1, **more}

    kiln = tables.KILN[what]
    rows = [{"row": "k1", "errors": {"openvino": "no such operator"}, "ratio": {"min": 2.0, "median": 1.5},
             "runtimes": {kiln: times(1.0), "ort": times(3.0, agrees=True), "xla": times(2.0, agrees=True)}},
            {"row": "k2", "errors": {}, "ratio": {"min": 0.5, "median": 0.75},
             "runtimes": {kiln: times(4.0), "ort": times(2.0, agrees=True), "xla": times(1.0, agrees=False)}}]
    return {"schema": "kiln.peers/1", "what": what, "when": "2026-01-02T03:04:05Z", "load": {"steal": 0.5}, "threads": 1,
            "machine": {"cpu": "Some CPU (Core 9)", "cpus": 2, "avx512": False}, "kiln": {"commit": "0123456789abcdef", "changed": False},
            "versions": {"ort": "onnxruntime 1", "xla": "jax 2"}, "rows": rows, **changes}


def found(schema, when="2026-01-02", **row):
    """A report of kiln.regret/1 or kiln.ablation/1 with one row."""
    figures = {"kernels": 4, "median": 1.5, "p90": 2.0, "worst": 3.0, "graphs": 3, "geomean": 1.1, "of_all": 1.01, "most": 1.3, "most_graph": "k4"}
    return {"schema": schema, "when": when, "machine": {"cpu": "Some CPU (Core 9)"}, "kiln": {"commit": "0123456789abcdef", "changed": False},
            "target": "x", "graphs": 30, "rows": [{**figures, **row}]}


def trained(what="training", threads=1, cpu="Some CPU (Core 9)", rows=("mlp", "lstm")):
    """Kiln takes 2 ms, its -O0 5, torch 3 and 4; jax does not agree."""
    def times(least, **more):
        return {"min_ms": least, "median_ms": least + 1, **more}

    runtimes = {"kiln -O3": times(2.0), "kiln -O0": times(5.0)} if what == "training levels" else {
        "kiln -O3": times(2.0), "eager": times(4.0, agrees=True), "inductor": times(3.0, agrees=True), "jax": times(1.0, agrees=False)}
    return {"schema": "kiln.peers/1", "what": what, "when": "2026-01-02T03:04:05Z", "threads": threads, "machine": {"cpu": cpu},
            "kiln": {"commit": "0123456789abcdef", "changed": False},
            "rows": [{"row": row, "errors": {}, "runtimes": runtimes, "ratio": {"min": 1.5, "median": 1.25}} for row in rows]}


def trained_kernels(**changes):
    report = trained("training kernels", rows=("softmax",), **changes)
    report["rows"][0]["copy_percent"] = 117.4
    return report


def of_arrays(threads=1, cpu="Some CPU (Core 9)", rows=("heat_step",)):
    """Kiln takes 2 ms, jax 3; numpy does not agree."""
    report = trained("programs", threads, cpu, rows)
    for row in report["rows"]:
        row["runtimes"] = {"kiln": {"min_ms": 2.0, "median_ms": 3.0}, "jax": {"min_ms": 3.0, "median_ms": 4.0, "agrees": True},
                           "numpy": {"min_ms": 1.0, "median_ms": 2.0, "agrees": False}}
    return report


def compared(**changes):
    side = {"commit": "0123456789abcdef", "changed": False}
    return {"schema": "kiln.compare/1", "mode": "warm", "when": "2026-01-02T03:04:05Z", "machine": {"cpu": "Some CPU"}, "old": side,
            "new": {**side, "changed": True}, "old_args": "", "new_args": "--x", "threads": 1, "rows": [{"dtype": "f32"}],
            "geomean": {"all": {"rows": 1, "min": 1.25, "median": 1.5, "low": 1.0, "high": 2.0}}, **changes}


class PagesTest(unittest.TestCase):
    def setUp(self):
        self.pages = load()

    def test_the_pages_are_what_the_results_say(self):
        check = subprocess.run([ROOT / "bench" / "pages", "--check"], capture_output=True, text=True)
        self.assertEqual(check.returncode, 0, check.stderr)

    def test_the_page_is_short(self):
        self.assertLessEqual(len((ROOT / "docs" / "performance.md").read_text().splitlines()), 200)

    def test_a_page_of_all_sections_is_short(self):
        slow = measured()["rows"][1]
        rows = [{**copy.deepcopy(slow), "row": row} for row in self.pages.descriptions()]
        networks = [{**copy.deepcopy(slow), "row": f"network{i}"} for i in range(8)]
        reports = [measured(what, threads=threads, machine={"cpu": cpu, "cpus": 2, "avx512": True}, rows=of)
                   for what, of in (("kernels", rows), ("networks", networks), ("first", networks)) for threads in (1, 2) for cpu in ("A", "B")]
        reports += [found("kiln.regret/1", template=f"t{i}") for i in range(12)] + [found("kiln.ablation/1", **{"pass": f"p{i}"}) for i in range(16)]
        reports += [trained(threads=threads, cpu=cpu, rows=[f"network{i}" for i in range(8)]) for threads in (1, 2) for cpu in ("A", "B")]
        reports += [trained_kernels(threads=threads, cpu=cpu) for threads in (1, 2) for cpu in ("A", "B")]
        reports += [of_arrays(threads, cpu, [f"program{i}" for i in range(10)]) for threads in (1, 2) for cpu in ("A", "B")]
        page = self.pages.page_of(self.pages.TEMPLATE.read_text(), reports + [compared()] * 10)
        self.assertEqual(page.count("\n## "), self.pages.TEMPLATE.read_text().count("\n## "))
        self.assertLessEqual(len(page.splitlines()), 200)

    def test_training_has_peers_that_agree_and_the_gain_of_optimisation(self):
        levels = trained("training levels", rows=["mlp"])
        self.assertEqual(tables.training([trained(), levels, trained(threads=2, rows=["mlp"])]),
                         "| network | Core 9, 1 thread: ms | peers | ratio | -O0 / -O3 | Core 9, 2 threads: ms | peers | ratio | -O0 / -O3 |\n"
                         "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
                         "| mlp | 2 | torch eager 4, torch.compile 3 | 1.50 (1.25) | 2.50 | 2 | torch eager 4, torch.compile 3 | 1.50 (1.25) |  |\n"
                         "| lstm | 2 | torch eager 4, torch.compile 3 | 1.50 (1.25) |  | - |  | - |  |\n"
                         "| **geomean** |  |  | 1.50 (1.25) |  |  |  | 1.50 (1.25) |  |\n")
        self.assertEqual(tables.training([levels]), "")
        self.assertEqual(tables.training_kernels([trained_kernels(), levels]),
                         "| kernel | Core 9, 1 thread: ms | of a copy's bandwidth | ratio |\n"
                         "| --- | --- | --- | --- |\n"
                         "| softmax | 2 | 117 % | 1.50 (1.25) |\n")

    def test_programs_of_arrays_have_the_peers_that_agree(self):
        self.assertEqual(tables.programs([of_arrays()]),
                         "| program | Core 9, 1 thread: ms | peers | ratio |\n"
                         "| --- | --- | --- | --- |\n"
                         "| heat step | 2 | jax 3 | 1.50 (1.25) |\n"
                         "| **geomean** |  |  | 1.50 (1.25) |\n")
        self.assertEqual(tables.programs([trained()]), "")

    def test_regret_and_ablation_have_a_column_for_each_report(self):
        both = [found("kiln.regret/1", template="t"), found("kiln.regret/1", template="u", when="2026-02-03")]
        self.assertEqual(tables.regret(both), "| template | Core 9, x, commit 01234567 | Core 9, x, commit 01234567 |\n| --- | --- | --- |\n"
                         "| t | 1.50, 2.00, 3.00 of 4 | - |\n| u | - | 1.50, 2.00, 3.00 of 4 |\n")
        self.assertIn("| p | 1.100 of 3, 1.010 of 30, 1.30 (k4) |", tables.ablation([found("kiln.ablation/1", **{"pass": "p"})]))

    def test_first_answers_are_cold_and_warm(self):
        times = {"kiln cold": {"min_ms": 1234.5, "median_ms": 2}, "kiln warm": {"min_ms": 12.34, "median_ms": 2}, "ort": {"min_ms": 24.68, "median_ms": 4}}
        rows = [{"row": "net", "errors": {}, "runtimes": times, "ratio": {"min": 2.0, "median": 2.0}}]
        text = tables.first_answer(tables.newest([measured("first", rows=rows)], "first"))
        self.assertIn("| net | 1234, 12.3 | 2.00 (2.00) ONNX Runtime |\n", text)

    def test_a_row_has_the_time_the_ratio_and_the_fastest_peer_that_agrees(self):
        page = self.pages.page_of(TEMPLATE, [measured(), measured(threads=2)])
        self.assertIn("| row | what | Core 9, 1 thread: ms | ratio | Core 9, 2 threads: ms | ratio |\n", page)
        self.assertIn("| k1 |  | 1 | 2.00 (1.50) XLA | 1 | 2.00 (1.50) XLA |\n", page)
        self.assertIn("| k2 |  | 4 | **0.50** (0.75) ONNX Runtime |", page)
        self.assertIn("| **geomean**, fastest peer |  |  | 1.00 (1.06) |", page)
        self.assertIn("| geomean, each peer |  |  | ONNX Runtime 1.22, XLA 2.00 |", page)
        self.assertIn("- OpenVINO does not run k1.\n- XLA has other results for k2.\n", page)

    def test_slow_rows_are_listed(self):
        columns = tables.newest([measured(), measured(threads=2)], "kernels")
        self.assertEqual(tables.slow_rows([("kernels", columns)]), "- k2, Core 9, 1 thread: **0.50** (0.75), ONNX Runtime; "
                         "Core 9, 2 threads: **0.50** (0.75), ONNX Runtime\n")
        self.assertEqual(tables.slow_rows([("kernels", columns)], most=0), "- Less slow: k2.\n")

    def test_sections_without_data_are_left_out(self):
        page = self.pages.page_of(TEMPLATE, [measured()])
        self.assertNotIn("## Networks", page)
        self.assertNotIn("## First", page)
        self.assertIn("## How\nso\n", page)
        self.assertEqual(self.pages.page_of(TEMPLATE, []), "# Page\n\n## How\nso\n")

    def test_the_newest_of_a_machine_counts(self):
        newer = measured(when="2026-02-03T00:00:00Z", rows=measured()["rows"][:1])
        self.assertEqual(self.pages.page_of(TEMPLATE, [newer, measured()]), self.pages.page_of(TEMPLATE, [newer]))

    def test_tables_of_two_commits_are_refused(self):
        other = measured("networks", kiln={"commit": "f" * 40, "changed": False})
        with self.assertRaisesRegex(tables.Mixed, "01234567 and ffffffff"):
            self.pages.page_of(TEMPLATE, [measured(), other])

    def test_the_readme_has_the_means(self):
        readme = "before\n" + self.pages.BEGIN + "old\n" + self.pages.END + "after\n"
        made = self.pages.readme_of(readme, [measured(), measured("networks", threads=2)])
        self.assertIn("- 2 kernels, fastest peer / Kiln: 1.00 (1.06) with Core 9, 1 thread\n", made)
        self.assertIn("- 2 whole networks, fastest peer / Kiln: 1.00 (1.06) with Core 9, 2 threads\n", made)
        self.assertTrue(made.startswith("before\n") and made.endswith("after\n") and "old\n" not in made)

    def test_comparisons_are_a_line_each_newest_first(self):
        text = tables.old_against_new([compared(), compared(mode="cold", when="2026-02-03T00:00:00Z")])
        self.assertIn("| 2026-01-02 | 01234567, 01234567+, new with `--x` | warm | 1 row, f32 | Some CPU | 1 | 1.250 (1.500) | 1.00 to 2.00 |\n",
                      text)
        self.assertLess(text.index("cold"), text.index("warm"))


class ResultsTest(unittest.TestCase):
    def test_a_report_is_read_as_it_was_written(self):
        with tempfile.TemporaryDirectory() as folder:
            results.write(measured(), f"{folder}/a/b.json")
            text = pathlib.Path(f"{folder}/a/b.json").read_text()
        self.assertEqual(json.loads(text), measured())
        self.assertEqual(len(text.splitlines()), len(measured()) + 2 + 2)  # a line for each field and row

    def test_a_peer_with_other_results_is_no_rival(self):
        if not importlib.util.find_spec("numpy"):
            self.skipTest("numpy is not installed")
        import numpy as np
        ours = [np.array([1.0, -4.0])]
        row = results.peers_row("k", "kiln", {"kiln": (2.0, 2.0), "ort": (1.0, 1.0), "xla": (3.0, 4.0)}, {},
                                {"kiln": ours, "ort": [np.array([1.0, -3.0])], "xla": [np.array([1.0, -4.0001])]})
        self.assertEqual(row["runtimes"]["ort"]["error"], 0.25)
        self.assertEqual(row["ratio"], {"min": 1.5, "median": 2.0})
        self.assertEqual(results.largest_error([np.array([1, 2])], [np.array([1, 3])]), 0.5)
        self.assertEqual(results.largest_error(ours, [np.array([[1.0, -4.0]])]), float("inf"))
        self.assertEqual(results.largest_error(ours, [np.array([1.0, np.nan])]), float("inf"))


if __name__ == "__main__":
    unittest.main()
