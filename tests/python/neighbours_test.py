# SPDX-License-Identifier: Apache-2.0
"""Kiln in one process with ONNX, ONNX Runtime and PyTorch, which bring protobuf, oneDNN, OpenMP and Abseil of their own: imported
before and after, with their symbols global too, all right. What is not installed is left out, and said."""
import importlib.util
import itertools
import os
import subprocess
import sys
import unittest

import support

NEIGHBOURS = [name for name in ("onnx", "onnxruntime", "torch") if importlib.util.find_spec(name)]

KILN = """
import kiln, numpy as np
m = kiln.compile(MODEL, threads=2)
def use_kiln():
    for n in (1, 5):
        x = np.linspace(-1, 1, n * 64, dtype='f').reshape(n, 64)
        e = np.exp(0.125 * x)
        np.testing.assert_allclose(m(x, np.zeros(64, 'f')), e / e.sum(1, keepdims=True), rtol=1e-5)
    c = kiln.compile(CONV, threads=2)
    np.testing.assert_allclose(c(np.ones((1, 3, 8, 8), 'f'), np.ones((4, 3, 3, 3), 'f'))[0, 0, 4, 4], 27, rtol=1e-5)
use_kiln()
"""
ONNX = """
import onnx, onnx.helper as h
def onnx_model():
    return h.make_model(h.make_graph([h.make_node('Conv', ['x', 'w'], ['y'], pads=[1, 1, 1, 1])], 'g',
        [h.make_tensor_value_info('x', 1, [1, 3, 8, 8]), h.make_tensor_value_info('w', 1, [4, 3, 3, 3])],
        [h.make_tensor_value_info('y', 1, [1, 4, 8, 8])]), opset_imports=[h.make_opsetid('', 17)], ir_version=9)
def use_onnx():
    onnx.checker.check_model(onnx_model())
use_onnx()
"""
ONNXRUNTIME = """
import onnxruntime, numpy as np
def use_onnxruntime():
    s = onnxruntime.InferenceSession(open(CONV, 'rb').read(), providers=['CPUExecutionProvider'])
    y, = s.run(None, {'x': np.ones((1, 3, 8, 8), 'f'), 'w': np.ones((4, 3, 3, 3), 'f')})
    assert y[0, 0, 4, 4] == 27, y
use_onnxruntime()
"""
TORCH = """
import torch
def use_torch():
    y = torch.nn.functional.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3), padding=1)
    assert y[0, 0, 4, 4] == 27, y
    assert torch.nn.Linear(64, 64)(torch.ones(8, 64)).shape == (8, 64)
use_torch()
"""
USES = {"kiln": KILN, "onnx": ONNX, "onnxruntime": ONNXRUNTIME, "torch": TORCH}

TENSORS = """
import torch, kiln
m = kiln.compile(MODEL, threads=1)
x = torch.randn(4, 64)
want = torch.softmax(0.125 * x, 1)
y = m(x, torch.zeros(64))
assert isinstance(y, torch.Tensor) and torch.allclose(y, want, atol=1e-6)
out = torch.empty(4, 64)
assert m(x.T.contiguous().T, torch.zeros(64), out=out) is out and torch.allclose(out, want, atol=1e-6)
half = kiln.compile(b'graph h\\ninput x : bf16 [n]\\ny = add(x, x)\\noutput y\\n', name='h.graph', compile_mode='never')
assert half(torch.ones(3, dtype=torch.bfloat16)).dtype == torch.bfloat16
try:
    m(torch.ones(4, 64, requires_grad=True), torch.zeros(64))
except (BufferError, RuntimeError) as error:
    assert 'grad' in str(error), error
else:
    raise AssertionError('a tensor that requires grad is taken')
"""


class Neighbours(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.conv = os.path.join(support.CACHE, "neighbours_conv.onnx")
        os.makedirs(support.CACHE, exist_ok=True)
        if "onnx" not in NEIGHBOURS:
            raise unittest.SkipTest("onnx is not installed; run scripts/fetch_python")
        space = {}
        exec(ONNX, space)  # pylint: disable=exec-used
        with open(cls.conv, "wb") as file:
            file.write(space["onnx_model"]().SerializeToString())

    def process(self, script):
        head = f"MODEL, CONV = {support.SOFTMAX!r}, {self.conv!r}\n"
        done = subprocess.run([sys.executable, "-c", head + script], capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    def test_before_and_after(self):
        for name in NEIGHBOURS:
            for order in ((name, "kiln"), ("kiln", name)):
                with self.subTest(order=order):
                    self.process("".join(USES[one] for one in order) + "".join(f"use_{one}()\n" for one in order))

    def test_all_at_once(self):
        for order in itertools.islice(itertools.permutations([*NEIGHBOURS, "kiln"]), 0, None, 5):
            with self.subTest(order=order):
                self.process("".join(USES[one] for one in order) + "".join(f"use_{one}()\n" for one in reversed(order)))

    def test_global_symbols(self):
        """Where a program loads the others with RTLD_GLOBAL, Kiln's names are still its own."""
        for name in NEIGHBOURS:
            with self.subTest(name=name):
                self.process("import os, sys\nold = sys.getdlopenflags()\nsys.setdlopenflags(old | os.RTLD_GLOBAL)\n" + USES[name] +
                             f"sys.setdlopenflags(old)\n{KILN}use_{name}()\n")

    @unittest.skipIf("torch" not in NEIGHBOURS, "torch is not installed")
    def test_tensors_of_torch(self):
        self.process(TENSORS)


if __name__ == "__main__":
    print("with", ", ".join(NEIGHBOURS) or "nobody")
    unittest.main()
