#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a network takes of memory beyond its weights, on Kiln and on the peers that are installed.

  bench/resident.py --kiln build/release/bin/kiln --threads 2 build/models/*/model.onnx

Each runtime is a process that loads the network and runs it, in a second process after one that filled the caches. Its resident memory
(PSS) less that of the same runtime with a network of one relu, and less the bytes of the weights, in MiB: activations, packed copies of
weights, and what describes the network. Negative: weights that lie in the file and were packed into a copy are not resident twice. The
arena is Kiln's own, with its bound. Needs numpy.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import interleaved
import models
import onnx_file

MIB = 1 << 20


def pss(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))


def resident(args, name, path, inputs, folder):
    """Bytes of a process that has loaded and run it; None where it cannot."""
    levels, peers = (["3"], []) if name == "kiln" else ([], [name])
    runtime, = interleaved.start(args.kiln, levels, peers, args.threads)
    answer = runtime.ask(cmd="load", onnx=path, inputs=inputs, results=os.path.join(folder, name))
    if answer.get("ok"):
        answer = runtime.ask(cmd="time", n=3, warm=2, budget_s=60)
    found = pss(runtime.process.pid) if "ms" in answer else None
    if found is None:
        print(f"{models.short_name(path)}: {name}: {answer.get('error')}", file=sys.stderr)
        runtime.close()
    else:
        runtime.end()
    return found


def write_relu(folder):
    graph = onnx_file.Graph("relu")
    graph.output(graph.node("Relu", graph.input("x", "f32", [1, 8])), "f32", [1, 8])
    path = os.path.join(folder, "relu.onnx")
    graph.write(path, opset=20)
    return path


def measure(args, names, path, folder):
    """(PSS per name, the arena and its bound)."""
    path, inputs = models.inputs_of(args, path, folder)
    found = {}
    for name in names:
        resident(args, name, path, inputs, folder)  # fills what it keeps
        found[name] = resident(args, name, path, inputs, folder)
    command = [args.kiln, "bench", path, "--iters", "1", "--warmup", "0", "--json", "-q", "--threads", str(args.threads)]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found, report["results"]["memory"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--kiln", default="build/release/bin/kiln")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", default="ort,openvino")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N")
    args = parser.parse_args()
    names = ["kiln", *interleaved.installed_peers(args.peers)]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KILN_CACHE_DIR"] = os.path.join(folder, "cache")
        base, _ = measure(args, names, write_relu(folder), folder)
        print("| network | weights MiB | arena MiB | of its bound | " + " | ".join(names) + " |")
        print("| --- " * (len(names) + 4) + "|")
        for path in args.models:
            found, memory = measure(args, names, path, folder)
            weights = memory["constants"]
            beyond = [f"{(found[n] - base[n] - weights) / MIB:.1f}" if found[n] and base[n] else "-" for n in names]
            share = f"{memory['arena'] / memory['lower_bound']:.3f}" if memory["lower_bound"] else "-"
            print(f"| {models.short_name(path)} | {weights / MIB:.1f} | {memory['arena'] / MIB:.2f} | {share} | " + " | ".join(beyond) + " |",
                  flush=True)


if __name__ == "__main__":
    main()
