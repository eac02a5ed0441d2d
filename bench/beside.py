# SPDX-License-Identifier: Apache-2.0
"""What bench/kernels.py and bench/models.py share: Kiln at -O3 beside its peers, row by row, as a table and as kiln.peers/1."""
import sys

import interleaved
import machine
import peers
import results

KILN = interleaved.name_of("3")


def measure(name, runtimes, path, inputs, folder, repeat):
    """A row of kiln.peers/1."""
    times, errors = interleaved.interleave(runtimes, path, inputs, folder, repeat)
    outputs = {runtime: results.outputs(interleaved.results_of(runtime, folder)) for runtime in times}
    return results.peers_row(name, KILN, times, errors, outputs)


def cells(row, names):
    """What is printed of a row; a peer without a time that counts has a word in its place."""
    def cell(name):
        if name not in row["runtimes"]:
            return "-"
        of = row["runtimes"][name]
        return f"{of['min_ms']:.4g}" + ("" if of.get("agrees", True) else f" (error {of['error']})")

    ratio = row.get("ratio")
    return [row["row"], *map(cell, names), *(f"{ratio[k]:.2f}" if ratio else "-" for k in ("min", "median"))]


def add_arguments(parser, repeat, peers="ort,openvino,inductor,xla"):
    parser.add_argument("--kiln", default="build/release/bin/kiln")
    parser.add_argument("--threads", type=int, default=1, help="also the CPUs that a process may use")
    parser.add_argument("--repeat", type=int, default=repeat, help="runs of each")
    parser.add_argument("--peers", default=peers, help="ort, ort off, openvino, inductor, xla; those not installed are left out")
    parser.add_argument("--json", metavar="FILE", help="writes kiln.peers/1")
    parser.add_argument("--keep", action="store_true", help="writes it to bench/results/CPU, where bench/pages finds it")


def run(args, what, rows, measure_row):
    """Times every row with measure_row(row, runtimes, repeat), prints the table and writes what the arguments ask for."""
    names, load = interleaved.installed_peers(args.peers), machine.Load()
    runtimes = interleaved.start(args.kiln, ["3"], names, args.threads)
    print("| row | " + " | ".join(f"{n} ms" for n in [KILN, *names]) + " | fastest peer / Kiln, minima | medians |")
    print("| --- " * (len(names) + 4) + "|")
    measured = []
    for row in rows:
        measured.append(measure_row(row, runtimes, args.repeat))
        for name, error in measured[-1]["errors"].items():
            print(f"{measured[-1]['row']}: {name}: {error}", file=sys.stderr)
        print("| " + " | ".join(cells(measured[-1], [KILN, *names])) + " |", flush=True)
    for runtime in runtimes:
        runtime.close()
    keep(args, what, names, load, measured)


def keep(args, what, names, load, rows):
    """Writes the report where the arguments say, and prints its mean."""
    settings = {"threads": args.threads, "repeat": args.repeat}
    report = results.report(what, args.kiln, settings, {name: peers.version(name) for name in names}, load, rows)
    stem = f"{what}-{results.build_name(report['kiln'])}-t{args.threads}"
    for path in [args.json] * bool(args.json) + [results.kept(report, stem)] * args.keep:
        results.write(report, path)
    mean = report["geomean"]
    if mean["rows"]:
        print(f"\ngeometric mean of {mean['rows']} rows: {mean['min']:.2f} (minima), {mean['median']:.2f} (medians)")
