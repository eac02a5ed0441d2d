#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far the chosen schedules are from the best candidates, over random kernels: keeps what `kiln-bench-price --regret` finds.

  bench/regret.py --build build/release [--target x86-64-v3]    measures, prints and writes bench/results/CPU/regret-COMMIT.json
  bench/regret.py --samples FILE [--seed N]                      the same of what `kiln-bench-price --regret --json FILE` has written

Regret is the time with the chosen schedule / that with the best one, interleaved, one thread. kiln.regret/1 has a row for each template
that was chosen, and one for all: kernels, median, 90th percentile and worst, and the two schedules of the worst kernel.
"""
import argparse
import collections
import json
import os
import subprocess
import tempfile

import machine
import results


def row_of(name, samples):
    """The figures of `samples`; percentiles as kiln-bench-price has them."""
    regrets = sorted(sample["regret"] for sample in samples)
    worst = max(samples, key=lambda sample: sample["regret"])
    at = lambda part: regrets[min(len(regrets) - 1, int(part * len(regrets)))]
    chosen, best = worst["tried"][0]["schedule"], worst["tried"][worst["best"]]["schedule"]
    return {"template": name, "kernels": len(samples), "median": at(.5), "p90": at(.9), "worst": regrets[-1],
            "worst_kernel": f"{worst['kind']} {worst['seed']}", "chosen": chosen, "best": best}


def summary(samples):
    by_template = collections.defaultdict(list)
    for sample in samples:
        by_template[sample["tried"][0]["schedule"].split()[0]].append(sample)
    return [row_of(name, of) for name, of in sorted(by_template.items())] + [row_of("all", samples)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="folder with bin/kiln-bench-price")
    parser.add_argument("--each", type=int, default=20, help="kernels of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", default="", help="as kiln-bench-price has it")
    parser.add_argument("--samples", metavar="FILE", help="measured before")
    parser.add_argument("--json", metavar="FILE", help="in place of bench/results/...")
    args = parser.parse_args()
    binary, load = os.path.join(args.build, "bin"), machine.Load()
    with tempfile.TemporaryDirectory() as folder:
        path = args.samples or os.path.join(folder, "samples.json")
        if not args.samples:
            subprocess.run([os.path.join(binary, "kiln-bench-price"), "--regret", "--each", str(args.each), "--seed", str(args.seed), "--json",
                            path, *(["--target", args.target] if args.target else [])], check=True)
        with open(path) as file:
            samples = json.load(file)
    report = {"schema": "kiln.regret/1", "what": "regret", "when": results.now(), "machine": machine.describe(), "load": load.report(),
              "kiln": machine.build_of(os.path.join(binary, "kiln")), "seed": args.seed, "target": args.target, "rows": results.rounded(summary(samples))}
    results.write(report, args.json or results.kept(report, f"regret-{results.build_name(report['kiln'])}{'-' * bool(args.target)}{args.target}"))


if __name__ == "__main__":
    main()
