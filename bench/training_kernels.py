#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times kernels of training steps (bench/training) on Kiln, on torch and on torch.compile, in turn, in one run.

  bench/training_kernels.py --kiln build/release/bin/kiln --threads 1 --repeat 60 [ROW ...]

torch runs its own operators for what a graph computes (native_layer_norm_backward and the like), torch.compile the same functions
through TorchInductor. Prints minima in ms, the fastest torch / Kiln, and Kiln's bandwidth beside that of a copy of 64 MiB in the same
run. Random numbers of dropout differ, so its outputs are not compared. Needs numpy and torch.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import interleaved
import machine
import results

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "training")
COPY = "copy"


def inputs_of(row):
    """name -> array, by what the graph's text says."""
    import numpy as np
    arrays, random = {}, np.random.default_rng(1)
    with open(os.path.join(FOLDER, row + ".graph")) as file:
        words = [line.split(maxsplit=4) for line in file if line.startswith("input ")]
    for _, name, _, dtype, shape in words:
        shape = json.loads(shape)
        if dtype == "i64":
            arrays[name] = random.integers(0, 1000, shape)
        elif name in ("inverse", "y"):  # 1 / deviation; probabilities
            arrays[name] = random.uniform(0.5, 1.5, shape).astype("float32")
        else:
            arrays[name] = random.standard_normal(shape).astype("float32")
    return arrays


def functions():
    """The rows as torch functions of the graph's inputs, giving its outputs."""
    import torch
    F, aten = torch.nn.functional, torch.ops.aten

    def layer_norm_backward(dy, x, mean, inverse, scale):
        return aten.native_layer_norm_backward(dy, x, [x.shape[1]], mean, inverse, scale, scale, [True, True, True])

    def batch_norm_backward(dy, x, mean, inverse, scale):
        dy, x = dy.permute(0, 3, 1, 2), x.permute(0, 3, 1, 2)
        dx, dscale, dbias = aten.native_batch_norm_backward(dy, x, scale, None, None, mean, inverse, True, 1e-5, [True] * 3)
        return dx.permute(0, 2, 3, 1), dscale, dbias

    def cross_entropy(x, label):
        p = torch.log_softmax(x, 1)
        loss, weight = aten.nll_loss_forward(p, label, None, 1, -100)
        d = aten.nll_loss_backward(torch.ones_like(loss), p, label, None, 1, -100, weight)
        return loss, aten._log_softmax_backward_data(d, p, 1, x.dtype)

    def dropout_residual_norm(x, residual, scale, bias, count):
        h = F.dropout(x, 0.1, True) + residual
        return h, F.layer_norm(h, scale.shape, scale, bias)

    return {"layer_norm_backward": layer_norm_backward, "batch_norm_backward": batch_norm_backward, "cross_entropy": cross_entropy,
            "dropout_residual_norm": dropout_residual_norm,
            "softmax_backward": lambda dy, y: (aten._softmax_backward_data(dy, y, 1, y.dtype),),
            "gelu_backward": lambda dy, x: (aten.gelu_backward(dy, x),)}


class Torch:
    """Answers as `kiln bench --serve` does."""

    def __init__(self, compiled, threads):
        import torch
        torch.set_num_threads(threads)
        self.torch, self.compiled = torch, compiled

    def load(self, request):
        import numpy as np
        row = os.path.basename(request["onnx"])[:-len(".graph")]
        if row == COPY:
            a, b = self.torch.zeros(1 << 24), self.torch.ones(1 << 24)
            self.run = lambda: a.copy_(b)
            return {"ok": True}
        arguments = [self.torch.from_numpy(np.load(path)) for path in request["inputs"].values()]
        function = functions()[row]
        if self.compiled:
            self.torch._dynamo.reset()
            function = self.torch.compile(function, dynamic=False)
        for k, output in enumerate(function(*arguments)):
            np.save(f"{request['results']}{k}.npy", output.numpy())
        self.run = lambda: function(*arguments)
        return {"ok": True}

    def time(self, request):
        for _ in range(request["warm"]):
            self.run()
        ms = []
        for _ in range(request["n"]):
            start = time.perf_counter()
            self.run()
            ms.append((time.perf_counter() - start) * 1e3)
        return {"ms": ms}


