# SPDX-License-Identifier: Apache-2.0
"""ONNX models as functions of torch or jax, for TorchInductor and XLA to compile.

  function = frameworks.Function("model.onnx", frameworks.Jax())
  results = function(function.weights, *inputs)          # inputs in the model's order

The operators are those of bench/kernels and bench/make_models.py; another one raises NotImplementedError with its name. What decides
shapes must be constants. Needs numpy, and torch or jax; and onnx for the path of a file.
"""
import base64
import itertools

TYPES = {1: "float32", 2: "uint8", 6: "int32", 7: "int64", 9: "bool"}


def at(axis, index):
    """What stands in [] to take `index` along an axis."""
    return (slice(None),) * axis + (index,)


class Framework:
    """Operators as functions of (operands, attributes, constants); a constant is None where an operand is computed."""
    SAME = {"Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Min": "minimum", "Pow": "pow", "Exp": "exp", "Log": "log",
            "Neg": "negative", "Sqrt": "sqrt", "Round": "round", "Tanh": "tanh", "MatMul": "matmul", "Where": "where", "Clip": "clip"}

    def call(self, op, x, a, n):
        """The results of one node, as a list."""
        if op in self.SAME:
            return [getattr(self.library, self.SAME[op])(*x)]
        if not hasattr(self, op):
            raise NotImplementedError(op)
        y = getattr(self, op)(x, a, n)
        return y if isinstance(y, list) else [y]

    def axes(self, a, n):
        found = a.get("axes", None if len(n) < 2 or n[1] is None else n[1].tolist())
        return None if found is None else tuple(found)

    def Identity(self, x, a, n):
        return x[0]

    def Cast(self, x, a, n):
        return self.cast(x[0], TYPES[a["to"]])

    def Reshape(self, x, a, n):
        return x[0].reshape([x[0].shape[i] if d == 0 else d for i, d in enumerate(n[1].tolist())])

    def Flatten(self, x, a, n):
        return x[0].reshape(x[0].shape[0], -1)

    def Unsqueeze(self, x, a, n):
        y = x[0]
        for axis in sorted(axis % (y.ndim + len(n[1])) for axis in n[1].tolist()):
            y = y[at(axis, None)]
        return y

    def Squeeze(self, x, a, n):
        return x[0].reshape([d for i, d in enumerate(x[0].shape) if i not in [axis % x[0].ndim for axis in n[1].tolist()]])

    def Transpose(self, x, a, n):
        return self.permute(x[0], a.get("perm", list(range(x[0].ndim))[::-1]))

    def Concat(self, x, a, n):
        return self.library.concatenate(x, a["axis"])

    def Slice(self, x, a, n):
        index = [slice(None)] * x[0].ndim
        for start, end, axis, step in itertools.zip_longest(*(v.tolist() for v in n[1:]), fillvalue=1):
            index[axis] = slice(start, end, step)
        return x[0][tuple(index)]

    def Split(self, x, a, n):
        axis, length = a.get("axis", 0), x[0].shape[a.get("axis", 0)]
        sizes = n[1].tolist() if len(n) > 1 else [length // a["num_outputs"]] * a["num_outputs"]
        ends = list(itertools.accumulate(sizes))
        return [x[0][at(axis, slice(end - size, end))] for size, end in zip(sizes, ends)]

    def Gather(self, x, a, n):
        index = n[1].item() if n[1] is not None and n[1].ndim == 0 else x[1]
        return x[0][at(a.get("axis", 0), index)]

    def Expand(self, x, a, n):
        return self.library.broadcast_to(x[0], self.library.broadcast_shapes(tuple(x[0].shape), tuple(n[1].tolist())))

    def Gemm(self, x, a, n):
        y = (x[0].T if a.get("transA") else x[0]) @ (x[1].T if a.get("transB") else x[1])
        return y + x[2] if len(x) > 2 else y

    def GlobalAveragePool(self, x, a, n):
        return self.mean(x[0], (2, 3), True)

    def ReduceMean(self, x, a, n):
        return self.mean(x[0], self.axes(a, n), bool(a.get("keepdims", 1)))

    def ReduceSum(self, x, a, n):
        return self.sum(x[0], self.axes(a, n), bool(a.get("keepdims", 1)))


class Torch(Framework):
    def __init__(self):
        import torch
        self.library, self.functional, self.array = torch, torch.nn.functional, lambda v: torch.from_numpy(v.copy())
        F = self.functional
        self.permute = lambda x, perm: x.permute(perm)
        self.cast = lambda x, to: x.to(getattr(torch, to))
        self.mean = lambda x, axes, keep: torch.mean(x, axes or tuple(range(x.ndim)), keep)
        self.sum = lambda x, axes, keep: torch.sum(x, axes or tuple(range(x.ndim)), keep)
        self.Erf, self.Relu, self.Sigmoid = (lambda x, a, n, f=f: f(x[0]) for f in (torch.erf, torch.relu, torch.sigmoid))
        self.Softmax = lambda x, a, n: torch.softmax(x[0], a.get("axis", -1))
        self.LogSoftmax = lambda x, a, n: torch.log_softmax(x[0], a.get("axis", -1))
        self.Gelu = lambda x, a, n: F.gelu(x[0], approximate=a.get("approximate", "none"))
        self.ArgMax = lambda x, a, n: torch.argmax(x[0], a.get("axis", 0), bool(a.get("keepdims", 1)))
        self.GatherElements = lambda x, a, n: torch.take_along_dim(x[0], x[1], a.get("axis", 0))
        self.LayerNormalization = lambda x, a, n: F.layer_norm(x[0], x[1].shape, x[1], x[2] if len(x) > 2 else None, a.get("epsilon", 1e-5))
        self.InstanceNormalization = lambda x, a, n: F.instance_norm(x[0], None, None, x[1], x[2], True, 0.0, a.get("epsilon", 1e-5))
        self.BatchNormalization = lambda x, a, n: F.batch_norm(x[0], x[3], x[4], x[1], x[2], False, 0.0, a.get("epsilon", 1e-5))
        self.MaxPool = lambda x, a, n: F.max_pool2d(x[0], a["kernel_shape"], a.get("strides"), a.get("pads", [0])[0])
        self.Resize = lambda x, a, n: F.interpolate(x[0], scale_factor=n[2].tolist()[2:], mode="nearest")

    def Conv(self, x, a, n, function="conv2d"):
        pads, bias = a.get("pads", [0] * 4), x[2] if len(x) > 2 else None
        y = x[0] if pads[:2] == pads[2:] else self.functional.pad(x[0], [pads[1], pads[3], pads[0], pads[2]])
        return getattr(self.functional, function)(y, x[1], bias, stride=a.get("strides", [1, 1]), groups=a.get("group", 1),
                                                  padding=pads[:2] if pads[:2] == pads[2:] else [0, 0])

    def ConvTranspose(self, x, a, n):
        return self.Conv(x, a, n, "conv_transpose2d")


class Jax(Framework):
    def __init__(self):
        import jax
        from jax import numpy as jnp
        jax.config.update("jax_enable_x64", True)  # indices are i64
        self.jax, self.library, self.array = jax, jnp, jnp.asarray
        self.permute, self.cast = jnp.permute_dims, lambda x, to: x.astype(to)
        self.mean = lambda x, axes, keep: jnp.mean(x, axes, keepdims=keep)
        self.sum = lambda x, axes, keep: jnp.sum(x, axes, keepdims=keep)
        self.Erf, self.Relu, self.Sigmoid = (lambda x, a, n, f=f: f(x[0]) for f in (jax.lax.erf, jax.nn.relu, jax.nn.sigmoid))
        self.Softmax = lambda x, a, n: jax.nn.softmax(x[0], a.get("axis", -1))
        self.LogSoftmax = lambda x, a, n: jax.nn.log_softmax(x[0], a.get("axis", -1))
        self.Gelu = lambda x, a, n: jax.nn.gelu(x[0], approximate=a.get("approximate") == "tanh")
        self.ArgMax = lambda x, a, n: jnp.argmax(x[0], a.get("axis", 0), keepdims=bool(a.get("keepdims", 1)))
        self.GatherElements = lambda x, a, n: jnp.take_along_axis(x[0], x[1], a.get("axis", 0))

    def standardized(self, x, axes, epsilon):
        mean = self.library.mean(x, axes, keepdims=True)
        return (x - mean) * self.jax.lax.rsqrt(self.library.mean((x - mean)**2, axes, keepdims=True) + epsilon)

    @staticmethod
    def channels(x, v):
        """A vector of channels, to be broadcast with [batch, channels, ...]."""
        return v.reshape([-1] + [1] * (x.ndim - 2))

    def LayerNormalization(self, x, a, n):
        y = self.standardized(x[0], -1, a.get("epsilon", 1e-5)) * x[1]
        return y + x[2] if len(x) > 2 else y

    def InstanceNormalization(self, x, a, n):
        y = self.standardized(x[0], tuple(range(2, x[0].ndim)), a.get("epsilon", 1e-5))
        return y * self.channels(y, x[1]) + self.channels(y, x[2])

    def BatchNormalization(self, x, a, n):
        scale = x[1] * self.jax.lax.rsqrt(x[4] + a.get("epsilon", 1e-5))
        return x[0] * self.channels(x[0], scale) + self.channels(x[0], x[2] - x[3] * scale)

    def Conv(self, x, a, n):
        pads = a.get("pads", [0] * 4)
        y = self.jax.lax.conv_general_dilated(x[0], x[1], a.get("strides", [1, 1]), list(zip(pads[:2], pads[2:])),
                                              feature_group_count=a.get("group", 1))
        return y + self.channels(y, x[2]) if len(x) > 2 else y

    def MaxPool(self, x, a, n):
        pads = a.get("pads", [0] * 4)
        return self.jax.lax.reduce_window(x[0], -self.library.inf, self.jax.lax.max, (1, 1, *a["kernel_shape"]), (1, 1, *a["strides"]),
                                          [(0, 0), (0, 0), *zip(pads[:2], pads[2:])])

    def Resize(self, x, a, n):
        y = x[0]
        for axis, scale in enumerate(n[2].tolist()):
            y = self.library.repeat(y, int(scale), axis)
        return y


def plain(path):
    """An ONNX file as what JSON can hold, for Function where there is no onnx. Constants are weights, and lie in it as base64."""
    import numpy as np
    import onnx
    graph = onnx.load(path).graph
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    nodes = []
    for node in graph.node:
        attributes = {p.name: onnx.helper.get_attribute_value(p) for p in node.attribute}
        if node.op_type == "Constant" and "value" in attributes:
            arrays[node.output[0]] = onnx.numpy_helper.to_array(attributes["value"])
            continue
        attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in attributes.items()}
        nodes.append({"op": node.op_type, "inputs": list(node.input), "outputs": list(node.output), "attributes": attributes})

    def port(value):
        kind = value.type.tensor_type
        return {"name": value.name, "dtype": TYPES[kind.elem_type], "shape": [d.dim_value for d in kind.shape.dim]}

    weights = {name: {"dtype": array.dtype.name, "shape": array.shape, "data": base64.b64encode(np.ascontiguousarray(array)).decode()}
               for name, array in arrays.items()}
    return {"inputs": [port(i) for i in graph.input if i.name not in arrays], "outputs": [o.name for o in graph.output],
            "weights": weights, "nodes": nodes}


