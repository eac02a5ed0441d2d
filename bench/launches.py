#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Launches of a run at -O3 beside those of TorchInductor.

  bench/launches.py --kiln build/release/bin/kiln MODEL.onnx ...

Kiln: kernels and library calls, from `kiln explain --json`. TorchInductor (where torch is installed): the model is carried
out node by node with torch's functions under torch.compile, and calls are counted in the wrapper that it generates: those
of generated kernels, and those of extern kernels (library operators). Its C++ is not compiled. A model with an operator
that this script does not know is left out.
"""
import argparse
import json
import os
import re
import subprocess

import onnx
from onnx import numpy_helper


def kiln_launches(kiln, path):
    out = subprocess.run([kiln, "explain", "--json", path], capture_output=True, text=True, check=True).stdout
    results = json.loads(out)["results"]
    groups = [g["kind"] for g in results["traffic"]["groups"]]
    return groups.count("kernel"), groups.count("library")


class Graph:
    """An ONNX graph as a function of torch tensors."""

    def __init__(self, model):
        import torch
        self.torch = torch
        self.graph = model.graph
        # What decides shapes and axes stays numbers.
        self.numbers = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self.weights = {name: torch.from_numpy(array.copy()) for name, array in self.numbers.items()}

    def ints(self, name):
        return [int(v) for v in self.numbers[name].reshape(-1)]

    def __call__(self, *inputs):
        torch, F = self.torch, self.torch.nn.functional
        values = dict(self.weights)
        values.update(zip([i.name for i in self.graph.input if i.name not in self.weights], inputs))
        for node in self.graph.node:
            x = [values[name] if name else None for name in node.input]
            a = {p.name: onnx.helper.get_attribute_value(p) for p in node.attribute}
            values.update(zip(node.output, self.node(node, x, a, torch, F)))
        return [values[o.name] for o in self.graph.output]

    def node(self, node, x, a, torch, F):
        op = node.op_type
        simple = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow, "Relu": torch.relu,
                  "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Erf": torch.erf, "MatMul": torch.matmul, "Where": torch.where,
                  "Identity": lambda t: t}
        if op in simple:
            return [simple[op](*x)]
        if op == "Gather":
            axis = a.get("axis", 0)
            if x[1].dim() == 0:
                return [x[0].select(axis, int(self.numbers[node.input[1]]))]
            if axis == 0:
                return [F.embedding(x[1], x[0]) if x[0].dim() == 2 else x[0][x[1]]]
            return [x[0].index_select(axis, x[1])]
        if op == "Cast":
            return [x[0].to({1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool}[a["to"]])]
        if op in ("Unsqueeze", "Squeeze"):
            axes = self.ints(node.input[1])
            y = x[0]
            for axis in sorted(axes, reverse=op == "Squeeze"):
                y = y.unsqueeze(axis) if op == "Unsqueeze" else y.squeeze(axis)
            return [y]
        if op == "Reshape":
            shape = self.ints(node.input[1])
            return [x[0].reshape([x[0].shape[i] if d == 0 else d for i, d in enumerate(shape)])]
        if op == "Expand":
            return [x[0].expand(torch.broadcast_shapes(tuple(x[0].shape), tuple(self.ints(node.input[1]))))]
        if op == "Transpose":
            return [x[0].permute(a["perm"])]
        if op == "Concat":
            return [torch.cat(x, a["axis"])]
        if op == "Split":
            axis = a.get("axis", 0)
            sizes = self.ints(node.input[1]) if len(x) > 1 else x[0].shape[axis] // len(node.output)
            return list(torch.split(x[0], sizes, axis))
        if op == "Softmax":
            return [torch.softmax(x[0], a.get("axis", -1))]
        if op == "LayerNormalization":
            return [F.layer_norm(x[0], x[1].shape, x[1], x[2], a.get("epsilon", 1e-5))]
        if op == "BatchNormalization":
            return [F.batch_norm(x[0], x[3], x[4], x[1], x[2], False, 0.0, a.get("epsilon", 1e-5))]
        if op == "InstanceNormalization":
            return [F.instance_norm(x[0], None, None, x[1], x[2], True, 0.0, a.get("epsilon", 1e-5))]
        if op == "Gemm":
            y = (x[0].t() if a.get("transA") else x[0]) @ (x[1].t() if a.get("transB") else x[1])
            return [y + x[2] if len(x) > 2 else y]
        if op in ("Conv", "ConvTranspose"):
            rank = x[0].dim() - 2
            pads = a.get("pads", [0] * 2 * rank)
            if pads[:rank] != pads[rank:]:
                x[0], pads = F.pad(x[0], [p for i in reversed(range(rank)) for p in (pads[i], pads[rank + i])]), [0] * rank
            common = {"stride": a.get("strides", [1] * rank), "padding": pads[:rank], "groups": a.get("group", 1)}
            bias = x[2] if len(x) > 2 else None
            return [(F.conv2d if op == "Conv" else F.conv_transpose2d)(x[0], x[1], bias, **common)]
        if op == "MaxPool":
            return [F.max_pool2d(x[0], a["kernel_shape"], a.get("strides"), a.get("pads", [0])[0])]
        if op == "GlobalAveragePool":
            return [x[0].mean((2, 3), keepdim=True)]
        if op == "ReduceMean":
            return [x[0].mean(a["axes"], keepdim=bool(a.get("keepdims", 1)))]
        if op == "Clip":
            return [torch.clamp(x[0], float(self.numbers[node.input[1]]), float(self.numbers[node.input[2]]))]
        if op == "Resize":
            scales = self.numbers[node.input[2]].tolist()
            return [F.interpolate(x[0], scale_factor=scales[2:], mode="nearest")]
        raise NotImplementedError(op)


def inductor_launches(path):
    import torch
    from torch._inductor import async_compile, config
    config.freezing = True
    config.fx_graph_cache = False
    # Only the wrapper's text is wanted.
    async_compile.AsyncCompile.cpp_pybinding = lambda self, *args, **more: lambda *run: None
    from torch._inductor.utils import run_and_get_code
    model = onnx.load(path)
    function = Graph(model)
    inputs = []
    for value in model.graph.input:
        shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
        integer = value.type.tensor_type.elem_type != 1
        inputs.append(torch.zeros(shape, dtype=torch.int64 if integer else torch.float32))

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, tensor in function.weights.items():
                if tensor.is_floating_point() and tensor.numel() > 1:
                    function.weights[name] = torch.nn.Parameter(tensor, requires_grad=False)
                    self.register_parameter("w" + re.sub(r"\W", "_", name), function.weights[name])

        def forward(self, *xs):
            return function(*xs)

    with torch.no_grad():
        exported = torch.export.export(Module().eval(), tuple(inputs), strict=False).module()
        _, codes = run_and_get_code(torch.compile(exported, dynamic=False), *inputs)
    body = "\n".join(code[code.index("def call("):] for code in codes if "def call(" in code)
    generated = len(re.findall(r"^\s+cpp_fused_\w*\(", body, re.M))
    extern = len(re.findall(r"extern_kernels\.\w+\(|torch\.ops\.\w+\.\w+(?:\.\w+)?\(", body))
    return generated, extern


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", required=True)
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    print("| model | Kiln: kernels + library | TorchInductor: generated + extern |\n| --- | --- | --- |")
    for path in args.models:
        name = os.path.basename(os.path.dirname(path)) or path
        kernels, library = kiln_launches(args.kiln, path)
        theirs = "-"
        if not args.no_torch:
            try:
                generated, extern = inductor_launches(path)
                theirs = f"{generated} + {extern} = {generated + extern}"
            except Exception as error:  # of any kind: torch's compiler has its own
                theirs = f"not run: {type(error).__name__} {str(error).splitlines()[0][:60] if str(error) else ''}"
        print(f"| {name} | {kernels} + {library} = {kernels + library} | {theirs} |", flush=True)


if __name__ == "__main__":
    main()
