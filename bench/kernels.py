#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the graphs of bench/kernels (k1 ... k17) on Kiln and on the peers that are installed, in turn, in one run.

  bench/kernels.py --kiln build/release/bin/kiln --threads 1 --repeat 30 [ROW ...]

Every graph is written as an ONNX file, which all runtimes get with the same inputs; their outputs are compared with Kiln's. Prints
minima in ms, and the ratio of the fastest peer's minimum to Kiln's (and of medians): above 1, Kiln is faster. Needs numpy and onnx.
"""
import argparse
import os
import re
import tempfile

import beside
import graph_to_onnx
import tensors

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels")


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
    """A row of kiln.peers/1."""
    with tempfile.TemporaryDirectory() as folder:
        converter = graph_to_onnx.Converter(os.path.join(FOLDER, row + ".graph"))
        path = os.path.join(folder, "model.onnx")
        converter.save(path)
        return beside.measure(row, runtimes, path, make_inputs(converter.inputs, folder), folder, repeat)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="k1_64K, or k1 for all that begin so; all by default")
    beside.add_arguments(parser, repeat=30)
    args = parser.parse_intermixed_args()
    beside.run(args, "kernels", rows_named(args.rows), measure)


if __name__ == "__main__":
    main()
