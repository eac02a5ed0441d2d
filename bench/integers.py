#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times products and convolutions of bytes beside the same of f32, by turns, and prints a table.

  bench/integers.py --kiln build/release/bin/kiln --threads 1

Two cases and ten shapes drawn with --seed. A ratio is f32 / integers: above 1, integers are faster. `loop` in the last column is a
fault: such a call runs on plain loops.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile

import onnx_file

SMALL = [i * 37 % 256 for i in range(4093)]


def conv(graph, kind, shape, filters, kernel, stride, group):
    """`kind`: f32, or how the weight is quantised: one, channels (scales), zeros (zero points, too)."""
    n, channels, *spatial = shape
    out = [(e + 2 * (kernel // 2) - kernel) // stride + 1 for e in spatial]
    w, attributes = [filters, channels // group, kernel, kernel], {"group": group, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
    if kind == "f32":
        y = graph.node("Conv", graph.input("x", "f32", shape), graph.tensor("f32", w, [v / 256 - .5 for v in SMALL]), **attributes)
        return graph.output(y, "f32", [n, filters, *out])
    per_channel = [filters] if kind != "one" else []
    signed = kind != "zeros"
    scale, zero = graph.tensor("f32", [], [0.05]), graph.tensor("u8", [], [117])
    weight = graph.tensor("i8" if signed else "u8", w, [v - 128 * signed for v in SMALL])
    zeros = graph.tensor("i8" if signed else "u8", per_channel, [0] if signed else SMALL)
    y = graph.node("QLinearConv", graph.input("x", "u8", shape), scale, zero, weight, graph.tensor("f32", per_channel, [.01 + v / 1e4 for v in SMALL]),
                   zeros, graph.tensor("f32", [], [7.5]), graph.tensor("u8", [], [100]), graph.tensor("i32", [filters], SMALL), **attributes)
    return graph.output(y, "u8", [n, filters, *out])


def matmul(graph, kind, batch, m, k, n):
    a, b, c = [*batch, m, k], [k, n], [*batch, m, n]
    if kind == "f32":
        y = graph.node("MatMul", graph.input("x", "f32", a), graph.tensor("f32", b, [v / 256 - .5 for v in SMALL]))
        return graph.output(y, "f32", c)
    signed = kind != "zeros"
    weight = graph.tensor("i8" if signed else "u8", b, [v - 128 * signed for v in SMALL])
    zeros = graph.tensor("i8" if signed else "u8", [n], [0] if signed else SMALL)
    y = graph.node("MatMulInteger", graph.input("x", "u8", a), weight, graph.tensor("u8", [], [117]), zeros)
    return graph.output(y, "i32", c)


def cases(seed):
    draw = random.Random(seed)
    yield "conv 64x56x56 -> 64, 3x3", conv, ([1, 64, 56, 56], 64, 3, 1, 1)
    yield "matmul 128x384 x 384x384", matmul, ([], 128, 384, 384)
    for _ in range(6):
        channels, filters, extent = draw.choice([3, 16, 32, 64, 128, 256]), draw.choice([16, 40, 64, 128, 256]), draw.choice([7, 14, 28, 56])
        kernel, stride = draw.choice([1, 3, 5]), draw.choice([1, 2])
        group = draw.choice([1, 1, 1, channels]) if channels > 3 else 1
        filters = channels if group > 1 else filters
        name = f"conv {channels}x{extent}x{extent} -> {filters}, {kernel}x{kernel}" + f" / {stride}" * (stride > 1) + ", depthwise" * (group > 1)
        yield name, conv, ([1, channels, extent, extent], filters, kernel, stride, group)
    for _ in range(4):
        m, k, n = draw.choice([1, 8, 77, 128, 512]), draw.choice([64, 384, 768, 3072]), draw.choice([64, 384, 768, 1000])
        yield f"matmul {m}x{k} x {k}x{n}", matmul, ([], m, k, n)


def kiln(*command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["results"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", required=True)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--time", default="100ms", help="of each round")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    kinds = ["f32", "one", "channels", "zeros"]
    print("| case | f32 ms: min, median | integers | by channel | with zero points | f32 / integers: min of each | library |\n| --- " + "| --- " * 6 + "|")
    with tempfile.TemporaryDirectory() as folder:
        for name, make, arguments in cases(args.seed):
            models = {}
            for kind in kinds if make is conv else ["f32", "one", "zeros"]:
                graph = onnx_file.Graph("case")
                make(graph, kind, *arguments)
                models[kind] = os.path.join(folder, f"{kind}.onnx")
                graph.write(models[kind], opset=17)
            times = {kind: [] for kind in models}
            for _ in range(args.rounds):
                for kind, path in models.items():
                    latency = kiln(args.kiln, "bench", "--json", "--quiet", "--threads", args.threads, "--time", args.time, path)["latency_ms"]
                    times[kind].append((latency["min"], latency["p50"]))
            least = {kind: min(t[0] for t in rows) for kind, rows in times.items()}
            cells = [f"{least[k]:.3f}, {statistics.median(t[1] for t in times[k]):.3f}" if k in times else "" for k in kinds]
            ratios = " ".join(f"{least['f32'] / least[k]:.2f}" for k in kinds[1:] if k in times)
            told = subprocess.run([args.kiln, "explain", "--library", models["zeros"]], check=True, capture_output=True, text=True).stdout
            print("|", " | ".join([name, *cells, ratios, "loop" if "loop" in told.split() else "ok"]), "|", flush=True)


if __name__ == "__main__":
    main()
