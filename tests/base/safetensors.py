#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a file of tests/base/safetensors_test.cc with the package safetensors and writes it anew.

    safetensors.py OURS THEIRS
"""
import sys

# This folder has a module of the package's name.
sys.path.pop(0)

import numpy  # noqa: E402
import safetensors  # noqa: E402

NUMPY = {'F64': 'float64', 'F32': 'float32', 'F16': 'float16', 'BF16': 'bfloat16', 'BOOL': 'bool'}

ours, theirs = sys.argv[1:]
with open(ours, 'rb') as file:
    data = file.read()
tensors, alive = {}, []
for name, tensor in safetensors.deserialize(data):
    content, dtype = bytes(tensor['data']), tensor['dtype']
    expected = bytes(i % 2 if dtype == 'BOOL' else 1 + i * 7 % 120 for i in range(len(content)))
    assert content == expected, (name, content)
    array = numpy.frombuffer(content, 'u1') if content else numpy.zeros(1, 'u1')
    alive.append(array)
    called = NUMPY.get(dtype) or ('uint' if dtype[0] == 'U' else 'int') + dtype[1:]
    tensors[name] = safetensors.TensorSpec(dtype=called, shape=tensor['shape'], data_ptr=array.ctypes.data,
                                           data_len=len(content))
with safetensors.safe_open(ours, 'np') as file:
    metadata = file.metadata()
    assert set(file.keys()) == set(tensors)
    assert file.get_tensor('t.f64').shape == (2, 3)
with open(theirs, 'wb') as file:
    file.write(safetensors.serialize(tensors, metadata))
