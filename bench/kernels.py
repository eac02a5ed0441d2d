#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the graphs of bench/kernels (k1 ... k17) on Kiln and on the peers that are installed, in turn, in one run.

  bench/kernels.py --kiln build/release/bin/kiln --threads 1 --repeat 30 [ROW ...]

Peers: ONNX Runtime, OpenVINO; one that is not installed is left out. Needs numpy and onnx: every graph is written as an
ONNX file, which all of them read, and gets the same inputs. Every runtime has a process of its own, stopped while another
is timed. Prints minima in ms, the ratio of the best peer's minimum to Kiln's (and of medians), and their geometric mean.
"""
import argparse
import json
import math
import os
import re
import tempfile

import models
import tensors

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels")
ONNX_NAMES = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "min": "Min", "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh",
    "exp": "Exp", "log": "Log", "neg": "Neg", "sqrt": "Sqrt", "round": "Round", "clip": "Clip", "softmax": "Softmax",
    "log_softmax": "LogSoftmax", "layer_norm": "LayerNormalization", "instance_norm": "InstanceNormalization", "gelu": "Gelu",
    "reduce_sum": "ReduceSum", "reduce_mean": "ReduceMean", "argmax": "ArgMax", "gather": "Gather", "cast": "Cast",
    "gather_elements": "GatherElements", "transpose": "Transpose", "concat": "Concat", "slice": "Slice", "reshape": "Reshape",
    "unsqueeze": "Unsqueeze"}
# Attributes of ours that ONNX (opset 20) takes as inputs, in their order.
AS_INPUTS = {"slice": ("starts", "ends", "axes", "steps"), "reshape": ("shape",), "unsqueeze": ("axes",), "reduce_sum": ("axes",),
             "reduce_mean": ("axes",)}


INPUT = re.compile(r"input (\S+) : (\w+) \[(.*)\]")


def numpy_type(name):
    import numpy as np
    return {"f32": np.float32, "i64": np.int64, "u8": np.uint8}[name]


class Importer:
    """One graph file as an ONNX model."""

    def __init__(self, path):
        self.nodes, self.inputs, self.constants, self.outputs = [], {}, [], []
        lines = [line.strip() for line in open(path)]
        instead = [line[len("# onnx "):] for line in lines if line.startswith("# onnx ")]
        plain = [line for line in lines if line and not line.startswith("#")]
        if instead:  # one operator of ONNX for what the graph spells out
            plain = [line for line in plain if line.startswith("input ")] + instead + [line for line in plain
                                                                                      if line.startswith("output ")]
        for line in plain:
            self.statement(line)

    def constant(self, values, dtype, shape=None):
        import numpy as np
        import onnx
        name = f"constant_{len(self.constants)}"
        array = np.asarray(values, dtype)
        self.constants.append(onnx.numpy_helper.from_array(array if shape is None else array.reshape(shape), name))
        return name

    def statement(self, line):
        import onnx
        if line.startswith("graph "):
            return
        if match := INPUT.fullmatch(line):
            self.inputs[match[1]] = (match[2], dims_of(match[3]))
        elif match := re.fullmatch(r"const (\S+) : (\w+) \[(.*?)\] = (.*)", line):
            shape = [int(d) for d in match[3].split(",") if d.strip()]
            self.constants.append(onnx.numpy_helper.from_array(self.array(match[4], match[2], shape), match[1]))
        elif match := re.fullmatch(r"output (\S+)", line):
            self.outputs.append(match[1])
        elif match := re.fullmatch(r"(\S+) = (\w+)\((.*?)\)(?: \{(.*)\})?", line):
            attributes = dict(re.findall(r"(\w+) = (\[[^\]]*\]|\"[^\"]*\"|\S+?)(?:,|$)", match[4] or ""))
            self.node(match[1], match[2], [a.strip() for a in match[3].split(",")], attributes)
        else:
            raise ValueError(f"not understood: {line}")

    @staticmethod
    def array(text, dtype, shape):
        import numpy as np
        return np.asarray(json.loads(text), numpy_type(dtype)).reshape(shape)

    def node(self, result, op, operands, attributes):
        import numpy as np
        import onnx
        for name in AS_INPUTS.get(op, ()):
            if name in attributes:
                operands = operands + [self.constant(json.loads(attributes.pop(name)), np.int64)]
        if op == "cast":
            kinds = {"f32": onnx.TensorProto.FLOAT, "u8": onnx.TensorProto.UINT8}
            attributes = {"to": str(kinds[attributes["to"]])}
        values = {k: json.loads(v) for k, v in attributes.items()}
        self.nodes.append(onnx.helper.make_node(ONNX_NAMES[op], operands, [result], **values))

    def save(self, path):
        import onnx
        info = onnx.helper.make_tensor_value_info
        kind = lambda t: onnx.helper.np_dtype_to_tensor_dtype(__import__("numpy").dtype(numpy_type(t)))
        graph = onnx.helper.make_graph(self.nodes, "kernel", [info(n, kind(t), s) for n, (t, s) in self.inputs.items()],
                                       [onnx.ValueInfoProto(name=n) for n in self.outputs], self.constants)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
        onnx.save(onnx.shape_inference.infer_shapes(model, strict_mode=True), path)


def dims_of(text):
    return [int(d) for d in text.split(",") if d.strip()]


def ports(text):
    """The inputs of a graph's text: name -> (type, shape)."""
    found = filter(None, map(INPUT.fullmatch, map(str.strip, text.splitlines())))
    return {match[1]: (match[2], dims_of(match[3])) for match in found}


