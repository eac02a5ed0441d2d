#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times models on Kiln, at one or several levels, beside ONNX Runtime and OpenVINO, in turn, in one run.

  bench/models.py --kiln build/release/bin/kiln --threads 1 --repeat 20 --levels 3 MODEL.onnx[:name=input.npy,...] ...

Peers need numpy; one that is not installed is left out. Every runtime has a process of its own, stopped while another is timed. An input
that is not given is input_I.npy beside the model, else random; an open dim is 1, or as --dim says. Prints minima and medians in ms and
the ratios that matter; several levels also print what each launches, moves and keeps.
"""
import argparse
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import tensors

ROUNDS = 6


class OnnxRuntime:
    def __init__(self, level, threads, path, feeds):
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feeds = {i.name: feeds[i.name] for i in session.get_inputs()}
        self.first = session.run(None, feeds)
        binding = session.io_binding()
        for name, value in feeds.items():
            binding.bind_cpu_input(name, value)
        for output, value in zip(session.get_outputs(), self.first):
            binding.bind_ortvalue_output(output.name, ort.OrtValue.ortvalue_from_numpy(value))
        self.run = lambda: session.run_with_iobinding(binding)


class OpenVino:
    def __init__(self, _, threads, path, feeds):
        import openvino as ov
        core = ov.Core()
        core.set_property("CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"})
        model = core.read_model(path)
        model.reshape({i.any_name: feeds[i.any_name].shape for i in model.inputs})
        compiled = core.compile_model(model, "CPU")
        request = compiled.create_infer_request()
        for i in compiled.inputs:
            request.set_tensor(i, ov.Tensor(feeds[i.any_name], shared_memory=True))
        request.infer()
        self.first = [request.get_tensor(o).data for o in compiled.outputs]
        self.run = request.infer


PEERS = {"ort": ("onnxruntime", OnnxRuntime, "ORT_ENABLE_ALL"), "ort off": ("onnxruntime", OnnxRuntime, "ORT_DISABLE_ALL"),
         "openvino": ("openvino", OpenVino, "")}


def serve(peer, threads):
    """A peer's process: the protocol of `kiln bench --serve`."""
    import numpy as np
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print must not break the protocol
    runtime = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["cmd"] == "load":
                feeds = {n: np.load(p) for n, p in request["inputs"].items()}
                runtime = PEERS[peer][1](PEERS[peer][2], threads, request["onnx"], feeds)
                for i, value in enumerate(runtime.first):
                    np.save(f"{request['results']}{i}.npy", value)
                answer = {"ok": True, "results": len(runtime.first)}
            else:
                for _ in range(request["warm"]):
                    runtime.run()
                ms = []
                for _ in range(request["n"]):
                    start = time.perf_counter()
                    runtime.run()
                    ms.append((time.perf_counter() - start) * 1e3)
                answer = {"ms": ms}
        except Exception as error:  # a peer that cannot run a model is left out
            answer = {"ok": False, "error": str(error)[:300]}
        print(json.dumps(answer), file=answers, flush=True)


def pinned(threads, variables):
    """Arguments of Popen for a process on as many CPUs as it has threads."""
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    return {"env": dict(os.environ, OMP_NUM_THREADS=str(threads), **variables),
            "preexec_fn": lambda: os.sched_setaffinity(0, cpus)}


class Runtime:
    def __init__(self, name, command, threads, **variables):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **pinned(threads, variables))

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or '{"ok": false, "error": "the process ended"}')

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """Lets it end by itself: what it still writes to its cache gets there."""
        try:
            self.process.communicate(timeout=60)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.close()


def input_ports(kiln, path):
    """The inputs of a model as Kiln sees them: name, dtype, shape."""
    found = subprocess.run([kiln, "inspect", path, "--json"], capture_output=True, text=True)
    if found.returncode != 0:
        raise SystemExit(found.stderr)
    return json.loads(found.stdout)["results"]["inputs"]


def inputs_of(args, spec, folder):
    """The model's path, and for each input a file: the one given, input_I.npy beside the model, or random values."""
    path, _, given = spec.partition(":")
    files = dict(item.split("=", 1) for item in given.split(",")) if given else {}
    dims = dict(item.split("=") for item in args.dim)
    for i, port in enumerate(input_ports(args.kiln, path)):
        name, beside = port["name"], os.path.join(os.path.dirname(path), f"input_{i}.npy")
        if name not in files and os.path.exists(beside):
            files[name] = beside
        if name in files:
            continue
        shape = [d if isinstance(d, int) else int(dims.get(d, 1)) for d in port["shape"]]
        files[name] = os.path.join(folder, f"in_{i}.npy")
        tensors.write_npy(files[name], port["dtype"], shape, tensors.model_values(port["dtype"]))
    return os.path.abspath(path), {n: os.path.abspath(p) for n, p in files.items()}


