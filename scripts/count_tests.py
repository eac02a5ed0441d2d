# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases of a run of ctest, and the minutes that each label took.

A run is a folder with ctest.junit, one entry for each ctest entry, and one *.xml for each gtest binary that ended by itself.
Cases are counted from the latter; an entry without such a file (a script, or a binary that crashed) counts as one case.
"""
import collections
import xml.etree.ElementTree as ElementTree

UNLABELLED = "quick"  # what has no label belongs to the quick tests

# ok: ended well; skipped: said itself that it cannot run here.
Entry = collections.namedtuple("Entry", "name ok skipped seconds")


def read_junit(path):
    """The entries of a ctest.junit. One whose program is not there did not run: it failed."""
    entries = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        status, why = case.get("status"), case.find("skipped")
        message = why.get("message", "") if why is not None else ""
        skipped = status == "disabled" or (status == "notrun" and message.startswith("SKIP_"))
        entries.append(Entry(case.get("name"), status == "run", skipped, float(case.get("time") or 0)))
    return entries


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


def entry_cases(entry, results):
    """The same of one ctest entry."""
    cases = results / (entry.name + ".xml")
    if not cases.exists():
        return (0, 0, 1) if entry.skipped else (int(entry.ok), int(not entry.ok), 0)
    passed, failed, skipped = gtest_cases(cases)
    if not entry.ok and failed == 0:
        failed = 1  # failed outside of a case: a sanitizer's report at exit
    return passed, failed, skipped


def count(entries, results):
    """(passed, failed, skipped) cases of all entries."""
    total = [0, 0, 0]
    for entry in entries:
        total = [t + n for t, n in zip(total, entry_cases(entry, results))]
    return tuple(total)


def minutes_by_label(entries, labels):
    """[(label, minutes, entries)], the longest first; `labels` maps names to lists. An entry counts for each of its labels."""
    seconds, counts = collections.Counter(), collections.Counter()
    for entry in entries:
        for label in labels.get(entry.name) or [UNLABELLED]:
            seconds[label] += entry.seconds
            counts[label] += 1
    return sorted(((label, seconds[label] / 60, counts[label]) for label in counts), key=lambda row: (-row[1], row[0]))


def label_report(entries, labels):
    """Lines that say what minutes_by_label gives. Times of tests that ran side by side add up."""
    rows = minutes_by_label(entries, labels)
    rows.append(("all", sum(entry.seconds for entry in entries) / 60, len(entries)))
    width = max(len(row[0]) for row in rows)
    return ["minutes by label, added up over tests:"] + [
        f"  {label:{width}} {minutes:7.2f}  {tests} test{'s' if tests != 1 else ''}" for label, minutes, tests in rows]


def count_report(entries, results, earlier=()):
    """(lines, ok): the last line is "N passed, N failed". `earlier` passed before an interruption, with files in the same folder."""
    passed, failed, skipped = count([*entries, *earlier], results)
    lines = []
    if earlier:
        before = count(earlier, results)[0]
        lines.append(f"of these {before} passed, in {len(earlier)} tests, before the run was interrupted")
    if skipped:
        lines.append(f"{skipped} skipped")
    lines.append(f"{passed} passed, {failed} failed")
    return lines, failed == 0 and passed > 0
