# SPDX-License-Identifier: Apache-2.0
"""What bench/compare measures and how it sums it up.

Rounds go old, new, new, old, old, new, ... Each measurement is a process of its own, alone on its CPUs, so that what is drawn for a
process (where its stack and its pages lie) is drawn anew in every round and shows in the spread.
"""
import contextlib
import filecmp
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

import interleaved
from results import geometric_mean

WARM_SHARE = 5  # one warm run for so many timed ones


class Side:
    """One of the two builds. Its kernels are kept apart from the other's and from the user's own."""

    def __init__(self, name, kiln, extra, cache):
        self.name, self.kiln, self.extra, self.cache = name, os.path.abspath(kiln), extra, cache

    def command(self, verb, *arguments, threads, level):
        return [self.kiln, *verb, *interleaved.options_of(level), "--threads", str(threads), *self.extra, *arguments]


class Failed(Exception):
    """A side cannot run a row; the text says why."""


@contextlib.contextmanager
def serving(side, work, settings, results=""):
    """`kiln bench --serve` with the row loaded."""
    runtime = interleaved.Runtime(side.name, side.command(["bench", "--serve"], threads=settings.threads, level=settings.level),
                             settings.threads, KILN_CACHE_DIR=side.cache)
    try:
        answer = runtime.ask(cmd="load", onnx=work.path, inputs=work.inputs, results=results)
        if not answer.get("ok"):
            raise Failed(f"{side.name}: {answer.get('error')}")
        yield runtime
    finally:
        runtime.end()


