# SPDX-License-Identifier: Apache-2.0
"""ONNX files written with Python's standard library alone: the few messages of onnx.proto that a network with weights needs.

  net = onnx_file.Graph("net")
  x = net.input("x", "f32", [1, 8])
  y = net.node("MatMul", x, net.tensor("f32", [8, 4], [0.1] * 32))
  net.output(y, "f32", [1, 4])
  net.write("net.onnx", opset=20)

Data of a tensor that are fewer than its elements are repeated, as in bench/tensors.py.
"""
import math
import struct

import tensors

# TensorProto.DataType
DTYPES = {"f32": 1, "u8": 2, "i8": 3, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11}
# AttributeProto: the field and AttributeType of each kind of value.
FLOAT, INT, STRING, INTS = (2, 1), (3, 2), (4, 3), (8, 7)


def varint(value):
    """Base 128, low digits first; negative numbers as 64-bit two's complement."""
    value &= (1 << 64) - 1
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes(digits) + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, content):
    """A string, bytes, or message."""
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def attribute(name, value):
    if isinstance(value, float):
        (field, kind), content = FLOAT, varint(FLOAT[0] << 3 | 5) + struct.pack("<f", value)
    elif isinstance(value, int):
        (field, kind), content = INT, number(INT[0], value)
    elif isinstance(value, str):
        (field, kind), content = STRING, block(STRING[0], value)
    else:
        (field, kind), content = INTS, b"".join(number(INTS[0], v) for v in value)
    return block(1, name) + content + number(20, kind)


def port(name, dtype, shape):
    """ValueInfoProto; a dim that is a string is a symbol."""
    dims = b"".join(block(1, number(1, d) if isinstance(d, int) else block(2, d)) for d in shape)
    return block(1, name) + block(2, block(1, number(1, DTYPES[dtype]) + block(2, dims)))


class Graph:
    """Nodes, weights and ports in the order in which they are added; every method but write returns a value's name."""

    def __init__(self, name):
        self.name, self.nodes, self.weights, self.inputs, self.outputs = name, [], [], [], []

    def node(self, op, *operands, **attributes):
        """A node of one result."""
        return self.nodes_of(op, 1, *operands, **attributes)[0]

    def nodes_of(self, op, count, *operands, **attributes):
        """A node of `count` results."""
        results = [f"{op.lower()}_{len(self.nodes)}" + (f"_{i}" if count > 1 else "") for i in range(count)]
        self.nodes.append(b"".join(block(1, v) for v in operands) + b"".join(block(2, v) for v in results) + block(3, results[0]) +
                          block(4, op) + b"".join(block(5, attribute(k, v)) for k, v in attributes.items()))
        return results

    def tensor(self, dtype, shape, values):
        name, count = f"w{len(self.weights)}", math.prod(shape)
        data = tensors.encode(dtype, values[:count])
        size = len(data) // len(values[:count]) * count
        data = (data * -(-size // len(data)))[:size]
        self.weights.append(b"".join(number(1, d) for d in shape) + number(2, DTYPES[dtype]) + block(8, name) + block(9, data))
        return name

    def input(self, name, dtype, shape):
        self.inputs.append(port(name, dtype, shape))
        return name

    def output(self, name, dtype, shape):
        self.outputs.append(port(name, dtype, shape))
        return name

    def write(self, path, opset):
        parts = [block(1, n) for n in self.nodes] + [block(2, self.name)] + [block(5, w) for w in self.weights]
        parts += [block(11, p) for p in self.inputs] + [block(12, p) for p in self.outputs]
        head = number(1, 9) + block(2, "kiln bench") + block(8, number(2, opset))  # IR version 9
        with open(path, "wb") as file:
            file.write(head + varint(7 << 3 | 2) + varint(sum(map(len, parts))))
            for part in parts:
                file.write(part)
