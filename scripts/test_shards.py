# SPDX-License-Identifier: Apache-2.0
"""Cuts a list of tests into parts of about equal time.

The cut depends on the tests and on known durations alone, so that every call for the same n makes the same parts. Durations are
therefore written by runs of all tests only: a shard that wrote its own would change the cut for the shards after it.
"""
import hashlib
import json
import re


def parse_shard(text):
    """(i, n) of "i/n"."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f'"{text}" is no shard; write i/n with 1 <= i <= n, for example 2/4')
    return int(match[1]), int(match[2])


def read_durations(path):
    """Seconds by test; empty where there is no such file."""
    try:
        return {name: float(seconds) for name, seconds in json.loads(path.read_text()).items()}
    except FileNotFoundError:
        return {}


def record_durations(path, entries):
    """Keeps what the entries that passed took; of others the file keeps what it has."""
    durations = read_durations(path)
    durations.update({entry.name: round(entry.seconds, 3) for entry in entries if entry.ok})
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(durations, indent=1, sort_keys=True) + "\n")
    temporary.replace(path)


def expected_seconds(tests, durations):
    """What each test (name, timeout) is taken to last: its duration, or a share of its timeout that is typical of the others."""
    known = [test for test in tests if test.name in durations]
    limits = sum(test.timeout for test in known)
    share = sum(durations[test.name] for test in known) / limits if limits else 1
    return {test.name: durations.get(test.name, test.timeout * share) for test in tests}


def cut(tests, durations, n):
    """n lists of names. The longest test first, each into the part that is the shortest until then; ties go by name and number."""
    seconds = expected_seconds(tests, durations)
    parts, loads = [[] for _ in range(n)], [0.0] * n
    for test in sorted(tests, key=lambda test: (-seconds[test.name], test.name)):
        least = min(range(n), key=lambda i: (loads[i], len(parts[i]), i))
        parts[least].append(test.name)
        loads[least] += seconds[test.name]
    return parts


def digest(parts):
    """Shards of one series belong together if this agrees on all machines."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8]
