# SPDX-License-Identifier: Apache-2.0
"""scripts/test_shards.py: every test in one part, parts of about equal time, the same cut at every call."""
import collections
import pathlib
import random
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import count_tests
import test_shards

Test = collections.namedtuple("Test", "name timeout")


def tests_named(*names, timeout=300):
    return [Test(name, timeout) for name in names]


class ParseShard(unittest.TestCase):
    def test_takes_what_lies_between_1_and_n(self):
        self.assertEqual(test_shards.parse_shard("2/4"), (2, 4))
        self.assertEqual(test_shards.parse_shard("1/1"), (1, 1))

    def test_refuses_all_else(self):
        for text in ("0/4", "5/4", "1/0", "2", "a/b", "1/2/3", "-1/4", ""):
            with self.assertRaises(ValueError, msg=text):
                test_shards.parse_shard(text)


class Cut(unittest.TestCase):
    def test_every_test_is_in_exactly_one_part(self):
        generator = random.Random(5)
        for n in range(1, 12):
            tests = tests_named(*(f"t{i}" for i in range(generator.randrange(40))))
            known = {test.name: generator.random() * 100 for test in tests if generator.random() < .5}
            parts = test_shards.cut(tests, known, n)
            self.assertEqual(len(parts), n)
            self.assertEqual(sorted(name for part in parts for name in part), sorted(test.name for test in tests))

    def test_the_order_of_the_list_does_not_matter(self):
        tests = tests_named(*(f"t{i}" for i in range(30)))
        known = {f"t{i}": float(i % 7) for i in range(20)}
        want = test_shards.cut(tests, known, 4)
        random.Random(1).shuffle(tests)
        self.assertEqual(test_shards.cut(tests, known, 4), want)
        self.assertEqual(test_shards.digest(test_shards.cut(tests, known, 4)), test_shards.digest(want))

    def test_parts_are_of_about_equal_time(self):
        generator = random.Random(3)
        tests = tests_named(*(f"t{i}" for i in range(90)))
        known = {test.name: generator.expovariate(.1) for test in tests}
        loads = [sum(known[name] for name in part) for part in test_shards.cut(tests, known, 4)]
        self.assertLess(max(loads) - min(loads), max(known.values()))
        self.assertLess(max(loads), 1.1 * sum(loads) / 4)

    def test_a_long_test_has_a_part_of_its_own(self):
        tests = tests_named("long", "a", "b", "c")
        parts = test_shards.cut(tests, {"long": 100, "a": 1, "b": 1, "c": 1}, 2)
        self.assertEqual(parts, [["long"], ["a", "b", "c"]])

    def test_without_durations_timeouts_are_shared_out(self):
        tests = [Test("conformance", 10800), *tests_named("a", "b", "c")]
        self.assertEqual(test_shards.cut(tests, {}, 2), [["conformance"], ["a", "b", "c"]])

    def test_unknown_tests_take_the_share_of_their_timeout_that_others_take(self):
        tests = [Test("known", 100), Test("unknown", 400)]
        self.assertEqual(test_shards.expected_seconds(tests, {"known": 5.0}), {"known": 5.0, "unknown": 20.0})


class Durations(unittest.TestCase):
    def test_those_of_the_last_run_stay_and_failures_are_not_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "durations.json"
            self.assertEqual(test_shards.read_durations(path), {})
            entry = count_tests.Entry
            test_shards.record_durations(path, [entry("a", True, False, 1.5), entry("b", True, False, 2.0)])
            test_shards.record_durations(path, [entry("b", True, False, 3.0), entry("c", False, False, 300.0)])
            self.assertEqual(test_shards.read_durations(path), {"a": 1.5, "b": 3.0})


if __name__ == "__main__":
    unittest.main()
