# SPDX-License-Identifier: Apache-2.0
"""scripts/run_tests.py with the real ctest on small made-up builds."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
CALL = "import sys; sys.path.insert(0, sys.argv[1]); import pathlib, run_tests; " \
       "sys.exit(run_tests.main(sys.argv[3:], pathlib.Path(sys.argv[2])))"


class Project:
    """A source tree with a build tree in which each test is a line of shell."""

    def __init__(self, folder, tests, properties=""):
        self.root = pathlib.Path(folder).resolve()
        self.build = self.root / "build/ci"
        (self.build / "tests/bin").mkdir(parents=True)
        (self.root / "source.cc").write_text("int main() {}\n")
        (self.build / "tests/bin/program").write_text("binary\n")
        text = "".join(f'add_test({name} "sh" "-c" "{command}")\n' for name, command in tests.items())
        (self.build / "CTestTestfile.cmake").write_text(text + properties)

    def command(self, *arguments):
        return [sys.executable, "-c", CALL, str(SCRIPTS), str(self.root), "--build", str(self.build), *arguments]

    def run(self, *arguments):
        # PATH alone: a run of ctest around this one has variables of its own.
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, env={"PATH": os.environ["PATH"]})


def names_run(output):
    """The tests that ctest says it ran."""
    return re.findall(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) ", output, re.M)


class RunTests(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def project(self, tests, properties=""):
        return Project(self.folder.name, tests, properties)

    def last_line(self, done):
        return done.stdout.splitlines()[-1]


class Counting(RunTests):
    def test_minutes_by_label_come_before_the_last_line(self):
        project = self.project({"a": "exit 0", "b": "exit 0", "c": "exit 0"},
                               'set_tests_properties(a PROPERTIES LABELS unit)\n'
                               'set_tests_properties(b PROPERTIES LABELS "install;full")\n')
        done = project.run()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.last_line(done), "3 passed, 0 failed")
        report = done.stdout[done.stdout.index("minutes by label"):]
        for label, tests in (("unit", "1 test"), ("install", "1 test"), ("full", "1 test"), ("quick", "1 test"), ("all", "3 tests")):
            self.assertRegex(report, rf"(?m)^  {label} +0\.\d\d  {tests}$")

    def test_a_failure_is_counted_and_is_the_exit_status(self):
        done = self.project({"good": "exit 0", "bad": "exit 1"}).run()
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.last_line(done), "1 passed, 1 failed")

    def test_a_test_without_a_program_failed(self):
        project = self.project({"good": "exit 0"}, 'add_test(gone "/no/such/program")\n')
        done = project.run()
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.last_line(done), "1 passed, 1 failed")

    def test_what_says_itself_that_it_is_skipped_did_not_fail(self):
        project = self.project({"good": "exit 0", "none": "exit 77"},
                               "set_tests_properties(none PROPERTIES SKIP_RETURN_CODE 77)\n")
        done = project.run()
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.splitlines()[-2:], ["1 skipped", "1 passed, 0 failed"])

    def test_cases_of_gtest_are_counted(self):
        xml = "<testsuites><testsuite><testcase name='x' status='run'/><testcase name='y' status='run'/></testsuite></testsuites>"
        project = self.project({"cases": f"echo \\\"{xml}\\\" > $${{GTEST_OUTPUT#xml:}}cases.xml".replace("$$", "\\$")})
        done = project.run()
        self.assertEqual(self.last_line(done), "2 passed, 0 failed", done.stdout)

    def test_no_tests_at_all_is_a_failure(self):
        self.assertNotEqual(self.project({"a": "exit 0"}).run("--", "-R", "nothing").returncode, 0)


class Shards(RunTests):
    TESTS = {f"t{i}": "exit 0" for i in range(11)}

    def test_every_test_runs_in_one_shard(self):
        project = self.project(self.TESTS)
        ran = []
        for i in (1, 2, 3):
            done = project.run("--shard", f"{i}/3")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            ran += names_run(done.stdout)
        self.assertEqual(sorted(ran), sorted(self.TESTS))

    def test_shards_of_filtered_tests(self):
        project = self.project(self.TESTS, "set_tests_properties(t0 t3 t4 PROPERTIES LABELS full)\n")
        ran = []
        for i in (1, 2):
            ran += names_run(project.run("--shard", f"{i}/2", "--", "-LE", "^full$").stdout)
        self.assertEqual(sorted(ran), sorted(set(self.TESTS) - {"t0", "t3", "t4"}))

    def test_a_shard_does_not_change_the_cut_of_the_next(self):
        project = self.project({"slow": "sleep 0.5", **self.TESTS})
        cuts = {re.search(r"cut (\w+),", project.run("--shard", f"{i}/2", "--record").stdout)[1] for i in (1, 2, 1)}
        self.assertEqual(len(cuts), 1)

    def test_durations_of_a_whole_run_balance(self):
        project = self.project({"slow": "sleep 0.5", **self.TESTS})
        project.run()
        self.assertFalse((project.build / "test-durations.json").exists())
        project.run("--record")
        self.assertIn("slow", json.loads((project.build / "test-durations.json").read_text()))
        self.assertEqual(names_run(project.run("--shard", "1/2").stdout), ["slow"])

    def test_more_shards_than_tests(self):
        done = self.project({"a": "exit 0"}).run("--shard", "2/2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.last_line(done), "0 passed, 0 failed")

    def test_wrong_shards_are_refused(self):
        done = self.project({"a": "exit 0"}).run("--shard", "3/2")
        self.assertEqual(done.returncode, 2)
        self.assertIn('"3/2" is no shard; write i/n', done.stderr)


class Resume(RunTests):
    def interrupted(self, tests, kill):
        """The project after a run that was killed while its test `stays` ran; `stays` ends at once the next time."""
        waits = "test -f again && exit 0; touch again; sleep 60"
        project = self.project({**tests, "stays": waits}, "set_tests_properties(stays PROPERTIES DEPENDS "
                               f'"{";".join(tests)}")\n')
        process = subprocess.Popen(project.command(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
                                   text=True, env={"PATH": os.environ["PATH"]})
        # The script shows this line after it has noted the results of the tests before.
        next(line for line in process.stdout if re.search(r"Start +\d+: stays$", line))
        limit = time.monotonic() + 60
        while not (project.build / "again").exists() and time.monotonic() < limit:
            time.sleep(.05)
        os.killpg(process.pid, kill)
        process.communicate()
        return project

    def test_what_passed_is_not_run_again_and_is_counted(self):
        for kill in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
            with self.subTest(kill=kill), tempfile.TemporaryDirectory() as folder:
                self.folder = type("Folder", (), {"name": folder})
                project = self.interrupted({"a": "exit 0", "b": "exit 0"}, kill)
                done = project.run("--resume")
                self.assertEqual(names_run(done.stdout), ["stays"], done.stdout + done.stderr)
                self.assertIn("resumes: 2 of 3 tests passed before", done.stdout)
                self.assertIn("of these 2 passed, in 2 tests, before the run was interrupted", done.stdout)
                self.assertEqual(self.last_line(done), "3 passed, 0 failed")
                self.assertEqual(done.returncode, 0)
                self.assertRegex(done.stdout, r"  all +\d+\.\d\d  3 tests")

    def test_what_failed_is_run_again(self):
        project = self.interrupted({"a": "exit 0", "bad": "exit 1"}, signal.SIGKILL)
        done = project.run("--resume")
        self.assertEqual(sorted(names_run(done.stdout)), ["bad", "stays"])
        self.assertEqual(self.last_line(done), "2 passed, 1 failed")

    def test_output_of_a_failed_test_is_not_taken_for_a_result(self):
        fake = "echo '1/3 Test #2: b ......   Passed    0.01 sec'; exit 1"
        project = self.interrupted({"a": fake, "b": "exit 1"}, signal.SIGKILL)
        done = project.run("--resume")
        self.assertIn("starts anew: nothing had passed in the earlier run", done.stdout)
        self.assertEqual(self.last_line(done), "1 passed, 2 failed")

    def test_a_change_of_anything_starts_anew_and_says_so(self):
        changes = {
            "source": lambda project: (project.root / "source.cc").write_text("int main() { return 1; }\n"),
            "new source": lambda project: (project.root / "more.cc").write_text("\n"),
            "program": lambda project: (project.build / "tests/bin/program").write_text("another\n"),
        }
        for name, change in changes.items():
            with self.subTest(change=name), tempfile.TemporaryDirectory() as folder:
                self.folder = type("Folder", (), {"name": folder})
                project = self.interrupted({"a": "exit 0"}, signal.SIGKILL)
                change(project)
                done = project.run("--resume")
                self.assertEqual(sorted(names_run(done.stdout)), ["a", "stays"])
                self.assertIn("starts anew: sources, programs, data or environment changed", done.stdout)
                self.assertNotIn("before the run was interrupted", done.stdout)

    def test_a_run_that_ended_is_not_resumed(self):
        project = self.project({"a": "exit 0", "b": "exit 1"})
        project.run()
        done = project.run("--resume")
        self.assertEqual(sorted(names_run(done.stdout)), ["a", "b"])
        self.assertIn("starts anew: the earlier run came to its end", done.stdout)

    def test_without_the_flag_all_run(self):
        project = self.interrupted({"a": "exit 0"}, signal.SIGKILL)
        self.assertEqual(sorted(names_run(project.run().stdout)), ["a", "stays"])

    def test_interrupted_twice(self):
        project = self.interrupted({"a": "exit 0", "b": "exit 0"}, signal.SIGKILL)
        (project.build / "again").unlink()
        process = subprocess.Popen(project.command("--resume"), stdout=subprocess.DEVNULL, start_new_session=True,
                                   env={"PATH": os.environ["PATH"]})
        while not (project.build / "again").exists():
            time.sleep(.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        done = project.run("--resume")
        self.assertEqual(names_run(done.stdout), ["stays"])
        self.assertEqual(self.last_line(done), "3 passed, 0 failed")

    def test_ctest_arguments_that_collide_are_refused(self):
        self.assertEqual(self.project({"a": "exit 0"}).run("--resume", "--", "-I", "1,1").returncode, 2)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with it ignored
    unittest.main()
