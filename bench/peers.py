#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runtimes that Kiln is timed beside, each in a process of its own.

  bench/peers.py serve PEER THREADS     answers requests as `kiln bench --serve` does: load, time
  bench/peers.py once PEER THREADS FILE.json     loads {"onnx", "inputs"}, runs it once and prints how long Python's imports took

Each class takes the threads, the path of an ONNX file and its inputs by name; `first` holds the results of its first run, and run()
makes another. A peer that is not installed is left out. TorchInductor and XLA get the model through frameworks.py: TorchInductor with
its weights frozen, XLA with its weights as arguments.
"""
import importlib.metadata
import importlib.util
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import answers  # noqa: E402


class OnnxRuntime:
    """With all optimisations; inputs and outputs are bound."""
    level = "ORT_ENABLE_ALL"

    def __init__(self, threads, path, feeds):
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, self.level)
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feeds = {i.name: feeds[i.name] for i in session.get_inputs()}
        self.first = session.run(None, feeds)
        binding = session.io_binding()
        for name, value in feeds.items():
            binding.bind_cpu_input(name, value)
        for output, value in zip(session.get_outputs(), self.first):
            binding.bind_ortvalue_output(output.name, ort.OrtValue.ortvalue_from_numpy(value))
        self.run = lambda: session.run_with_iobinding(binding)


class OnnxRuntimeOff(OnnxRuntime):
    level = "ORT_DISABLE_ALL"


class OpenVino:
    """One stream, f32."""

    def __init__(self, threads, path, feeds):
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
        self.first = [request.get_tensor(o).data.copy() for o in compiled.outputs]
        self.run = request.infer


class Inductor:
    def __init__(self, threads, path, feeds):
        import torch
        import frameworks
        from torch._inductor import config
        config.freezing = True
        torch.set_num_threads(threads)
        function = frameworks.Function(path, frameworks.Torch())
        inputs = [torch.from_numpy(feeds[name]) for name in function.inputs]
        with torch.no_grad():
            compiled = torch.compile(frameworks.inductor_module(function, inputs), dynamic=False)

        def run():
            with torch.no_grad():
                return compiled(*inputs)

        self.first = [y.numpy() for y in run()]
        self.run = run


class Xla:
    """Threads are as many as the process may use CPUs."""

    def __init__(self, _, path, feeds):
        import jax
        import numpy
        import frameworks
        function = frameworks.Function(path, frameworks.Jax())
        compiled = jax.jit(function)
        inputs = [jax.numpy.asarray(feeds[name]) for name in function.inputs]
        self.run = lambda: jax.block_until_ready(compiled(function.weights, *inputs))
        self.first = [numpy.asarray(y) for y in self.run()]


# name in commands: (its module, class, name on pages)
PEERS = {"ort": ("onnxruntime", OnnxRuntime, "ONNX Runtime"), "ort off": ("onnxruntime", OnnxRuntimeOff, "ONNX Runtime, not optimised"),
         "openvino": ("openvino", OpenVino, "OpenVINO"), "inductor": ("torch", Inductor, "TorchInductor"), "xla": ("jax", Xla, "XLA")}


def installed(name):
    return importlib.util.find_spec(PEERS[name][0]) is not None


def version(name):
    module = PEERS[name][0]
    return f"{module} {importlib.metadata.version(module)}"


def load(peer, threads, request):
    import numpy as np
    feeds = {n: np.load(p) for n, p in request["inputs"].items()}
    runtime = PEERS[peer][1](threads, request["onnx"], feeds)
    runtime.feeds = feeds  # what it reads lives as long as it does
    return runtime


def serve(peer, threads):
    import numpy as np

    def loaded(request):
        runtime = load(peer, threads, request)
        for i, value in enumerate(runtime.first):
            np.save(f"{request['results']}{i}.npy", value)
        return runtime, runtime.run, {"ok": True, "results": len(runtime.first)}

    answers.answer_all(loaded)


def once(peer, threads, path):
    start = time.perf_counter()
    importlib.import_module(PEERS[peer][0])
    import numpy  # noqa: F401
    imported = (time.perf_counter() - start) * 1e3
    with open(path) as file:
        load(peer, threads, json.load(file))
    print(json.dumps({"imports_ms": imported}), flush=True)


if __name__ == "__main__":
    {"serve": serve, "once": once}[sys.argv[1]](sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
