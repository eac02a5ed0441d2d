# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu_check on the emulated GPU: the bundle runs where nothing of the build is, finds what differs, says where there is no GPU, and goes on
where it was stopped. Usage: gpu_check_test.py BUILD [PATTERNS [RANDOM]]"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD, PATTERNS, RANDOM = sys.argv[1], *(sys.argv[2:] or ["k1_64K.f32,lstm_free", "1"])
# Another input where it runs on the GPU, as if that computed something else.
WRONG = """#!/bin/sh
case "$*" in
  *"run cases/k1_64K"*"device cuda"*) exec "$0.real" "$@" --input a=random:9:0.1:1.1 ;;
  *"run cases/lstm_free"*"device cuda"*) echo "kiln: lost" >&2; exit 7 ;;
esac
exec "$0.real" "$@"
"""
# The GPU takes two kernels not.
ON_VM = """#!/bin/sh
"$0.real" "$@" | sed 's/"vm": 0/"vm": 2/'
"""


class GpuCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-gpu-check-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        environment = {**os.environ, "KILN_CACHE_DIR": str(cls.folder / "cache")}
        subprocess.run([sys.executable, "-B", ROOT / "scripts/gpu_check", "bundle", cls.folder / "first", "--build", BUILD, "--only", PATTERNS,
                        "--random", RANDOM], env=environment, check=True, stderr=subprocess.DEVNULL)
        (cls.folder / "first").rename(cls.folder / "moved")
        cls.bundle = cls.folder / "moved"
        cls.cases = [line.split("\t")[0] for line in (cls.bundle / "cases.tsv").read_text().splitlines()]

    def run_it(self, *flags):
        """Without anything of this process's environment."""
        return subprocess.run(["sh", self.bundle / "run.sh", *flags], env={"PATH": "/usr/bin:/bin"}, cwd="/", capture_output=True, text=True,
                              check=False)

    def lines(self, name):
        return [line.split("\t") for line in (self.bundle / "results/cuda-emulated" / name).read_text().splitlines()]

    def setUp(self):
        shutil.rmtree(self.bundle / "results", ignore_errors=True)

    def test_everything_comes_from_the_bundle(self):
        loaded = subprocess.run(["ldd", self.bundle / "tree/bin/kiln"], capture_output=True, text=True, check=True, env={}).stdout
        self.assertNotIn("not found", loaded)
        for line in loaded.splitlines():
            if any(name in line for name in ("kdnn", "komp", "absl", "protobuf")):
                self.assertIn(str(self.bundle), line)
        self.assertNotIn("Halide", loaded)

    def test_all_cases_are_equal_and_timed(self):
        done = self.run_it("--device", "cuda-emulated", "--rounds", "1", "--minutes", "100")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([(line[0], line[1]) for line in self.lines("checks.tsv")], [(name, "ok") for name in self.cases])
        self.assertIn(f"{len(self.cases)} of {len(self.cases)} cases checked are equal", done.stdout)
        report = json.loads((self.bundle / "results/cuda-emulated/gpu_check.json").read_text())
        self.assertEqual(report["schema"], "kiln.peers/1")
        self.assertEqual(report["checks"], {"equal": len(self.cases), "of": len(self.cases), "cases": len(self.cases)})
        self.assertEqual(report["machine"]["target"], "cuda-sm80")
        row = next(row for row in report["rows"] if row["row"] == "k1_64K.f32")
        self.assertGreater(row["runtimes"]["kiln"]["min_ms"], 0)
        self.assertAlmostEqual(row["gb_s"], 4 * 4 * 65536 / row["runtimes"]["kiln"]["min_ms"] * 1e-6, delta=row["gb_s"] * 1e-3)
        # What is done is not done again: a line that was changed stays.
        path = self.bundle / "results/cuda-emulated/checks.tsv"
        path.write_text(path.read_text().replace("k1_64K.f32\tok", "k1_64K.f32\tkept"))
        again = self.run_it("--device", "cuda-emulated", "--no-timing")
        self.assertEqual(again.returncode, 1)
        self.assertIn("k1_64K.f32: kept", again.stdout)
        self.assertEqual(len(self.lines("checks.tsv")), len(self.cases))

    def told_by(self, script, only):
        """The rows of checks.tsv, by case, where this stands in the program's place."""
        kiln = self.bundle / "tree/bin/kiln"
        kiln.rename(f"{kiln}.real")
        kiln.write_text(script)
        kiln.chmod(0o755)
        try:
            done = self.run_it("--device", "cuda-emulated", "--no-timing", "--only", only)
        finally:
            pathlib.Path(f"{kiln}.real").rename(kiln)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return {line[0]: line[1:] for line in self.lines("checks.tsv")}

    def test_tells_what_runs_on_the_vm(self):
        self.assertEqual(self.told_by(ON_VM, "none,k1_64K.f32")["k1_64K.f32"][0], "vm")

    def test_tells_what_differs_and_goes_on(self):
        told = self.told_by(WRONG, "k1_64K.f32,lstm*")
        self.assertEqual(told["k1_64K.f32"][0], "differs")
        self.assertRegex(told["k1_64K.f32"][1], r"y: .* DIFFERS: element 0 is .*, expected .* of 65536 elements differ")
        self.assertEqual(told["lstm_free"][:2], ["failed", "kiln: lost "])

    def test_says_where_there_is_no_gpu(self):
        done = self.run_it("--device", "cuda:77")
        self.assertEqual(done.returncode, 5, done.stdout + done.stderr)
        self.assertIn("there is no GPU here", done.stdout)
        self.assertEqual(self.run_it("--nonsense").returncode, 2)
        self.assertEqual(self.run_it("--device", "cuda-emulated", "--no-timing", "--only", "none").returncode, 1)
        self.assertEqual(self.run_it("--device", "cuda-emulated", "--no-timing", "--minutes", "0").returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