def warm_runs(count):
    return max(2, count // WARM_SHARE)


def time_runs(side, runtime, count):
    answer = runtime.ask(cmd="time", n=count, warm=warm_runs(count), budget_s=60)
    if "ms" not in answer:
        raise Failed(f"{side.name}: {answer.get('error')}")
    return answer["ms"]


def served(side, work, settings, count, results=""):
    """(minimum, median) of one process that answers requests."""
    with serving(side, work, settings, results) as runtime:
        times = time_runs(side, runtime, count)
    return min(times), statistics.median(times)


def benched(side, work, settings, count, results=""):
    """The same by `kiln bench`: for bfloat16 inputs, which --serve of older builds does not take from files."""
    given = given_inputs(work)
    if results:
        with open(work.path) as file:
            outputs = re.findall(r"(?m)^output (\S+)", file.read()) if work.path.endswith(".graph") else []
        output(side, ["run", work.path], *given, *(w for n in outputs for w in ("--output", f"{n}=@{results}{n}.npy")), "-q",
               settings=settings)
    said = output(side, ["bench", work.path], *given, "-q", "--json", "--iters", str(count), "--warmup", str(warm_runs(count)),
                  settings=settings)
    latency = json.loads(said)["results"]["latency_ms"]
    return latency["min"], latency["p50"]


def output(side, verb, *arguments, settings):
    done = subprocess.run(side.command(verb, *arguments, threads=settings.threads, level=settings.level), text=True,
                          capture_output=True, **interleaved.pinned(settings.threads, {"KILN_CACHE_DIR": side.cache}))
    if done.returncode != 0:
        raise Failed(f"{side.name}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def given_inputs(work):
    return [word for name, path in work.inputs.items() for word in ("--input", f"{name}=@{path}")]


def same_files(a, b):
    """Whether two folders have the same files, byte by byte; None if they are empty."""
    names = sorted(os.listdir(a))
    if not names and not os.listdir(b):
        return None
    return names == sorted(os.listdir(b)) and all(
        filecmp.cmp(os.path.join(a, n), os.path.join(b, n), shallow=False) for n in names)


def prepare(sides, work, settings, measure):
    """Builds the row's kernels on both sides. (runs for a round, whether the results have the same bits)."""
    with tempfile.TemporaryDirectory() as folder:
        fastest, results = math.inf, []
        for side in sides:
            results.append(os.path.join(folder, side.name))
            os.mkdir(results[-1])
            fastest = min(fastest, measure(side, work, settings, 3, results[-1] + "/")[0])
        return min(5000, max(3, math.ceil(settings.round_ms / max(fastest, 1e-4)))), same_files(*results)


def in_turns(sides, rounds):
    """The sides in the order of measuring, round by round."""
    for k in range(rounds):
        yield from sides if k % 2 == 0 else sides[::-1]


def warm_row(sides, work, settings):
    """The times of runs of a model that is loaded and whose kernels are cached."""
    measure = benched if work.bf16 else served
    count, same = prepare(sides, work, settings, measure)
    rounds = {side.name: [] for side in sides}
    for side in in_turns(sides, settings.rounds):
        rounds[side.name].append(measure(side, work, settings, count))
    return {"row": work.name, "dtype": work.dtype, "by": "bench" if work.bf16 else "serve", "runs_per_round": count,
            "same_bits": same, **summary(rounds)}


def summary(rounds):
    """Of (minimum, median) in ms of each round, by side: the least minimum, the median of medians, their ratios old / new, and how far
    rounds lie apart."""
    of = {}
    for name, pairs in rounds.items():
        minima = [least for least, _ in pairs]
        of[name] = {"min_ms": min(minima), "median_ms": statistics.median(middle for _, middle in pairs),
                    "round_min_ms": minima, "round_spread": max(minima) / min(minima)}
    old, new = of["old"], of["new"]
    by_round = [a / b for a, b in zip(old["round_min_ms"], new["round_min_ms"])]
    ratio = {"min": old["min_ms"] / new["min_ms"], "median": old["median_ms"] / new["median_ms"], "by_round": by_round,
             "low": min(by_round), "high": max(by_round)}
    return {"old": old, "new": new, "ratio": ratio}


def cold_once(side, work, settings):
    """One process with an empty cache: ms to its first byte of output and to its end, and what it says of its kernels."""
    for path in (work.path, *work.inputs.values()):
        with open(path, "rb") as file:  # its pages are in memory for both
            while file.read(1 << 24):
                pass
    cache = tempfile.mkdtemp(prefix="kiln-cold-")
    command = side.command(["run", work.path], *given_inputs(work), "-q", "--json", "--compile-mode", "block", threads=settings.threads,
                           level=settings.level)
    try:
        with tempfile.TemporaryFile("w+") as errors:
            start = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors,
                                       **interleaved.pinned(settings.threads, {"KILN_CACHE_DIR": cache}))
            first = process.stdout.read(1)
            answered = time.perf_counter()
            said = first + process.communicate()[0]
            ended = time.perf_counter()
            errors.seek(0)
            if process.returncode != 0:
                raise Failed(f"{side.name}: exit {process.returncode}: {errors.read().strip()[-300:]}")
        return (answered - start) * 1e3, (ended - start) * 1e3, json.loads(said)["results"]["compile"]
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def floor_ms(compiled, cores):
    """What building and validating the kernels takes if every core does nothing else; None where the build does not say."""
    if "build_ms" not in compiled or "validate_ms" not in compiled:
        return None
    return (compiled["build_ms"] + compiled["validate_ms"]) / cores


def cold_row(sides, work, settings):
    """The times from exec to the first answer, with an empty cache."""
    cores = min(settings.threads, len(os.sched_getaffinity(0)))
    rounds = {side.name: [] for side in sides}
    for side in in_turns(sides, settings.rounds):
        rounds[side.name].append(cold_once(side, work, settings))
    row = {"row": work.name, "dtype": work.dtype, "cores": cores,
           **summary({name: [(answered, answered) for answered, _, _ in of] for name, of in rounds.items()})}
    for name, of in rounds.items():
        answered, ended, compiled = min(of, key=lambda measured: measured[0])
        floor = floor_ms(compiled, cores)
        row[name].update(process_ms=min(e for _, e, _ in of), compile=compiled, floor_ms=floor,
                         over_floor=answered / floor if floor else None)
    return row


def means(rows):
    """Geometric means of the ratios, of all rows and, where there are several, of each type."""
    groups = {"all": rows}
    kinds = sorted({row["dtype"] for row in rows})
    if len(kinds) > 1:
        groups.update({kind: [row for row in rows if row["dtype"] == kind] for kind in kinds})
    return {name: {"rows": len(of), **{k: geometric_mean(row["ratio"][k] for row in of) for k in ("min", "median", "low", "high")}}
            for name, of in groups.items() if of}


def ms(value):
    return "-" if value is None else f"{value:.4f}" if value < 1 else f"{value:.3f}" if value < 100 else f"{value:.0f}"


HEADS = {"warm": ["row", "type", "old ms", "new ms", "old / new, minima", "medians", "rounds", "same bits"],
         "cold": ["row", "type", "old ms", "new ms", "old / new, minima", "medians", "rounds", "kernels", "old floor", "new floor",
                  "new / its floor"]}


def cells(row, mode):
    ratio = row["ratio"]
    line = [row["row"], row["dtype"], ms(row["old"]["min_ms"]), ms(row["new"]["min_ms"]), f"{ratio['min']:.3f}",
            f"{ratio['median']:.3f}", f"{ratio['low']:.3f} to {ratio['high']:.3f}"]
    if mode == "warm":
        return line + [{None: "-", True: "yes", False: "no"}[row["same_bits"]]]
    over = row["new"]["over_floor"]
    kernels = [row[side]["compile"]["kernels"] for side in ("old", "new")]
    return line + [str(kernels[1]) if kernels[0] == kernels[1] else f"{kernels[0]}, {kernels[1]}", ms(row["old"]["floor_ms"]),
                   ms(row["new"]["floor_ms"]), "-" if over is None else f"{over:.2f}"]


def table_line(words):
    return "| " + " | ".join(words) + " |"


def mean_lines(of):
    return [f"geometric mean of {name}, {mean['rows']} row{'s' * (mean['rows'] != 1)}: {mean['min']:.3f} (minima), {mean['median']:.3f} (medians), "
            f"{mean['low']:.3f} to {mean['high']:.3f} if each row's worst or best round counted" for name, mean in of.items()]