def array_of(weight):
    import numpy as np
    return np.frombuffer(base64.b64decode(weight["data"]), weight["dtype"]).reshape(weight["shape"])


class Function:
    """A model, the path of an ONNX file or what plain() makes of it, as a function of (weights, *inputs); returns its outputs as a list."""

    def __init__(self, model, framework):
        self.framework, self.model = framework, plain(model) if isinstance(model, str) else model
        self.numbers = {name: array_of(weight) for name, weight in self.model["weights"].items()}
        self.weights = {name: framework.array(array) for name, array in self.numbers.items()}
        self.inputs = [port["name"] for port in self.model["inputs"]]

    def __call__(self, weights, *inputs):
        values = dict(weights)
        values.update(zip(self.inputs, inputs, strict=True))
        for node in self.model["nodes"]:
            operands = [values[name] if name else None for name in node["inputs"]]
            constants = [self.numbers.get(name) for name in node["inputs"]]
            values.update(zip(node["outputs"], self.framework.call(node["op"], operands, node["attributes"], constants)))
        return [values[name] for name in self.model["outputs"]]


def inductor_module(function, example):
    """The function as an exported torch module with its weights as parameters, which torch.compile may freeze."""
    import torch

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.values = {}
            for i, (name, tensor) in enumerate(function.weights.items()):
                frozen = tensor.is_floating_point() and tensor.numel() > 1
                self.values[name] = torch.nn.Parameter(tensor, requires_grad=False) if frozen else tensor
                if frozen:
                    self.register_parameter(f"w{i}", self.values[name])

        def forward(self, *inputs):
            return [y.contiguous() for y in function(self.values, *inputs)]  # dense results, as all others give

    return torch.export.export(Module().eval(), tuple(example), strict=False).module()
