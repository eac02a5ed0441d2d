#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times from a command to its first answer: a new process that loads a network, runs it once, and ends.

  bench/first.py --kiln build/release/bin/kiln --threads 2 build/models/*/model.onnx

kiln cold: `kiln run` with an empty cache, from exec to the first byte of the answer, all kernels built before. kiln warm: the same with
the cache that a cold run has filled. A peer is a process of Python, from exec to its answer, less what Python takes to import it. The
files' pages are in memory. Rounds go in turn; the least and the median count. Ratios are the fastest peer / kiln warm. Needs numpy.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import beside
import interleaved
import machine
import models
import peers
import results


class Failed(Exception):
    """A process that did not answer; the text says why."""


def run_once(command, threads, cache):
    """(ms to the first byte of output, the output)."""
    start = time.perf_counter()
    process = subprocess.Popen(command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               **interleaved.pinned(threads, {"KILN_CACHE_DIR": cache}))
    first = process.stdout.read(1)
    answered = (time.perf_counter() - start) * 1e3
    rest, errors = process.communicate()
    if process.returncode != 0:
        raise Failed(f"exit {process.returncode}: {errors.decode().strip()[-200:]}")
    return answered, first + rest


class Measurement:
    """One network: a command for Kiln and for each peer, and a cache that is filled."""

    def __init__(self, args, spec, folder):
        self.args, self.folder, self.warm_cache = args, folder, os.path.join(folder, "warm")
        path, inputs = models.inputs_of(args, spec, folder)
        given = [word for name, file in inputs.items() for word in ("--input", f"{name}=@{file}")]
        self.kiln = [os.path.abspath(args.kiln), "run", path, *given, "-q", "--threads", str(args.threads)]
        self.request = os.path.join(folder, "request.json")
        with open(self.request, "w") as file:
            json.dump({"onnx": path, "inputs": inputs}, file)
        self.time("kiln warm")  # fills the cache, and brings the pages of the model into memory

    def time(self, name):
        if name == "kiln warm":
            return run_once(self.kiln + ["--compile-mode", "block"], self.args.threads, self.warm_cache)[0]
        if name == "kiln cold":
            cache = tempfile.mkdtemp(dir=self.folder)
            ms = run_once(self.kiln + ["--compile-mode", "block"], self.args.threads, cache)[0]
            shutil.rmtree(cache, ignore_errors=True)
            return ms
        command = [sys.executable, "-B", peers.__file__, "once", name, str(self.args.threads), self.request]
        ms, said = run_once(command, self.args.threads, self.warm_cache)
        return ms - json.loads(said)["imports_ms"]


def measure(args, spec, names):
    """A row of kiln.peers/1."""
    with tempfile.TemporaryDirectory() as folder:
        measurement, samples, errors = Measurement(args, spec, folder), {name: [] for name in names}, {}
        for round_ in range(args.repeat):
            for name in names if round_ % 2 == 0 else names[::-1]:
                if name in errors:
                    continue
                try:
                    samples[name].append(measurement.time(name))
                except Failed as error:
                    errors[name] = str(error)
        of = {name: {"min_ms": min(ms), "median_ms": statistics.median(ms)} for name, ms in samples.items() if name not in errors}
        row = {"row": models.short_name(spec.partition(":")[0]), "runtimes": of, "errors": errors}
        rivals = [times for name, times in of.items() if not name.startswith("kiln")]
        if rivals and "kiln warm" in of:
            row["ratio"] = {k: min(r[k + "_ms"] for r in rivals) / of["kiln warm"][k + "_ms"] for k in ("min", "median")}
        return results.rounded(row)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL[:name=file,...]")
    beside.add_arguments(parser, repeat=7, peers="ort,openvino")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N")
    args = parser.parse_args()
    theirs, load = interleaved.installed_peers(args.peers), machine.Load()
    names = ["kiln cold", "kiln warm", *theirs]
    print("| network | " + " | ".join(f"{name} ms" for name in names) + " | fastest peer / kiln warm, minima | medians |")
    print("| --- " * (len(names) + 3) + "|")
    rows = []
    for spec in args.models:
        rows.append(measure(args, spec, names))
        for name, error in rows[-1]["errors"].items():
            print(f"{rows[-1]['row']}: {name}: {error}", file=sys.stderr)
        print("| " + " | ".join(beside.cells(rows[-1], names)) + " |", flush=True)
    beside.keep(args, "first", theirs, load, rows)


if __name__ == "__main__":
    main()