def serve(kind, threads):
    torch = Torch(kind == "compile", threads)
    with torch.torch.no_grad():
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer = torch.load(request) if request["cmd"] == "load" else torch.time(request)
            except Exception as error:  # whatever torch raises
                answer = {"ok": False, "error": str(error)[:300]}
            print(json.dumps(answer), flush=True)


def measure(row, runtimes, repeat):
    """A row of kiln.peers/1, with `gb_s` and `copy_percent`."""
    import numpy as np
    with tempfile.TemporaryDirectory() as folder:
        arrays = inputs_of(row)
        paths = {name: os.path.join(folder, name + ".npy") for name in arrays}
        for name, array in arrays.items():
            np.save(paths[name], array)
        times, errors = interleaved.interleave(runtimes, os.path.join(FOLDER, row + ".graph"), paths, folder, repeat)
        outputs = {name: results.outputs(interleaved.results_of(name, folder)) for name in times}
        if row.startswith("dropout"):
            outputs = {name: outputs["kiln -O3"] for name in times}
        measured = results.peers_row(row, "kiln -O3", times, errors, outputs)
        copy, _ = interleaved.interleave([r for r in runtimes if r.name == "torch"], COPY + ".graph", {}, folder, 24)
        moved = sum(a.nbytes for a in arrays.values()) + sum(o.nbytes for o in outputs["kiln -O3"])
    measured["gb_s"] = moved / times["kiln -O3"][0] / 1e6
    measured["copy_percent"] = 100 * measured["gb_s"] / (2 * 4 * (1 << 24) / copy["torch"][0] / 1e6)
    return measured


def main():
    rows = sorted(f[:-6] for f in os.listdir(FOLDER) if f.endswith(".graph"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="all by default")
    parser.add_argument("--kiln", default="build/release/bin/kiln")
    parser.add_argument("--threads", type=int, default=1, help="also the CPUs that a process may use")
    parser.add_argument("--repeat", type=int, default=60, help="runs of each")
    parser.add_argument("--json", metavar="FILE", help="writes kiln.peers/1")
    parser.add_argument("--keep", action="store_true", help="writes it to bench/results/CPU")
    parser.add_argument("--serve", choices=("eager", "compile"), help=argparse.SUPPRESS)
    args = parser.parse_intermixed_args()
    if args.serve:
        serve(args.serve, args.threads)
        return
    load = machine.Load()
    runtimes = interleaved.start(args.kiln, ["3"], [], args.threads)
    for name, kind in (("torch", "eager"), ("torch.compile", "compile")):
        command = [sys.executable, "-B", os.path.abspath(__file__), "--serve", kind, "--threads", str(args.threads)]
        runtimes.append(interleaved.Runtime(name, command, args.threads))
    names = [r.name for r in runtimes]
    print("| row | " + " | ".join(f"{n} ms" for n in names) + " | fastest torch / Kiln, minima | medians | copy % |")
    print("| --- " * (len(names) + 4) + "|")
    measured = []
    for row in args.rows or rows:
        measured.append(measure(row, runtimes, args.repeat))
        of, ratio = measured[-1]["runtimes"], measured[-1].get("ratio") or {"min": 0, "median": 0}
        for name, error in measured[-1]["errors"].items():
            print(f"{row}: {name}: {error}", file=sys.stderr)
        cells = [f"{of[n]['min_ms']:.4g}" + ("" if of[n].get("agrees", True) else f" (error {of[n]['error']})") if n in of else "-"
                 for n in names]
        print("| " + " | ".join([row, *cells, f"{ratio['min']:.2f}", f"{ratio['median']:.2f}",
                                 f"{measured[-1]['copy_percent']:.0f}"]) + " |", flush=True)
    for runtime in runtimes:
        runtime.close()
    import torch
    report = results.report("training kernels", args.kiln, {"threads": args.threads, "repeat": args.repeat}, {"torch": torch.__version__},
                            load, measured)
    stem = f"training-kernels-{results.build_name(report['kiln'])}-t{args.threads}"
    for path in [args.json] * bool(args.json) + [results.kept(report, stem)] * args.keep:
        results.write(report, path)
    ratios = [r["ratio"]["min"] for r in measured if r.get("ratio")]
    print(f"\ngeometric mean: {statistics.geometric_mean(ratios):.2f}" if ratios else "")


if __name__ == "__main__":
    main()