def options_of(level):
    """0 to 3, or greedy: level 3 that groups by the rules of fusion/group.h's FusionRules::kGreedy."""
    return ["-O3", "--rules=greedy"] if level == "greedy" else [f"-O{level}"]


def name_of(level):
    return "kiln greedy" if level == "greedy" else f"kiln -O{level}"


def start(args, levels):
    kiln = [os.path.abspath(args.kiln), "bench", "--serve", "--threads", str(args.threads)]
    commands = {name_of(level): kiln + options_of(level) for level in levels}
    for peer in args.peers.split(",") if args.peers else []:
        if importlib.util.find_spec(PEERS[peer][0]):
            commands[peer] = [sys.executable, os.path.abspath(__file__), "--serve", peer, str(args.threads)]
        else:
            print(f"{PEERS[peer][0]} is not installed: left out", file=sys.stderr)
    return [Runtime(n, c, args.threads) for n, c in commands.items()]


def interleave(runtimes, path, inputs, folder, repeat):
    """(minimum, median) in ms of every runtime that can load the model."""
    samples = {}
    for r in runtimes:
        r.go_on()
        answer = r.ask(cmd="load", onnx=path, inputs=inputs, results=os.path.join(folder, r.name.replace(" ", "_")))
        if answer.get("ok"):
            samples[r.name] = []
        else:
            print(f"{r.name}: left out: {answer.get('error')}", file=sys.stderr)
    # Only now: who is stopped while it builds a kernel keeps others from it.
    for r in runtimes:
        r.stop()
    for round_ in range(ROUNDS):
        for r in runtimes if round_ % 2 == 0 else runtimes[::-1]:
            if r.name in samples:
                r.go_on()
                samples[r.name] += r.ask(cmd="time", n=-(-repeat // ROUNDS), warm=2 if round_ == 0 else 1, budget_s=60)["ms"]
                r.stop()
    return {n: (min(ms), statistics.median(ms)) for n, ms in samples.items()}


def measure(args, path, inputs, levels, folder):
    runtimes = start(args, levels)
    times = interleave(runtimes, path, inputs, folder, args.repeat)
    for r in runtimes:
        r.close()
    return times


def print_levels(args, path, inputs, levels):
    for level in levels:
        command = [args.kiln, "bench", path, *options_of(level), "--iters", "1", "--warmup", "0", "--json", "-q", "--threads", str(args.threads)]
        for name, file in inputs.items():
            command += ["--input", f"{name}=@{file}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{name_of(level)}: {done.stderr.strip()}", file=sys.stderr)
            continue
        r = json.loads(done.stdout)["results"]
        launches = r["launches"]
        print(f"{name_of(level)}: {launches['kernel']} kernels, {launches['library']} library calls, {launches['other']} other; "
              f"{r['bytes_moved'] / 2**20:.1f} MiB moved, arena {r['memory']['arena'] / 2**20:.1f} MiB")


def report(times, levels):
    print(f"{'':10} {'min ms':>9} {'median ms':>10}")
    for name, (best, middle) in times.items():
        print(f"{name:10} {best:9.3f} {middle:10.3f}")
    mine = name_of(levels[-1])
    others = [n for n in times if n != mine]
    peers = [n for n in others if not n.startswith("kiln")]
    for name in others:
        print(f"{name} / {mine}: {times[name][0] / times[mine][0]:.2f} (minima), {times[name][1] / times[mine][1]:.2f} (medians)")
    if peers and mine in times:
        best = [min(times[p][k] for p in peers) / times[mine][k] for k in (0, 1)]
        print(f"best peer / {mine}: {best[0]:.2f} (minima), {best[1]:.2f} (medians)")


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL[:name=file,...]", help="ONNX files; .graph files too without peers")
    parser.add_argument("--kiln", default="build/release/bin/kiln")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--levels", default="0,3", help="of Kiln, 0 to 3 or greedy; the last one is compared with all others")
    parser.add_argument("--peers", default="ort,ort off,openvino")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N")
    args = parser.parse_args()
    levels = args.levels.split(",")
    for spec in args.models:
        with tempfile.TemporaryDirectory() as folder:
            path, inputs = inputs_of(args, spec, folder)
            print(f"\n{path}, {args.threads} thread(s)")
            report(measure(args, path, inputs, levels, folder), levels)
            if len(levels) > 1:
                print_levels(args, path, inputs, levels)


if __name__ == "__main__":
    main()
