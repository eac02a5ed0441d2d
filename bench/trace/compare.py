#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times programs of arrays (programs.py): Kiln's tracer beside numpy, jax, MLX, Dr.Jit and Eigen.

  bench/trace/compare.py --kiln build/release/bin/kiln --keep [PROGRAM...]

kiln-bench-programs stands beside kiln. A runtime is a process of its own, stopped while another one is timed, in rounds that go forth and
back (bench/interleaved.py). A figure is a call whose function was recorded and compiled before, from its arguments to a result that is
there: the least of all, and the median. Peers that are not installed are left out. DRJIT_LIBLLVM_PATH names LLVM 15 or newer for Dr.Jit.
"""
import argparse
import importlib.metadata
import importlib.util
import os
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import beside  # noqa: E402
import interleaved  # noqa: E402
import machine  # noqa: E402
import programs  # noqa: E402
import results  # noqa: E402


def start(args, names):
    program = os.path.join(os.path.dirname(os.path.abspath(args.kiln)), "kiln-bench-programs")
    commands = {"kiln": [program, "kiln"], "eigen": [program, "eigen"]}
    commands.update({name: [sys.executable, "-B", os.path.join(HERE, "peers.py"), name] for name in names})
    return [interleaved.Runtime(name, [*command, str(args.threads)], args.threads) for name, command in commands.items()]


def measure(name, runtimes, repeat):
    """A row of kiln.peers/1."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {str(k): os.path.join(folder, f"{k}.npy") for k in range(len(programs.inputs(name)))}
        for path, array in zip(paths.values(), programs.inputs(name)):
            np.save(path, array)
        times, errors = interleaved.interleave(runtimes, name, paths, folder, repeat)
        outputs = {runtime: [a.reshape(-1) for a in results.outputs(interleaved.results_of(runtime, folder))] for runtime in times}
    return results.peers_row(name, "kiln", times, errors, outputs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help="all by default")
    parser.add_argument("--kiln", default="build/release/bin/kiln")
    parser.add_argument("--threads", type=int, default=1, help="also the CPUs that a process may use")
    parser.add_argument("--repeat", type=int, default=240, help="calls of each")
    parser.add_argument("--peers", default="numpy,jax,mlx,drjit")
    parser.add_argument("--json", metavar="FILE", help="writes kiln.peers/1")
    parser.add_argument("--keep", action="store_true", help="writes it to bench/results/CPU, where bench/pages finds it")
    args = parser.parse_args()
    names = [name for name in args.peers.split(",") if name and importlib.util.find_spec(name)]
    load, runtimes = machine.Load(), start(args, names)
    shown = [r.name for r in runtimes]
    print("| program | " + " | ".join(f"{n} ms" for n in shown) + " | fastest peer / Kiln, minima | medians |")
    print("| --- " * (len(shown) + 3) + "|")
    rows = []
    for name in args.names or programs.PROGRAMS:
        row = measure(name, runtimes, args.repeat)
        rows.append(row)
        for runtime, error in row["errors"].items():
            print(f"{name}: {runtime}: {error}", file=sys.stderr)
        print("| " + " | ".join(beside.cells(row, shown)) + " |", flush=True)
    for runtime in runtimes:
        runtime.close()
    report = results.report("programs", args.kiln, {"threads": args.threads, "repeat": args.repeat},
                            {name: f"{name} {importlib.metadata.version(name)}" for name in names}, load, rows)
    for path in [args.json] * bool(args.json) + [results.kept(report, f"programs-{results.build_name(report['kiln'])}-t{args.threads}")] * args.keep:
        results.write(report, path)
    mean = report["geomean"]
    if mean["rows"]:
        print(f"\ngeometric mean of {mean['rows']} programs: {mean['min']:.2f} (minima), {mean['median']:.2f} (medians)")


if __name__ == "__main__":
    main()
