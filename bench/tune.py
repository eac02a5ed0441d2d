#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows what --tune finds: kernels and models by measurements against the choice by price.

  bench/tune.py --kiln build/release/bin/kiln [--price build/release/bin/kiln-bench-price --drawn 20] [--dim n=8]... MODEL...

Takes MODELs and, with --price, random graphs of one kernel each. Each is tuned in a cache of its own; a second process must measure
nothing, a pack must carry all records to another cache, and the result must be that of the choice by price. Then the two choices
are timed interleaved, ROUNDS times; the least times count. Exit 1 where something is not remembered, not right, or slower by more
than --slack. Nothing else may run meanwhile.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROUNDS = 5


class Kiln:
    def __init__(self, path, model, dims, threads):
        self.path, self.model = path, model
        self.flags = ["--threads", str(threads)] + [flag for dim in dims for flag in ("--dim", dim)]

    def run(self, *arguments):
        done = subprocess.run([self.path, *arguments, "--json", "-q"], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)["results"]

    def of_model(self, verb, cache, *more):
        return self.run(verb, self.model, "--cache-dir", cache, *self.flags, *more)

    def measured(self, cache):
        return self.of_model("compile", cache, "--cache-only", "--tune")["measured"]

    def ms(self, cache, choice):
        return self.of_model("bench", cache, "--choose", choice, "--time", "0.3s")["latency_ms"]["min"]

    def outputs(self, cache):
        return [output["name"] for output in self.of_model("run", cache)["outputs"]]


def other_winners(kiln, cache):
    """Kernels for which another schedule than the cheapest has won."""
    groups = kiln.of_model("explain", cache, "--schedule")["schedules"]
    classes = [sizes["candidates"] for group in groups for sizes in group["classes"]]
    return sum(any(candidate.get("won") for candidate in candidates[1:]) for candidates in classes), len(classes)


def check(kiln, folder):
    """A row of the table, and whether something is wrong."""
    cache, other = os.path.join(folder, "cache"), os.path.join(folder, "other")
    expected = []
    for name in kiln.outputs(cache):
        path = os.path.join(folder, f"{len(expected)}.npy")
        expected.append((name, path))
    reference = [flag for name, path in expected for flag in ("--output", f"{name}=@{path}")]
    kiln.of_model("run", cache, "--choose", "reproducible", *reference)
    measured = kiln.measured(cache)
    again = kiln.measured(cache)
    pack = os.path.join(folder, "tuned.kilnpack")
    kiln.run("cache", "pack", pack, "--dir", cache, "--model", kiln.model, *kiln.flags)
    kiln.run("cache", "unpack", pack, "--trust-unsigned", "--dir", other)
    packed = kiln.measured(other)
    right = [flag for name, path in expected for flag in ("--expect", f"{name}=@{path}")]
    kiln.of_model("run", cache, "--rtol", "1e-4", "--atol", "1e-5", *right)
    times = {"reproducible": [], "heuristic": []}
    for _ in range(ROUNDS):
        for choice, all_times in times.items():
            all_times.append(kiln.ms(cache, choice))
    won, classes = other_winners(kiln, cache)
    price, tuned = min(times["reproducible"]), min(times["heuristic"])
    row = [os.path.basename(kiln.model), measured, again, packed, f"{won}/{classes}", f"{price:.4f}", f"{tuned:.4f}",
           f"{price / tuned:.3f}"]
    return row, again != 0 or packed != 0, price / tuned


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", required=True)
    parser.add_argument("--price", help="kiln-bench-price, to draw graphs with")
    parser.add_argument("--drawn", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slack", type=float, default=0.05)
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("models", nargs="*")
    args = parser.parse_args()
    failed = False
    print("model  measured  again  from pack  other winners  by price ms  tuned ms  ratio")
    with tempfile.TemporaryDirectory() as folder:
        drawn = []
        if args.price:
            graphs = os.path.join(folder, "graphs")
            os.mkdir(graphs)
            each = max(1, -(-args.drawn // 8))
            subprocess.run([args.price, "--write", graphs, "--each", str(each), "--seed", str(args.seed)], check=True,
                           stdout=subprocess.DEVNULL)
            drawn = sorted(os.path.join(graphs, name) for name in os.listdir(graphs))[:args.drawn]
        for number, model in enumerate(drawn + args.models):
            own = os.path.join(folder, str(number))
            os.mkdir(own)
            dims = args.dim if model in args.models else []
            try:
                row, wrong, ratio = check(Kiln(args.kiln, model, dims, args.threads), own)
            except RuntimeError as error:
                print(f"{os.path.basename(model)}: {error}")
                failed = True
                continue
            wrong = wrong or ratio < 1 - args.slack
            print("  ".join(str(cell) for cell in row) + ("  WRONG" if wrong else ""), flush=True)
            failed = failed or wrong
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
