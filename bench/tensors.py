# SPDX-License-Identifier: Apache-2.0
"""Random tensors as .npy files, with Python's standard library alone.

A file repeats one block of values: what a kernel or a network computes takes the same time for any ordinary numbers. The block's
length is a prime, so that rows differ.
"""
import array
import functools
import math
import random
import struct

BLOCK = 65521
# Kiln's type: NumPy's, and struct's. A bfloat16 file holds the bits as uint16.
TYPES = {"f64": ("<f8", "d"), "f32": ("<f4", "f"), "f16": ("<f2", "e"), "bf16": ("<u2", "H"), "bool": ("|b1", "B"),
         "i64": ("<i8", "q"), "i32": ("<i4", "i"), "i16": ("<i2", "h"), "i8": ("|i1", "b"),
         "u64": ("<u8", "Q"), "u32": ("<u4", "I"), "u16": ("<u2", "H"), "u8": ("|u1", "B")}


def is_float(dtype):
    return dtype in ("f64", "f32", "f16", "bf16")


def encode(dtype, values):
    """The bytes of `values`, little-endian."""
    if dtype == "bf16":
        return b"".join(struct.pack("<f", v)[2:] for v in values)  # towards zero
    return struct.pack(f"<{len(values)}{TYPES[dtype][1]}", *values)


def write_npy(path, dtype, shape, values):
    """A file of `shape` that repeats `values` as often as needed."""
    header = repr({"descr": TYPES[dtype][0], "fortran_order": False, "shape": tuple(shape)}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    count = math.prod(shape)
    block = encode(dtype, values[:count])
    size = len(block) // len(values[:count]) if count else 0
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        left = count * size
        while left > 0:
            left -= file.write(block[:left])


@functools.cache
def kernel_values(dtype):
    """As bench/kernels/main.cc: numbers in [0.1, 1.1), integers below 100."""
    generator = random.Random(1)
    if is_float(dtype):
        return array.array("d", (generator.random() + .1 for _ in range(BLOCK)))
    return array.array("q", (generator.randrange(2 if dtype == "bool" else 100) for _ in range(BLOCK)))


@functools.cache
def model_values(dtype):
    """Normally distributed numbers, integers 0 and 1."""
    generator = random.Random(0)
    if is_float(dtype):
        return array.array("d", (generator.gauss(0, 1) for _ in range(BLOCK)))
    return array.array("q", (generator.randrange(2) for _ in range(BLOCK)))
