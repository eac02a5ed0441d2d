# SPDX-License-Identifier: Apache-2.0
"""Every test that docs/lite.md names is there: `binary` in a CMakeLists.txt, `Suite.Case` in its sources."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# `compiler_test`: `Suite.Case`, `Suite.Other`; `scripts_pages_test` alone is a test of Python.
NAMED = re.compile(r"`([a-z0-9_]+_test)`(?:: ((?:`[A-Z]\w*\.\w+`(?:, )?)+))?")


def binaries():
    """Names of tests, each with the files it is made of."""
    found = {}
    for file in (ROOT / "tests").rglob("CMakeLists.txt"):
        text = file.read_text()
        for name, sources in re.findall(r"kiln_test\(\s*NAME (\w+)\s+SRCS\s+(.*?)\s+DEPS", text, re.DOTALL):
            found[name] = [file.parent / source for source in sources.split()]
    for source in (ROOT / "tests" / "scripts").glob("*_test.py"):
        found[f"scripts_{source.stem}"] = [source]
    return found


def rows():
    lines = (ROOT / "docs" / "lite.md").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| there | here |"))
    end = next(i for i, line in enumerate(lines) if i > start and not line.startswith("| "))
    table = lines[start:end]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table[2:]]


class LiteTableTest(unittest.TestCase):
    def test_every_test_it_names_is_there(self):
        known = binaries()
        faults, named = [], 0
        for row in rows():
            tests = NAMED.findall(row[-1])
            if not tests:
                faults.append(f"{row[0]}: names no test")
            for binary, cases in tests:
                named += 1
                if binary not in known:
                    faults.append(f"{row[0]}: there is no test {binary}")
                    continue
                text = "\n".join(source.read_text() for source in known[binary])
                for suite, case in re.findall(r"`(\w+)\.(\w+)`", cases):
                    if not re.search(rf"TEST(_F|_P)?\(\s*{suite},\s*{case}\)", text):
                        faults.append(f"{row[0]}: {binary} has no {suite}.{case}")
        self.assertGreater(named, 30)
        self.assertEqual(faults, [])

    def test_rows_have_four_cells_and_names_of_their_own(self):
        names = [row[0] for row in rows()]
        self.assertEqual([row for row in rows() if len(row) != 4], [])
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main()
