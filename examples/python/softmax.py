# SPDX-License-Identifier: Apache-2.0
"""Compiles examples/masked_softmax.graph, compares it with NumPy, and times a call into memory of its own.

    python examples/python/softmax.py
"""
import pathlib
import time

import numpy as np

import kiln

GRAPH = pathlib.Path(__file__).parent.parent / "masked_softmax.graph"


def expected(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    e = np.exp(0.125 * x + mask)
    return e / e.sum(axis=1, keepdims=True)


def main() -> None:
    model = kiln.compile(GRAPH, threads=1)
    x = np.random.default_rng(7).normal(size=(32, 64)).astype("float32")
    mask = np.zeros(64, "float32")
    y = np.empty_like(x)
    model(x, mask, out=y)
    print(f"differs by at most {abs(y - expected(x, mask)).max():.1e} from NumPy")
    context = model.context()
    context.bind("x", x)
    context.bind("mask", mask)
    context.bind_output("y", y)
    begin = time.perf_counter()
    for _ in range(1000):
        context.run()
    print(f"{(time.perf_counter() - begin) * 1000:.1f} us a call")


if __name__ == "__main__":
    main()
