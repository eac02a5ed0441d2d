# SPDX-License-Identifier: Apache-2.0
"""scripts/third_party: THIRD_PARTY.md is up to date, and what is not up to date is found."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATH = ROOT / "scripts/third_party"
LOADER = importlib.machinery.SourceFileLoader("third_party", str(PATH))
third_party = importlib.util.module_from_spec(importlib.util.spec_from_loader("third_party", LOADER))
sys.modules["third_party"] = third_party
LOADER.exec_module(third_party)

VERSIONS = {part.name: "1.0" for part in third_party.PARTS}
PAGE = third_party.page(VERSIONS, {})
COPYRIGHT = """Format: 1.0

Files: *
Copyright: 2001 A
  2002 B
License: BSD-3-Clause~A

Files: include/b.h
Copyright: 2003 C
License: BSD-3-Clause~A

Files: tests/*
Copyright: 2004 D
License: GPL-3

License: BSD-3-Clause~A
 First line.
 .
   Indented.

License: GPL-3
 Another text.
"""


def run(*arguments):
    return subprocess.run([PATH, *arguments], capture_output=True, text=True)


class CommandTest(unittest.TestCase):
    def test_the_page_is_up_to_date(self):
        done = run("--check")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_wrong_usage(self):
        self.assertEqual(run("--chek").returncode, 2)
        self.assertEqual(run("--check", "x").returncode, 2)

    def test_help(self):
        done = run("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("usage: scripts/third_party [--check]", done.stdout)


class TableTest(unittest.TestCase):
    def faults(self, page, **versions):
        return third_party.table_faults(page, {**VERSIONS, **versions})

    def test_a_page_as_written_has_no_fault(self):
        self.assertEqual(self.faults(PAGE), ([], []))

    def test_a_changed_licence_is_a_fault(self):
        page = PAGE.replace("| Abseil | 1.0 | Apache-2.0 |", "| Abseil | 1.0 | MIT |")
        self.assertEqual(self.faults(page), (['the row "Abseil" differs; run scripts/third_party'], []))

    def test_a_row_that_is_missing_added_or_moved_is_a_fault(self):
        lines = PAGE.splitlines(keepends=True)
        row = next(k for k, line in enumerate(lines) if line.startswith("| CLI11 "))
        for page in (lines[:row] + lines[row + 1:], lines[:row] + [lines[row]] + lines[row:],
                     lines[:row] + ["| zlib | 1 | Zlib | no | no |\n"] + lines[row:], lines[:row] + [lines[row + 1], lines[row]] + lines[row + 2:]):
            faults, _ = self.faults("".join(page))
            self.assertEqual(len(faults), 1, page)

    def test_a_row_without_cells_is_a_fault(self):
        lines = ["| CLI11 |" if line.startswith("| CLI11 ") else line for line in PAGE.splitlines()]
        self.assertEqual(len(self.faults("\n".join(lines))[0]), 1)

    def test_another_version_of_a_debian_package_is_a_note(self):
        self.assertEqual(self.faults(PAGE, Abseil="2.0"), ([], ["Abseil: this machine has 2.0, the page says 1.0"]))

    def test_another_version_of_a_wheel_is_a_fault(self):
        self.assertEqual(self.faults(PAGE, oneDNN="2.0")[0], ['the row "oneDNN" differs; run scripts/third_party'])

    def test_what_a_machine_does_not_know_is_no_difference(self):
        self.assertEqual(third_party.table_faults(PAGE, {}), ([], []))

    def test_a_page_without_the_short_texts_is_out_of_date(self):
        texts = {part.name: "text" for part in third_party.PARTS if third_party.has_short_text(part)}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "page.md"
            self.assertEqual(len(third_party.check(path, VERSIONS)[0]), 1)
            path.write_text(third_party.page(VERSIONS, texts))
            self.assertEqual(third_party.check(path, VERSIONS), ([], []))
            path.write_text(PAGE)
            self.assertEqual(len(third_party.check(path, VERSIONS)[0]), len(texts))


class DependenciesTest(unittest.TestCase):
    def test_a_new_package_or_wheel_needs_a_row(self):
        self.assertEqual(third_party.unknown_dependencies(["libabsl-dev", "cmake", "zlib1g-dev"], ["halide", "torch"]), ["zlib1g-dev", "torch"])

    def test_names_of_wheels(self):
        self.assertEqual(third_party.wheels("# pinned: a==1\n\nhalide==21.0.0 --hash=sha256:00\n"), {"halide": "21.0.0"})


class LicenceTest(unittest.TestCase):
    PART = third_party.Part("x", "BSD-3-Clause", "", "below", "debian:x")

    def test_copyright_files_of_debian(self):
        self.assertEqual(third_party.dep5(COPYRIGHT), ("BSD-3-Clause", "Copyright 2001 A 2002 B\nCopyright 2003 C\n\nFirst line.\n\n  Indented."))
        self.assertIsNone(third_party.dep5("This package was made by somebody.\n"))

    def test_another_licence_is_a_fault(self):
        self.assertIsNone(third_party.licence_fault(self.PART, COPYRIGHT))
        self.assertEqual(third_party.licence_fault(self.PART, COPYRIGHT.replace("BSD-3-Clause~A", "GPL-3")),
                         "its licence is GPL-3, the row says BSD-3-Clause")
        self.assertEqual(third_party.licence_fault(self.PART, ""), "its licence text is of no known form")

    def test_a_phrase_that_is_not_there_is_a_fault(self):
        part = third_party.Part("x", "MIT", "", "below", "1", says="free of charge")
        self.assertIsNone(third_party.licence_fault(part, "is granted, free of charge"))
        self.assertEqual(third_party.licence_fault(part, "for money"), 'its licence text does not say "free of charge"')

    def test_versions_without_what_debian_adds(self):
        self.assertEqual([third_party.upstream(version) for version in ("3.21.12-3+deb12u1", "2.1.2+ds-1", "1:1.2.13.dfsg-1", "2.36-9+deb12u14")],
                         ["3.21.12", "2.1.2", "1.2.13.dfsg", "2.36"])

    def test_a_version_in_a_binary(self):
        self.assertIsNone(third_party.version_in(ROOT / "no-such-file", "x"))
        self.assertEqual(third_party.version_in(PATH, r"usage: scripts/(third_party) "), "third_party")


if __name__ == "__main__":
    unittest.main()
