#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints "N passed, N failed" for the folder that scripts/test fills.

Usage: count_tests.py DIR

DIR/ctest.junit has one entry for each ctest entry, DIR/*.xml one file for each gtest binary that ended by
itself. Cases are counted from the latter; an entry without such a file (a script, or a binary that
crashed) counts as one case. Exit 1 when a case failed or nothing ran.
"""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def gtest_cases(path):
    """The (passed, failed, skipped) cases of one gtest result file."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None:
            failed += 1
        elif case.get("result") == "skipped" or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    results = pathlib.Path(sys.argv[1])
    passed = failed = skipped = 0
    for entry in ElementTree.parse(results / "ctest.junit").getroot().iter("testcase"):
        entry_ok = entry.get("status") == "run"
        counts = results / (entry.get("name") + ".xml")
        if counts.exists():
            entry_passed, entry_failed, entry_skipped = gtest_cases(counts)
            if not entry_ok and entry_failed == 0:
                entry_failed = 1  # failed outside of a case: a sanitizer's report at exit
        elif entry.get("status") in ("disabled", "notrun"):
            entry_passed, entry_failed, entry_skipped = 0, 0, 1
        else:
            entry_passed, entry_failed, entry_skipped = int(entry_ok), int(not entry_ok), 0
        passed, failed, skipped = passed + entry_passed, failed + entry_failed, skipped + entry_skipped
    if skipped:
        print(f"{skipped} skipped")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
