# SPDX-License-Identifier: Apache-2.0
"""The build id of kiln-validate is a digest of all sources that its answers depend on: what it includes, directly or
not, and what these headers declare."""
import fnmatch
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN = ["exec/validate", "exec/support", "exec/vm", "kernel"]


def globs():
    text = (ROOT / "exec/validate/CMakeLists.txt").read_text()
    text = re.sub(r"#.*", "", text)
    found = re.search(r"kiln_source_digest\([^)]*GLOBS([^)]*)\)", text)
    return found.group(1).split()


def used():
    todo = [str(path.relative_to(ROOT)) for folder in OWN for path in (ROOT / folder).rglob("*.*")
            if path.suffix in (".h", ".cc")]
    seen = set()
    while todo:
        name = todo.pop()
        path = ROOT / name
        if name in seen or not path.exists():
            continue
        seen.add(name)
        for included in re.findall(r'#include "([^"]+)"', path.read_text()):
            if included.startswith("kiln/"):  # a public header, and what implements it
                todo += ["include/" + included, re.sub(r"^kiln/(\w+)\.h$", r"base/\1.cc", included)]
            todo += [included, re.sub(r"\.h$", ".cc", included)]
    return seen


class ValidatorSourcesTest(unittest.TestCase):
    def test_the_build_id_covers_what_is_used(self):
        patterns = globs()
        left_out = [name for name in sorted(used())
                    if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
        self.assertEqual(left_out, [], "add these to GLOBS of exec/validate/CMakeLists.txt")

    def test_the_build_id_covers_nothing_else(self):
        names = used()
        idle = [pattern for pattern in globs() if not any(fnmatch.fnmatch(name, pattern) for name in names)]
        self.assertEqual(idle, [], "nothing that is used has such a name")

    def test_frames_and_child_processes_are_found(self):
        self.assertLessEqual({"base/frames.cc", "base/child_process.cc", "base/little_endian.h"}, used())


if __name__ == "__main__":
    unittest.main()
