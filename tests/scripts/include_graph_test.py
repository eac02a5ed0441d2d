# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import include_graph  # noqa: E402


def files(**texts):
    """a_h="b.h c.h" is the file x/a.h, which includes x/b.h and x/c.h."""
    return {pathlib.PurePosixPath("x", name[::-1].replace("_", ".", 1)[::-1].replace("__", "-")):
            "".join(f'#include "x/{other}"\n' for other in text.split()) for name, text in texts.items()}


def circles(**texts):
    return include_graph.circles(include_graph.dependencies(files(**texts)))


class IncludeGraph(unittest.TestCase):
    def test_a_header_and_its_source_are_one_unit(self):
        self.assertEqual(circles(a_h="", a_cc="a.h b.h", b_h="a.h"), [["x/a", "x/b"]])

    def test_a_source_of_another_name_is_not(self):
        self.assertEqual(circles(a_h="", a2_cc="a.h b.h", b_h="a.h"), [])

    def test_what_both_need_below_them_cuts_the_circle(self):
        self.assertEqual(circles(types_h="", a_cc="a.h b.h", a_h="types.h", b_h="types.h"), [])

    def test_long_circles_are_found_whole_and_apart(self):
        self.assertEqual(circles(a_h="b.h", b_h="c.h", c_h="a.h", d_h="a.h", e_h="f.h", f_h="e.h"),
                         [["x/a", "x/b", "x/c"], ["x/e", "x/f"]])

    def test_parts_of_a_source_belong_to_it(self):
        parts = {"ops_h": "", "ops_cc": "ops.h one-inl.h", "one__inl_h": "ops.h two-inl.h", "two__inl_h": "ops.h"}
        self.assertEqual(circles(**parts), [])
        self.assertEqual(circles(**{**parts, "two__inl_h": "tile.h", "tile_h": "ops.h"}), [["x/ops", "x/tile"]])

    def test_other_components_do_not_count(self):
        texts = {pathlib.PurePosixPath("x/a.h"): '#include "y/b.h"\n', pathlib.PurePosixPath("y/b.h"): '#include "x/a.h"\n'}
        self.assertEqual(include_graph.circles(include_graph.dependencies(texts)), [])

    def test_messages_name_the_edges_and_what_has_gone(self):
        messages = list(include_graph.check(files(a_h="b.h", b_h="a.h")))
        self.assertIn("x/a -> x/b, x/b -> x/a", messages[0])
        self.assertEqual(len(messages), 1 + len(include_graph.ALLOWED))


if __name__ == "__main__":
    unittest.main()
