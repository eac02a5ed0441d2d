#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times models on Kiln (-O0 and -O3) and on ONNX Runtime (optimisations off and all on), in turn, in one run.

  bench/models.py --kiln build/release/bin/kiln --threads 1 --repeat 30 MODEL.onnx[:name=input.npy,...] ...

Needs numpy; ONNX Runtime is left out where it is not installed. Every runtime has a process of its own, stopped while another is timed.
Prints minima and medians in ms and, for each pair that matters, the ratio of minima and of medians.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 6


def serve_ort(level, threads):
    """The peer's process: the protocol of `kiln bench --serve`."""
    import numpy as np
    import onnxruntime as ort
    run = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "load":
            options = ort.SessionOptions()
            options.intra_op_num_threads = threads
            options.log_severity_level = 3
            options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
            session = ort.InferenceSession(request["onnx"], options, providers=["CPUExecutionProvider"])
            feeds = {i.name: np.load(request["inputs"][i.name]) for i in session.get_inputs()}
            binding = session.io_binding()
            for name, value in feeds.items():
                binding.bind_cpu_input(name, value)
            first = session.run(None, feeds)
            for output, value in zip(session.get_outputs(), first):
                binding.bind_ortvalue_output(output.name, ort.OrtValue.ortvalue_from_numpy(value))
            for i, value in enumerate(first):
                np.save(f"{request['results']}{i}.npy", value)
            run = lambda: session.run_with_iobinding(binding)
            answer = {"ok": True, "results": len(first)}
        elif request["cmd"] == "time":
            for _ in range(request["warm"]):
                run()
            ms = []
            for _ in range(request["n"]):
                start = time.perf_counter()
                run()
                ms.append((time.perf_counter() - start) * 1e3)
            answer = {"ms": ms}
        else:
            return
        print(json.dumps(answer), flush=True)


class Runtime:
    def __init__(self, name, command, threads):
        cpus = sorted(os.sched_getaffinity(0))[:threads]
        env = dict(os.environ, OMP_NUM_THREADS=str(threads))
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cpus))

    def ask(self, **request):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"ok": false, "error": "the process ended"}')
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def close(self):
        self.process.kill()
        self.process.wait()


def inputs_of(spec):
    """MODEL.onnx:x=a.npy,y=b.npy, or MODEL.onnx with input_0.npy, ... beside it."""
    path, _, given = spec.partition(":")
    if given:
        return path, dict(item.split("=", 1) for item in given.split(","))
    import onnx
    graph = onnx.load(path, load_external_data=False).graph
    weights = {t.name for t in graph.initializer}
    names = [i.name for i in graph.input if i.name not in weights]
    return path, {n: os.path.join(os.path.dirname(path), f"input_{i}.npy") for i, n in enumerate(names)}


def measure(spec, args, folder):
    path, inputs = inputs_of(spec)
    path = os.path.abspath(path)
    inputs = {n: os.path.abspath(p) for n, p in inputs.items()}
    kiln = [os.path.abspath(args.kiln), "bench", "--serve", "--threads", str(args.threads)]
    me = [sys.executable, os.path.abspath(__file__), "--serve-ort"]
    commands = {"kiln -O0": kiln + ["-O0"], "kiln -O3": kiln + ["-O3"]}
    try:
        import onnxruntime  # noqa: F401
        commands["ort off"] = me + ["ORT_DISABLE_ALL", str(args.threads)]
        commands["ort all"] = me + ["ORT_ENABLE_ALL", str(args.threads)]
    except ImportError:
        print("onnxruntime is not installed: left out", file=sys.stderr)
    runtimes = [Runtime(n, c, args.threads) for n, c in commands.items()]
    samples = {}
    for r in runtimes:
        answer = r.ask(cmd="load", onnx=path, inputs=inputs, results=os.path.join(folder, r.name.replace(" ", "_")))
        if answer.get("ok"):
            samples[r.name] = []
        else:
            print(f"{r.name}: {answer.get('error')}", file=sys.stderr)
    for round_ in range(ROUNDS):
        for r in runtimes if round_ % 2 == 0 else runtimes[::-1]:
            if r.name in samples:
                samples[r.name] += r.ask(cmd="time", n=-(-args.repeat // ROUNDS), warm=2 if round_ == 0 else 1, budget_s=60)["ms"]
    for r in runtimes:
        r.close()
    return {n: (min(ms), statistics.median(ms)) for n, ms in samples.items()}


def main():
    if sys.argv[1:2] == ["--serve-ort"]:
        return serve_ort(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL[:name=file,...]")
    parser.add_argument("--kiln", default="build/release/bin/kiln")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=30)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for spec in args.models:
            times = measure(spec, args, folder)
            print(f"\n{spec.partition(':')[0]}, {args.threads} thread(s)")
            print(f"{'':10} {'min ms':>9} {'median ms':>10}")
            for name, (best, middle) in times.items():
                print(f"{name:10} {best:9.3f} {middle:10.3f}")
            for a, b in (("kiln -O0", "ort off"), ("ort all", "kiln -O3"), ("kiln -O0", "kiln -O3")):
                if a in times and b in times:
                    print(f"{a} / {b}: {times[a][0] / times[b][0]:.2f} (minima), {times[a][1] / times[b][1]:.2f} (medians)")


if __name__ == "__main__":
    main()
