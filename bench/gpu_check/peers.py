# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch (eager and compiled) and XLA beside Kiln on a GPU, row by row in one process. For run.sh: peers.py DEVICE PATTERN TIMES ROUNDS

Each round times Kiln, as run.sh does, and then the peers. Of a kernel it is the GPU's time: behind a write of twice the GPU's cache,
between two events, the least of five. XLA has no events: a twentieth of twenty calls in a row, by the host's clock. Of a model it is the
host's time, from inputs to outputs in its memory. Rows that TIMES names are left out, and one that takes too long, or the process with
it, is not begun again.
"""
import fnmatch
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import frameworks
import numpy as np
import results

SECONDS = 90  # for a row
RUNS = 5
HERE = os.path.dirname(os.path.abspath(__file__))
KILN = os.path.join(HERE, "tree/bin/kiln")


def host_ms(run):
    best = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


class Torch:
    """On the GPU, or, to test this file, on the CPU."""

    def __init__(self, model, feeds, bf16, compiled):
        import torch
        self.torch, self.place = torch, "cuda" if torch.cuda.is_available() else "cpu"
        self.type = torch.bfloat16 if bf16 else None
        framework = frameworks.Torch()
        framework.array = lambda v: self.moved(torch.from_numpy(np.array(v)))
        if bf16:
            framework.cast = lambda x, to: x.to(torch.bfloat16 if to == "float32" else getattr(torch, to))
        function = frameworks.Function(model, framework)
        self.host = [torch.from_numpy(np.array(feeds[name])) for name in function.inputs]
        self.inputs = [self.moved(x) for x in self.host]
        with torch.no_grad():
            module = frameworks.inductor_module(function, self.inputs)
        self.call = torch.compile(module, dynamic=False) if compiled else module
        if self.place == "cuda":
            size = 2 * torch.cuda.get_device_properties(0).L2_cache_size
            self.flush = torch.empty(size, dtype=torch.int8, device=self.place)
            self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def moved(self, x):
        x = x.to(self.place)
        return x.to(self.type) if self.type is not None and x.is_floating_point() else x

    def results(self):
        with self.torch.no_grad():
            ys = self.call(*self.inputs)
        return [(y.float() if y.dtype == self.torch.bfloat16 else y).cpu().numpy() for y in ys]

    def device_ms(self):
        if self.place != "cuda":
            return host_ms(lambda: self.call(*self.inputs))
        best = float("inf")
        with self.torch.no_grad():
            for _ in range(RUNS):
                self.flush.zero_()
                self.events[0].record()
                self.call(*self.inputs)
                self.events[1].record()
                self.events[1].synchronize()
                best = min(best, self.events[0].elapsed_time(self.events[1]))
        return best

    def model_ms(self):
        with self.torch.no_grad():
            return host_ms(lambda: [y.cpu() for y in self.call(*[self.moved(x) for x in self.host])])


class Xla:
    def __init__(self, model, feeds, bf16):
        import jax
        self.jax = jax
        framework = frameworks.Jax()
        self.moved = lambda v: jax.numpy.asarray(v, jax.numpy.bfloat16 if bf16 and v.dtype.kind == "f" else None)
        framework.array = self.moved
        if bf16:
            framework.cast = lambda x, to: x.astype("bfloat16" if to == "float32" else to)
        function = frameworks.Function(model, framework)
        self.host = [np.array(feeds[name]) for name in function.inputs]
        self.inputs = [self.moved(x) for x in self.host]
        compiled = jax.jit(function)
        self.call = lambda *inputs: compiled(function.weights, *inputs)

    def results(self):
        return [np.asarray(y.astype("float32") if y.dtype.name == "bfloat16" else y) for y in self.call(*self.inputs)]

    def device_ms(self, calls=20):
        def run():
            for _ in range(calls):
                last = self.call(*self.inputs)
            self.jax.block_until_ready(last)
        return host_ms(run) / calls

    def model_ms(self):
        return host_ms(lambda: [np.asarray(y) for y in self.call(*[self.moved(x) for x in self.host])])


def on_gpu(package):
    """Whether it is installed, and uses the GPU."""
    if not importlib.util.find_spec(package):
        return False
    library = importlib.import_module(package)
    return library.cuda.is_available() if package == "torch" else library.default_backend() == "gpu"


def peers(device):
    """name -> its maker, of those that can be compared: on the CPU with the emulated GPU, to test this file."""
    found, usable = {}, importlib.util.find_spec if device == "cuda-emulated" else on_gpu
    if usable("torch"):
        found["eager"] = lambda *a: Torch(*a, compiled=False)
        found["inductor"] = lambda *a: Torch(*a, compiled=True)
    if usable("jax"):
        found["xla"] = Xla
    return found


def as_floats(array, bf16):
    """A bfloat16 file of Kiln holds the bits."""
    return (array.astype(np.uint32) << 16).view(np.float32) if bf16 and array.dtype == np.uint16 else array


def kiln_results(device, name, feeds, model, bf16, folder):
    """What Kiln computes of the same inputs."""
    words = []
    for i, (port, value) in enumerate(feeds.items()):
        path = os.path.join(folder, f"in{i}.npy")
        half = bf16 and value.dtype.kind == "f"
        np.save(path, (value.view(np.uint32) >> 16).astype(np.uint16) if half else value)
        words += ["--input", f"{port}=@{path}"]
    for i, port in enumerate(model["outputs"]):
        words += ["--output", f"{port}=@{folder}/out{i}.npy"]
    subprocess.run([KILN, "run", f"cases/{name}.kiln", "--device", device, "--no-cache", "-q", *words], check=True, stdout=subprocess.DEVNULL,
                   cwd=HERE, timeout=SECONDS)
    return [as_floats(np.load(f"{folder}/out{i}.npy"), bf16) for i in range(len(model["outputs"]))]


def kiln_ms(device, name):
    """What run.sh measures, as its text."""
    done = subprocess.run(["sh", os.path.join(HERE, "run.sh"), "--device", device, "--time-row", name], capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    return done.stdout.split()


def feeds_of(model, bf16):
    feeds = {}
    for port in model["inputs"]:
        generator = np.random.default_rng(1)
        kind = np.dtype(port["dtype"])
        value = generator.random(port["shape"]) + .1 if kind.kind == "f" else generator.integers(0, 2, port["shape"])
        value = value.astype(kind)
        # Of bfloat16 the values that it has.
        feeds[port["name"]] = (value.view(np.uint32) & 0xffff0000).view(np.float32) if bf16 and kind == np.float32 else value
    return feeds


def measure(device, name, kind, rounds, write):
    bf16 = name.endswith(".bf16")
    with open(os.path.join(HERE, "graphs", name.split(".")[0] + ".json")) as file:
        model = json.load(file)
    feeds, runtimes = feeds_of(model, bf16), {}
    with tempfile.TemporaryDirectory() as folder:
        ours = kiln_results(device, name, feeds, model, bf16, folder)
    for peer, make in peers(device).items():
        try:
            runtime = make(model, feeds, bf16)
            runtimes[peer] = runtime, results.largest_error(ours, runtime.results())
        except Exception as error:  # of any kind: a peer that cannot run a row is left out
            write(name, "error", peer, f"{type(error).__name__}: {error}".replace("\n", " ")[:200])
    for _ in range(rounds):
        measured = kiln_ms(device, name)
        if len(measured) == 2:
            write(name, "kiln", *measured)
        for peer, (runtime, error) in runtimes.items():
            write(name, peer, runtime.model_ms() if kind == "model" else runtime.device_ms(), error)


def main():
    device, pattern, path, rounds = sys.argv[1:]
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    begun = set()
    if os.path.exists(path):
        with open(path) as file:
            begun = {line.split("\t")[0] for line in file}
    with open(os.path.join(HERE, "cases.tsv")) as file:
        rows = [line.split("\t")[:2] for line in file]
    with open(path, "a", buffering=1) as out:
        write = lambda *words: print(*words, sep="\t", file=out)
        for name, kind in rows:
            if name in begun or kind not in ("kernel", "model") or not fnmatch.fnmatchcase(name, pattern):
                continue
            write(name, "begun")
            signal.alarm(SECONDS)  # ends the process
            try:
                measure(device, name, kind, int(rounds), write)
            except (OSError, subprocess.SubprocessError) as error:
                write(name, "error", "kiln", str(error)[:200])
            signal.alarm(0)


if __name__ == "__main__":
    main()
