# SPDX-License-Identifier: Apache-2.0
"""scripts/baseline in a small repository whose scripts/build only notes that it was called."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BASELINE = pathlib.Path(__file__).resolve().parents[2] / "scripts/baseline"
BUILD = '''#!/usr/bin/env bash
cd "$(dirname "$0")/.."
echo "build $*"
echo "$*" >> "$CALLS"
[[ -z ${FAILS-} ]] || exit 3
mkdir -p build/release/bin
cp text.txt build/release/bin/kiln
chmod +x build/release/bin/kiln
'''


@unittest.skipUnless(shutil.which("git") and shutil.which("flock"), "needs git and flock")
class Baseline(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve() / "checkout"
        self.calls = self.root.parent / "calls"
        (self.root / "scripts").mkdir(parents=True)
        shutil.copy(BASELINE, self.root / "scripts/baseline")
        for name, text in {"build": BUILD, "setup": "setup", "wheels.txt": "wheels", "privatise_onednn.py": "code"}.items():
            (self.root / "scripts" / name).write_text(text)
        (self.root / "scripts/build").chmod(0o755)
        (self.root / ".gitignore").write_text("/build/\n/.deps/\n")
        self.git("init", "-q")
        self.commits = [self.commit(text) for text in ("first\n", "second\n")]

    def git(self, *arguments):
        done = subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=n@example.org", *arguments], cwd=self.root,
                              capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, text):
        (self.root / "text.txt").write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", text.strip())
        return self.git("rev-parse", "HEAD")

    def start(self, *arguments, **variables):
        return subprocess.Popen([self.root / "scripts/baseline", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "CALLS": str(self.calls), **variables})

    def baseline(self, *arguments, **variables):
        process = self.start(*arguments, **variables)
        said, errors = process.communicate()
        return process.returncode, said, errors

    def number_of_builds(self):
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0

    def test_a_commit_is_built_once_and_only_its_path_is_printed(self):
        want = self.root / f"build/baseline/{self.commits[0]}/build/release/bin/kiln"
        for _ in range(2):
            self.assertEqual(self.baseline("HEAD~1")[:2], (0, f"{want}\n"))
        self.assertEqual(want.read_text(), "first\n")
        self.assertEqual(self.calls.read_text(), "release kiln kiln-codegen\n")
        self.assertEqual(self.git("status", "--short"), "")

    def test_a_failed_build_is_made_again(self):
        status, said, _ = self.baseline("HEAD", FAILS="1")
        self.assertEqual((status, said), (3, ""))
        self.assertEqual(self.baseline("HEAD")[0], 0)
        self.assertEqual(self.number_of_builds(), 2)

    def test_two_at_once_build_once(self):
        both = [self.start("HEAD") for _ in range(2)]
        self.assertEqual(len({process.communicate()[0] for process in both}), 1)
        self.assertEqual(self.number_of_builds(), 1)

    def test_dependencies_are_shared_where_the_commit_wants_the_same(self):
        (self.root / ".deps").mkdir()
        stamp = subprocess.run("cat scripts/setup scripts/wheels.txt scripts/privatise_onednn.py | sha256sum", shell=True, cwd=self.root,
                               capture_output=True, text=True, check=True).stdout
        (self.root / ".deps/stamp").write_text(stamp)
        (self.root / "scripts/wheels.txt").write_text("other wheels")
        other = self.commit("third\n")
        for commit, shared in ((self.commits[0], True), (other, False)):
            self.assertEqual(self.baseline(commit)[0], 0)
            self.assertEqual((self.root / f"build/baseline/{commit}/.deps").is_symlink(), shared)

    def test_wrong_usage(self):
        for arguments in ([], ["HEAD", "HEAD~1"], ["nosuch"], ["--flag"]):
            self.assertEqual(self.baseline(*arguments)[0], 2, arguments)
        self.assertEqual(self.baseline("--help")[0], 0)
        self.assertEqual(self.number_of_builds(), 0)


if __name__ == "__main__":
    unittest.main()