def with_type(text, dtype):
    """A graph's text with f32 replaced by another float type: inputs, constants and casts."""
    text = re.sub(r"(?m)^((?:input|const) \S+ : )f32\b", rf"\g<1>{dtype}", text)
    return re.sub(r"\bto = f32\b", f"to = {dtype}", text)


def every_row():
    """Names of all graphs, k2 before k10."""
    return sorted((f[:-6] for f in os.listdir(FOLDER) if f.endswith(".graph")), key=lambda n: (int(re.match(r"k(\d+)", n)[1]), n))


def rows_named(names):
    """Rows in their order: k1_64K, or k1 for all that begin so; all if no name is given."""
    return [r for r in every_row() if not names or r in names or r.split("_")[0] in names]


def make_inputs(wanted, folder):
    """A file for each input; `wanted` is name -> (type, shape)."""
    paths = {name: os.path.join(folder, f"{name}.npy") for name in wanted}
    for name, (dtype, shape) in wanted.items():
        tensors.write_npy(paths[name], dtype, shape, tensors.kernel_values(dtype))
    return paths


def measure(row, runtimes, repeat):
    with tempfile.TemporaryDirectory() as folder:
        importer = Importer(os.path.join(FOLDER, row + ".graph"))
        path = os.path.join(folder, "model.onnx")
        importer.save(path)
        return models.interleave(runtimes, path, make_inputs(importer.inputs, folder), folder, repeat)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="k1_64K, or k1 for all that begin so; all by default")
    parser.add_argument("--kiln", default="build/release/bin/kiln")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--peers", default="ort,openvino")
    args = parser.parse_args()
    rows = rows_named(args.rows)
    runtimes = models.start(args, ["3"])
    names = [r.name for r in runtimes]
    ratios = []
    print("| row | " + " | ".join(f"{n} ms" for n in names) + " | best peer / kiln, minima | medians |")
    print("| --- " * (len(names) + 3) + "|")
    for row in rows:
        times = measure(row, runtimes, args.repeat)
        cells = [f"{times[n][0]:.3f}" if n in times else "-" for n in names]
        peers = [times[n] for n in names[1:] if n in times]
        if peers and names[0] in times:
            ratio = [min(p[k] for p in peers) / times[names[0]][k] for k in (0, 1)]
            ratios.append(ratio)
            cells += [f"{r:.2f}" for r in ratio]
        else:
            cells += ["-", "-"]
        print(f"| {row} | " + " | ".join(cells) + " |", flush=True)
    for r in runtimes:
        r.close()
    if ratios:
        mean = [math.exp(sum(math.log(r[k]) for r in ratios) / len(ratios)) for k in (0, 1)]
        print(f"\ngeometric mean over {len(ratios)} rows: {mean[0]:.2f} (minima), {mean[1]:.2f} (medians)")


if __name__ == "__main__":
    main()
