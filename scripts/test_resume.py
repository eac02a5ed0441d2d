# SPDX-License-Identifier: Apache-2.0
"""What an interrupted run of the tests leaves behind, so that the next one can go on from there.

A record has one line for what was tested (build_key), one for each test that passed, written when it passed, and one when the run
came to its end. It is used again only if nothing that a test's result depends on has changed.
"""
import hashlib
import json
import os
import pathlib
import subprocess

VARIABLES = ("KILN_", "GTEST_", "OMP_")  # of the environment, by their beginnings


def source_files(root):
    """Files git knows or would take; all but build products where there is no git."""
    git = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, capture_output=True)
    if git.returncode == 0:
        return sorted({root / os.fsdecode(name) for name in git.stdout.split(b"\0") if name})
    return [path for path in sorted(root.rglob("*")) if path.relative_to(root).parts[0] not in (".git", ".deps", "build")]


def programs(build):
    """What the tests run."""
    return [path for folder in ("bin", "tests/bin") for path in sorted((build / folder).glob("*"))]


def stamps(root):
    """What was fetched: a file each that changes with it."""
    return sorted((root / ".deps").glob("stamp")) + sorted((root / ".deps").glob("*/stamp")) + sorted(
        (root / ".deps").glob("models/*/*"))


def cpu_features():
    """Tests of compiled code depend on the instruction set."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))


def build_key(root, build, environment=None):
    """A digest of the sources, the test programs, the fetched data, the environment and the processor."""
    environment = os.environ if environment is None else environment
    total = hashlib.sha256()
    for path in [*source_files(root), *programs(build), *stamps(root)]:
        if path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            total.update(f"{path.relative_to(root)} {path.stat().st_mode & 0o111} {content}\n".encode())
    for name in sorted(environment):
        if name.startswith(VARIABLES):
            total.update(f"{name}={environment[name]}\n".encode())
    total.update(cpu_features().encode())
    return total.hexdigest()


class Record:
    """The record of the run in one folder of results."""

    def __init__(self, path):
        self.path = path

    def passed_before(self, key):
        """(seconds by test that passed, why there is none or "")."""
        if not self.path.exists():
            return {}, "there is no earlier run"
        lines = list(self.lines())
        if not lines or lines[0].get("key") != key:
            return {}, "sources, programs, data or environment changed since the earlier run"
        if any(line.get("ended") for line in lines):
            return {}, "the earlier run came to its end"
        passed = {line["passed"]: line["seconds"] for line in lines if "passed" in line}
        return passed, "" if passed else "nothing had passed in the earlier run"

    def lines(self):
        for line in self.path.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                return  # the process was killed while it wrote

    def start(self, key, passed):
        """Begins anew with what passed before, in one step: a run that is killed here loses nothing."""
        temporary = self.path.with_suffix(".new")
        lines = [{"key": key}] + [{"passed": name, "seconds": seconds} for name, seconds in passed.items()]
        temporary.write_text("".join(json.dumps(line) + "\n" for line in lines))
        temporary.replace(self.path)

    def add(self, **line):
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
