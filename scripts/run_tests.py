#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ctest over a build, whole or a shard of it, goes on after an interruption, and counts.

usage: run_tests.py --build DIR [--shard i/n] [--resume] [--durations FILE] [--record] [-- CTEST_ARGUMENT...]

scripts/test calls it after building; the options are described there. ctest of CMake 3.25 can run tests by their numbers (-I), which
is what is used here. Its own strides (-I i,,n) know nothing of time, and its failover (-F) also skips tests that failed.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import count_tests
import test_resume
import test_shards

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEFAULT_TIMEOUT = 1500  # ctest's own, in seconds
RESULT = re.compile(r"\s*(\d+)/(\d+) Test\s+#\d+: (\S+) \.*\s*(Passed|\*\*\*\S.*?)\s+([\d.]+) sec$")

Test = collections.namedtuple("Test", "name labels timeout")


def fail(message):
    print(f"test: {message}", file=sys.stderr)
    sys.exit(2)


def shard_argument(text):
    try:
        return test_shards.parse_shard(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def list_tests(build, arguments):
    """The tests that ctest would run, in its order, which is what -I counts by."""
    done = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1", *arguments], capture_output=True, text=True)
    try:
        listed = json.loads(done.stdout)["tests"]
    except ValueError:
        fail(f"ctest cannot list the tests of {build}: {done.stderr.strip() or done.stdout.strip()[-300:]}")
    tests = []
    for test in listed:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        tests.append(Test(test["name"], properties.get("LABELS", []), float(properties.get("TIMEOUT", DEFAULT_TIMEOUT))))
    return tests


def select(tests, shard, durations):
    """The tests of one shard, in ctest's order, and a word about them."""
    if shard is None:
        return tests, ""
    i, n = shard
    parts = test_shards.cut(tests, durations, n)
    seconds = test_shards.expected_seconds(tests, durations)
    known = sum(test.name in durations for test in tests)
    mine = [test for test in tests if test.name in set(parts[i - 1])]
    minutes = [sum(seconds[name] for name in part) / 60 for part in parts]
    about = f"; about {minutes[i - 1]:.1f} minutes, the longest {max(minutes):.1f}" if known else ""
    return mine, (f"shard {i}/{n}: {len(mine)} of {len(tests)} tests, durations known of {known}{about}; "
                  f"cut {test_shards.digest(parts)}, the same for all shards of a series")


def clear(results, kept):
    """Removes the results of an earlier run but those of the tests named."""
    results.mkdir(parents=True, exist_ok=True)
    for path in results.iterdir():
        if path.name != "record.jsonl" and not (path.suffix == ".xml" and path.stem in kept):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def follow(lines, names, record):
    """Shows ctest's output, and notes each test in the record as soon as it passed."""
    seen = 0
    for line in lines:
        sys.stdout.write(line)
        sys.stdout.flush()
        match = RESULT.match(line)
        # A failed test's own output is shown too, and may hold such lines; ctest's are numbered in order.
        if not match or int(match[1]) != seen + 1 or int(match[2]) != len(names) or match[3] not in names:
            continue
        seen += 1
        if match[4] == "Passed":
            record.add(passed=match[3], seconds=float(match[5]))


def run_ctest(build, results, arguments, tests, chosen, record):
    """ctest's exit status."""
    command = ["ctest", "--test-dir", str(build), "--output-on-failure", "--no-tests=error", "--no-label-summary",
               "--output-junit", str(results / "ctest.junit"), "-j", str(len(os.sched_getaffinity(0))), *arguments]
    names = {test.name for test in chosen}
    if len(chosen) != len(tests):
        numbers = [str(number) for number, test in enumerate(tests, 1) if test.name in names]
        command += ["-I", ",".join(["0,0,0", *numbers])]
    environment = dict(os.environ, GTEST_OUTPUT=f"xml:{results}/")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace", env=environment) as process:
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        try:
            follow(process.stdout, names, record)
        except KeyboardInterrupt:  # ctest got it too
            process.wait()
            sys.exit(130)
        return process.wait()


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--shard", type=shard_argument)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--durations", type=pathlib.Path)
    parser.add_argument("--record", action="store_true", help="keep what the tests took, if this is no shard")
    own, rest = (arguments, []) if "--" not in arguments else (
        arguments[:arguments.index("--")], arguments[arguments.index("--") + 1:])
    args = parser.parse_args(own)
    args.build = args.build.resolve()
    if (args.shard or args.resume) and any(re.match(r"-I|--tests-information", a) for a in rest):
        fail("-I does not go with --shard or --resume, which use it")
    return args, rest


def take_up(args, record, key, chosen):
    """Seconds by chosen test that passed before the run was interrupted."""
    if not args.resume:
        return {}
    passed, why_not = record.passed_before(key)
    passed = {test.name: passed[test.name] for test in chosen if test.name in passed}
    if passed:
        print(f"test: resumes: {len(passed)} of {len(chosen)} tests passed before the interruption and are not run again")
    else:
        print(f"test: nothing to resume, starts anew: {why_not or 'none of these tests had passed'}")
    return passed


def main(arguments, root=ROOT):
    args, rest = parse(arguments)
    results = args.build / ("test-results" if args.shard is None else "test-results-{}-of-{}".format(*args.shard))
    recorded = args.build / "test-durations.json"
    tests = list_tests(args.build, rest)
    chosen, about = select(tests, args.shard, test_shards.read_durations(args.durations or recorded))
    if about:
        print(f"test: {about}")
    results.mkdir(parents=True, exist_ok=True)
    record = test_resume.Record(results / "record.jsonl")
    key = test_resume.build_key(root, args.build)
    passed = take_up(args, record, key, chosen)
    clear(results, passed)
    record.start(key, passed)
    rest_of_them = [test for test in chosen if test.name not in passed]
    status, entries = 0, []
    if rest_of_them or not chosen and not tests:
        sys.stdout.flush()
        status = run_ctest(args.build, results, rest, tests, rest_of_them, record)
        if not (results / "ctest.junit").exists():
            fail(f"ctest ended without results, status {status}; --resume goes on from here")
        entries = count_tests.read_junit(results / "ctest.junit")
        missing = {test.name for test in rest_of_them} - {entry.name for entry in entries}
        if missing:
            fail(f"ctest did not report {', '.join(sorted(missing))}; --resume goes on from here")
    record.add(ended=True)
    earlier = [count_tests.Entry(name, True, False, seconds) for name, seconds in passed.items()]
    if args.record and args.shard is None:
        test_shards.record_durations(recorded, [*entries, *earlier])
    lines, ok = count_tests.count_report(entries, results, earlier)
    if not chosen and tests:
        lines, ok = ["0 passed, 0 failed"], True  # more shards than tests
    if entries or earlier:
        print("\n".join(count_tests.label_report([*entries, *earlier], {test.name: test.labels for test in tests})))
    print("\n".join(lines))
    return status or (0 if ok else 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
