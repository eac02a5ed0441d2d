#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the lowering passes of the CPU back end earn.

usage: bench/ablate.py [--build DIR] [--rounds N] [--without PASS,...] [--only PASS,...] [--json FILE] [--keep] GRAPH...

Each GRAPH (text, with extents that are numbers) is run with one thread by a worker that leaves a pass out and by one that does not, in
turn; only where that pass changes the statement of one of its kernels. Prints for each pass how many graphs it changes, the geomean
of (time without) / (time with) over these and over all, the least and the greatest, and lines of code of the pass.
  --without  passes left out of both sides, for cuts one after the other
  --only     passes that are left out in turn (default: all)
  --build    build folder with bin/kiln (default: build/release)
  --rounds   interleaved rounds of each pair, of which the least times count (default 3)
  --json     writes kiln.ablation/1: a row for each pass
  --keep     writes it to bench/results/CPU/ablation-COMMIT.json, where bench/pages finds it
A gain counts when separate runs of this script show it. Example:
  build/release/bin/kiln-bench-price --write /tmp/drawn --each 25 --seed 7
  bench/ablate.py bench/kernels/*.graph /tmp/drawn/*.graph
"""
import argparse
import collections
import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile

import machine
import results
from results import geometric_mean

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Bench:
    """Runs bin/kiln with workers that leave passes out."""

    def __init__(self, build, without, scratch):
        self.bin, self.without, self.scratch = build.resolve() / "bin", without, pathlib.Path(scratch)

    def worker(self, names):
        """A program that is kiln-codegen without these passes."""
        path = self.scratch / ("worker-" + "-".join(names))
        if not path.exists():
            option = f" --without {','.join(names)}" if names else ""
            path.write_text(f'#!/bin/sh\nexec "{self.bin}/kiln-codegen"{option} "$@"\n')
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def kiln(self, names, *arguments, **environment):
        names = sorted({*self.without, *names})
        # A cache of its own for each set of passes: a key knows nothing of them.
        own = {"KILN_CODEGEN": str(self.worker(names)), "KILN_CACHE_DIR": str(self.scratch / ("cache-" + "-".join(names))), **environment}
        return subprocess.run([self.bin / "kiln", *arguments], env={**os.environ, **own}, capture_output=True, text=True)

    def fired(self, graph):
        """The passes that change a statement of the graph's kernels, but for those marked "(needed)": code is wrong without."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            self.kiln([], "bench", graph, "--iters", "1", "--warmup", "0", "--threads", "1", KILN_DUMP="ir", KILN_DUMP_DIR=folder)
            text = "\n".join(path.read_text() for path in pathlib.Path(folder).iterdir())
        return set(re.findall(r"^// after (\w+)$", text, re.M))

    def ms(self, names, graph):
        done = self.kiln(names, "bench", graph, "--threads", "1", "--warmup", "3", "--time", "0.15s", "--json")
        return json.loads(done.stdout)["results"]["latency_ms"]["min"] if done.returncode == 0 else None


def lines_of(name):
    files = [ROOT / "halide_gen/cpu" / f"{name}{end}" for end in (".cc", ".h")]
    return sum(len(file.read_text().splitlines()) for file in files if file.exists())


def row_of(name, ratios, graphs):
    """The figures of one pass, of `ratios` by graph."""
    values = list(ratios.values())
    most = max(ratios, key=ratios.get)
    return {"pass": name, "lines": lines_of(name), "graphs": len(values), "geomean": geometric_mean(values),
            "of_all": geometric_mean(values + [1.0] * (graphs - len(values))), "least": min(values), "most": ratios[most],
            "most_graph": pathlib.Path(most).stem}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("graphs", nargs="+")
    options = parser.parse_args()
    measured, load = collections.defaultdict(dict), machine.Load()
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(options.build, [name for name in options.without.split(",") if name], scratch)
        for graph in options.graphs:
            fired = bench.fired(graph)
            only = set(options.only.split(",")) if options.only else fired
            for name in sorted((fired & only) - set(bench.without)):
                times = {True: [], False: []}
                for _ in range(options.rounds):
                    for cut in (False, True):
                        times[cut].append(bench.ms([name] if cut else [], graph))
                if None not in times[True] + times[False]:
                    measured[name][graph] = min(times[True]) / min(times[False])
            print(f"{graph}: {', '.join(f'{n} {r[graph]:.2f}' for n, r in measured.items() if graph in r)}", file=sys.stderr)
    rows = sorted((row_of(name, ratios, len(options.graphs)) for name, ratios in measured.items()), key=lambda row: row["geomean"])
    print(f"{'pass':16} {'lines':>5} {'graphs':>6} {'geomean':>8} {'of all':>7} {'least':>6} {'most':>6}")
    for row in rows:
        print(f"{row['pass']:16} {row['lines']:5} {row['graphs']:6} {row['geomean']:8.3f} {row['of_all']:7.3f} {row['least']:6.2f} "
              f"{row['most']:6.2f}")
    report = {"schema": "kiln.ablation/1", "what": "ablation", "when": results.now(), "machine": machine.describe(), "load": load.report(),
              "kiln": machine.build_of(bench.bin / "kiln"), "rounds": options.rounds, "graphs": len(options.graphs),
              "without": bench.without, "rows": results.rounded(rows)}
    kept = results.kept(report, f"ablation-{results.build_name(report['kiln'])}")
    for path in [options.json] * bool(options.json) + [kept] * options.keep:
        results.write(report, path)


if __name__ == "__main__":
    main()
