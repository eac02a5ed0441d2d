# SPDX-License-Identifier: Apache-2.0
"""The graphs of bench/kernels as ONNX files, for peers to read. Needs numpy and onnx.

Each operator becomes the ONNX operator of ONNX_NAMES. Lines `# onnx y = op(x)` of a graph stand in place of its nodes: one operator
of ONNX for what the graph spells out.
"""
import json
import re

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


def dims_of(text):
    return [int(d) for d in text.split(",") if d.strip()]


def ports(text):
    """The inputs of a graph's text: name -> (type, shape)."""
    found = filter(None, map(INPUT.fullmatch, map(str.strip, text.splitlines())))
    return {match[1]: (match[2], dims_of(match[3])) for match in found}


def numpy_type(name):
    import numpy as np
    return {"f32": np.float32, "i64": np.int64, "u8": np.uint8}[name]


class Converter:
    """One graph as an ONNX model."""

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
