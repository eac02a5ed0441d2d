# SPDX-License-Identifier: Apache-2.0
"""docs/environment.md has the variables that Kiln reads, and no others; those of tests and scripts stand in CONTRIBUTING.md."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPONENTS = ("base", "kernel", "graph", "schedule", "fusion", "halide_gen", "persistent_cache", "exec", "compiler", "c_api", "tools", "examples")
# What a file reads by a literal: getenv, its wrappers, and names that are passed on to one.
READ = re.compile(r'(?:getenv|Variable|Environment)\(\s*"([A-Z_0-9]+)"|"((?:KILN|XDG)_[A-Z_0-9]+)"')
SHELL = re.compile(r"\$\{?(KILN_[A-Z_0-9]+)|environ(?:\.get\(|\[)[\"'](KILN_[A-Z_0-9]+)")
# Not Kiln's: the host's variables by way of python and bash, and what cmake is given.
OF_CMAKE = {"KILN_TESTS", "KILN_BENCH", "KILN_DEPS", "KILN_INSTALL"}


def read_by(folders, pattern, suffixes):
    found = {}
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*")):
        if path.is_file() and path.suffix in suffixes:
            for names in pattern.findall(path.read_text()):
                found.setdefault(next(filter(None, names)), path.relative_to(ROOT))
    return found


def documented():
    rows = [line.split(" | ")[0] for line in (ROOT / "docs" / "environment.md").read_text().splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([A-Z_0-9]+)`", row)]


class EnvironmentPageTest(unittest.TestCase):
    maxDiff = None

    def test_it_has_what_is_read_and_nothing_else(self):
        constants = set(re.findall(r"^ +(KILN_\w+) = ", (ROOT / "include" / "kiln" / "kiln.h").read_text(), re.M))  # that generated code names
        read = {name: path for name, path in read_by(COMPONENTS, READ, {".cc", ".h"}).items()
                if name not in constants and not name.endswith("_")}
        self.assertGreater(len(read), 20)
        named = documented()
        self.assertEqual(len(named), len(set(named)), "a variable stands in two rows")
        self.assertEqual({name: path for name, path in read.items() if name not in named}, {}, "read, and not in docs/environment.md")
        self.assertEqual(set(named) - set(read), set(), "in docs/environment.md, and read nowhere")

    def test_variables_of_tests_and_scripts_are_in_contributing(self):
        page = (ROOT / "CONTRIBUTING.md").read_text() + (ROOT / "docs" / "environment.md").read_text()
        read = {**read_by(["tests", "bench"], READ, {".cc", ".h"}), **read_by(["scripts", "bench", "tests"], SHELL, {"", ".py", ".sh"})}
        missing = {name: path for name, path in read.items() if name.startswith("KILN_") and name not in OF_CMAKE and f"{name}" not in page}
        self.assertEqual(missing, {}, "read by tests or scripts, and not in CONTRIBUTING.md")


if __name__ == "__main__":
    unittest.main()
