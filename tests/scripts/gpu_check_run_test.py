# SPDX-License-Identifier: Apache-2.0
"""bench/gpu_check/run.sh with a program of its own in the place of kiln, and the parts of scripts/gpu_check that need no build."""
import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
KILN = """#!/bin/sh
echo "$@" >>"$(dirname "$0")/asked"
case $1 in
  devices) echo '{ "target": "cuda-sm90" }' ;;
  run) echo '{ "vm": 0 }' ;;
esac
"""


def script():
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(ROOT / "scripts/gpu_check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


class RunScript(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-gpu-check-run-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("run.sh", "report.awk"):
            shutil.copy(ROOT / "bench/gpu_check" / name, self.folder)
        (self.folder / "tree/bin").mkdir(parents=True)
        kiln = self.folder / "tree/bin/kiln"
        kiln.write_text(KILN)
        kiln.chmod(0o755)
        (self.folder / "made").write_text("now\n")
        (self.folder / "cases.tsv").write_text("a\tkernel\t--input x=ones\t--expect y=sha256:0\nb\tkernel\t\t\n")
        self.checks = self.folder / "results/cuda/checks.tsv"

    def run_it(self):
        return subprocess.run(["sh", self.folder / "run.sh", "--no-timing"], capture_output=True, text=True, check=False)

    def ran(self):
        """The cases that the program was asked to run, and forgets them."""
        path = self.folder / "tree/bin/asked"
        lines = path.read_text().splitlines()
        path.unlink()
        return [line.split()[1] for line in lines if line.startswith("run ")]

    def test_a_line_that_was_cut_is_done_again(self):
        done = self.run_it()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.ran(), ["cases/a.kiln", "cases/b.kiln"])
        whole = self.checks.read_text()
        for cut in range(whole.index("\n") + 2, len(whole)):
            self.checks.write_text(whole[:cut])
            self.assertEqual(self.run_it().returncode, 0, cut)
            self.assertEqual(self.checks.read_text(), whole, cut)
            self.assertEqual(self.ran(), ["cases/b.kiln"], cut)
        self.assertEqual(self.run_it().returncode, 0)
        self.assertEqual(self.ran(), [])

    def test_what_runs_on_the_cpu_instead_is_no_check(self):
        self.run_it()
        lines = (self.folder / "tree/bin/asked").read_text().splitlines()
        self.assertTrue(all("--device cuda " in line and "--require-device" in line for line in lines if line.startswith("run ")), lines)

    def test_a_place_that_cannot_be_written_is_named(self):
        (self.folder / "results").write_text("no folder")
        done = self.run_it()
        self.assertEqual(done.returncode, 2)
        self.assertIn(f'"{self.folder}/results/cuda" cannot be written', done.stderr)

    def test_a_bundle_that_was_not_finished_is_told(self):
        (self.folder / "cases.tsv").unlink()
        done = self.run_it()
        self.assertEqual(done.returncode, 2)
        self.assertIn("has no cases.tsv: the bundle was not finished", done.stderr)
        self.assertFalse((self.folder / "tree/bin/asked").exists())


class Bundle(unittest.TestCase):
    def test_no_checkout_and_no_git_is_no_error(self):
        module = script()
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(module, "ROOT", folder):
            self.assertEqual(module.commit(), "unknown")
            with unittest.mock.patch.dict(os.environ, {"PATH": folder}):
                self.assertEqual(module.commit(), "unknown")

    def test_no_random_kernels(self):
        self.assertEqual(list(script().random_cases(pathlib.Path("/nonexistent"), pathlib.Path("/nonexistent"), 0)), [])

    def test_fewer_than_none(self):
        done = subprocess.run([ROOT / "scripts/gpu_check", "bundle", "/nonexistent/x", "--random", "-1"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--random: is -1, expected 0 or more", done.stderr)


if __name__ == "__main__":
    unittest.main()
