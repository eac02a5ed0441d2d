# SPDX-License-Identifier: Apache-2.0
"""scripts/test: what it calls, with stand-ins for all that it calls."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TEST = pathlib.Path(__file__).resolve().parents[2] / "scripts/test"


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.scripts = pathlib.Path(folder.name) / "scripts"
        self.scripts.mkdir()
        shutil.copy(TEST, self.scripts / "test")
        for name in ("setup", "build", "lint", "fetch_onnx_tests", "fetch_model"):
            self.stand_in(name)
        (self.scripts / "run_tests.py").write_text("import sys\nprint('run_tests', *sys.argv[1:])\nprint('1 passed, 0 failed')\n")

    def stand_in(self, name, status=0):
        (self.scripts / name).write_text(f'#!/bin/sh\necho {name} "$@"\nexit {status}\n')
        (self.scripts / name).chmod(0o755)

    def run_it(self, *arguments, **variables):
        """(exit status, lines)."""
        done = subprocess.run([self.scripts / "test", *arguments], capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], **variables})
        return done.returncode, done.stdout.splitlines()

    def test_the_quick_tests(self):
        self.assertEqual(self.run_it(), (0, ["setup --lint", "build ci", "lint", "run_tests --build build/ci --record -- --label-exclude ^full$",
                                             "1 passed, 0 failed"]))

    def test_all_tests(self):
        self.assertEqual(self.run_it("--full")[1][2:4], ["lint --full", "run_tests --build build/ci --record --"])

    def test_flags_in_any_order_and_arguments_for_ctest(self):
        _, lines = self.run_it("--resume", "--shard", "1/2", "--full", "--durations", "f", "-R", "a b")
        self.assertEqual(lines[2:4], ["lint --full", "run_tests --build build/ci --resume --shard 1/2 --durations f -- -R a b"])

    def test_clang_tidy_runs_in_the_first_shard(self):
        self.assertEqual(self.run_it("--full", "--shard", "1/3")[1][2], "lint --full")
        self.assertEqual(self.run_it("--full", "--shard", "2/3")[1][2], "lint")

    def test_some_tests_leave_durations_alone(self):
        self.assertEqual(self.run_it("-R", "x")[1][3], "run_tests --build build/ci -- --label-exclude ^full$ -R x")

    def test_missing_onnx_tests_are_a_failure_unless_offline(self):
        self.stand_in("fetch_onnx_tests", status=1)
        self.assertEqual(self.run_it(), (1, ["setup --lint", "build ci"]))
        self.assertEqual(self.run_it(KILN_OFFLINE="1")[0], 0)

    def test_what_fails_before_the_tests_is_the_exit_status(self):
        self.stand_in("lint", status=1)
        status, lines = self.run_it()
        self.assertEqual((status, lines[-1]), (1, "lint"))

    def test_wrong_usage_builds_nothing(self):
        for arguments in (["--shard"], ["--shard", "2"], ["--shard", "a/b"]):
            status, lines = self.run_it(*arguments)
            self.assertEqual((status, lines), (2, []), arguments)


if __name__ == "__main__":
    unittest.main()
