#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times training steps of the networks of networks.py: Kiln beside torch (eager with a fused optimizer, and torch.compile) and jax.

  bench/training/steps.py --program build/release/bin/kiln-bench-training --folder /tmp/networks --threads 1 [NAME...]
  bench/training/steps.py ... --levels 3,0 --peers "" resnet50 alexnet mlp lstm      Kiln's levels alone

FOLDER is what files.py wrote. A runtime is a process of its own, stopped while another one is timed, in rounds that go forth and back
(bench/interleaved.py). A step takes the same batch, makes loss, gradients and the optimizer's update; a figure is the least of all, and
the median. Compiling is not in it. `loss`: what each runtime says before its first step; those that disagree do not count.
bench/pages makes a table of bench/results/CPU/training-COMMIT-tN.json and training-levels-COMMIT-tN.json.
--fifo: while one is timed it runs at real-time priority (chrt), so that other jobs of the machine wait.
"""
import argparse
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import interleaved  # noqa: E402
import machine  # noqa: E402
import networks  # noqa: E402
import results  # noqa: E402

PEERS = {"eager": "torch", "inductor": "torch", "jax": "jax"}  # name: package
JAX = ("mlp", "lstm", "bert")  # what layers.Jax has the layers of


def start(args):
    runtimes = [interleaved.Runtime(f"kiln -O{level}", [os.path.abspath(args.program), "serve", level, str(args.threads)], args.threads)
                for level in args.levels.split(",")]
    for peer in filter(None, args.peers.split(",")):
        command = [sys.executable, "-B", os.path.join(HERE, "peers.py"), peer, str(args.threads)]
        runtimes.append(interleaved.Runtime(peer, command, args.threads))
    return runtimes


def prioritise(process, fifo):
    """Of all its threads."""
    words = ["-a", "-f", "-p", "10"] if fifo else ["-a", "-o", "-p", "0"]
    subprocess.run(["chrt", *words, str(process.pid)], check=False, stderr=subprocess.DEVNULL)


def load(runtime, args, name):
    runtime.go_on()
    answer = runtime.ask(cmd="load", folder=os.path.abspath(args.folder), name=name)
    runtime.stop()
    return answer


def time_once(runtime, args, warm):
    if args.fifo:
        prioritise(runtime.process, True)
    runtime.go_on()
    answer = runtime.ask(cmd="time", n=args.repeat, warm=warm, budget_s=args.budget)
    runtime.stop()
    if args.fifo:
        prioritise(runtime.process, False)
    return answer


def measure(runtimes, args, name):
    row = {"row": name, "runtimes": {}, "errors": {}}
    samples = {}
    for runtime in runtimes:
        if runtime.name == "jax" and name not in JAX:
            continue
        answer = load(runtime, args, name)
        if answer.get("ok"):
            samples[runtime.name] = []
            row["runtimes"][runtime.name] = {"loss": round(answer["loss"], 6)}
        else:
            row["errors"][runtime.name] = answer.get("error")
    for k in range(args.rounds):
        for runtime in runtimes if k % 2 == 0 else runtimes[::-1]:
            if runtime.name in samples:
                samples[runtime.name] += time_once(runtime, args, 2 if k == 0 else 1).get("ms", [])
    loss = next(iter(row["runtimes"].values()))["loss"]
    for runtime, ms in samples.items():
        row["runtimes"][runtime].update(min_ms=round(min(ms), 3), median_ms=round(statistics.median(ms), 3), steps=len(ms),
                                        agrees=abs(row["runtimes"][runtime]["loss"] - loss) <= 1e-3 * abs(loss))
    peers = {n: r for n, r in row["runtimes"].items() if n in PEERS and r["agrees"]}
    if peers:
        row["ratio"] = {k: round(min(r[f"{k}_ms"] for r in peers.values()) / row["runtimes"]["kiln -O3"][f"{k}_ms"], 3)
                        for k in ("min", "median")}
    return row


def show(row):
    cells = [f"{n} {r['min_ms']:.4g} ms" + ("" if r["agrees"] else f" (loss {r['loss']})") for n, r in row["runtimes"].items()]
    ratio = f"; best peer / Kiln {row['ratio']['min']:.2f}" if "ratio" in row else ""
    print(f"{row['row']}: {', '.join(cells)}{ratio}", flush=True)
    for name, error in row["errors"].items():
        print(f"  {name}: {error}", file=sys.stderr)


def with_earlier(report, path):
    """With the rows of other networks that the file has from the same program and as many threads."""
    if not os.path.exists(path):
        return report
    with open(path) as file:
        old = json.load(file)
    if any(old.get(k) != report[k] for k in ("what", "kiln", "threads")):
        return report
    rows = {row["row"]: row for row in old["rows"] + report["rows"]}
    ratios = [row["ratio"] for row in rows.values() if "ratio" in row]
    mean = {"rows": len(ratios), **{k: results.geometric_mean(r[k] for r in ratios) for k in ("min", "median")}}
    return {**report, "geomean": results.rounded(mean), "rows": list(rows.values())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(networks.NETWORKS))
    parser.add_argument("--program", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--levels", default="3")
    parser.add_argument("--peers", default="eager,inductor,jax")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=10, help="steps of a round")
    parser.add_argument("--budget", type=float, default=3, help="seconds of a round")
    parser.add_argument("--fifo", action="store_true")
    parser.add_argument("--json", metavar="FILE", help="kiln.peers/1; rows of other networks in it stay, if all else is equal")
    args = parser.parse_args()
    before, rows = machine.Load(), []
    for name in args.names:  # processes of their own for each: what one leaves behind is not the next one's
        runtimes = start(args)
        try:
            rows.append(measure(runtimes, args, name))
        finally:
            for runtime in runtimes:
                runtime.close()
        show(rows[-1])
    if args.json:
        what = "training" if args.peers else "training levels"
        versions = {peer: f"{PEERS[peer]} {importlib.metadata.version(PEERS[peer])}" for peer in filter(None, args.peers.split(","))}
        settings = {"threads": args.threads, "rounds": args.rounds, "fifo": args.fifo}
        report = results.report(what, args.program, settings, versions, before, rows)
        results.write(with_earlier(report, args.json), args.json)


if __name__ == "__main__":
    main()
