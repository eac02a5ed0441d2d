# SPDX-License-Identifier: Apache-2.0
"""ONNX's backend tests through kiln.backend: what tests/onnx/conformance/gaps.txt lists fails, and all else passes.

usage: conformance_test.py [--every N] [--on-vm] DATA_DIR...   DATA_DIR/SUITE/CASE has model.onnx and data sets
Exit 0 when all is as listed, 1 with a line for each difference, 77 without data.
"""
import argparse
import fnmatch
import pathlib
import sys

import support

try:
    import numpy as np
    import onnx
    import onnx.numpy_helper
except ImportError as missing:
    print(f"{missing}; run scripts/fetch_python")
    sys.exit(77)

import kiln.backend

RTOL, ATOL = 1e-3, 1e-7  # as tests/onnx/conformance


def gaps():
    """Pattern, where, why."""
    text = (support.ROOT / "tests/onnx/conformance/gaps.txt").read_text()
    return [line.split(None, 2) for line in text.splitlines() if line and not line.startswith("#")]


def tensors(folder, stem):
    for k in range(1000):
        path = folder / f"{stem}_{k}.pb"
        if not path.is_file():
            return
        tensor = onnx.TensorProto()
        tensor.ParseFromString(path.read_bytes())
        yield onnx.numpy_helper.to_array(tensor)


def check(got, want, random):
    if want.dtype != got.dtype and want.dtype == np.uint16:
        want = want.view(got.dtype)  # old data have the bits of a bfloat16
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype} {got.shape}, expected {want.dtype} {want.shape}"
    if random:
        return "" if abs((got == 0).mean() - (want == 0).mean()) <= 0.25 else "the share of zeros differs"
    if want.dtype.kind in "fV" or want.dtype.name == "bfloat16":
        try:
            np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=RTOL, atol=ATOL)
        except AssertionError as error:
            return str(error).strip().replace("\n", " ")[:200]
        return ""
    return "" if np.array_equal(got, want) else "elements differ"


def mended(array, port):
    return array.view("V2").view(np.dtype(port.dtype)) if array.dtype == np.uint16 and port.dtype == "bfloat16" else array


def declared(model, inputs):
    """The model with the shapes of its data, where these are others than it declares: ONNX's own runner gives such data all the same."""
    known = {value.name for value in model.graph.initializer}
    for value, array in zip([v for v in model.graph.input if v.name not in known], inputs):
        dims = value.type.tensor_type.shape.dim
        if len(dims) != array.ndim or any(d.HasField("dim_value") and d.dim_value != n for d, n in zip(dims, array.shape)):
            del dims[:]
            for n in array.shape:
                dims.add().dim_value = n
    return model


def run(case, random, settings):
    """The first fault of a case, or ""."""
    sets = sorted(case.glob("test_data_set_*"))
    if not sets:
        return "has no data"
    for data in sets:
        model = onnx.load(case / "model.onnx")
        try:
            inputs, expected = list(tensors(data, "input")), list(tensors(data, "output"))
            if len(inputs) != len([v for v in model.graph.input if v.name not in {i.name for i in model.graph.initializer}]) or not expected:
                return "sequences or optionals"
            rep = kiln.backend.prepare(declared(model, inputs), threads=2, **settings)
            outputs = rep.run([mended(array, port) for array, port in zip(inputs, rep.model.inputs)])
        except (kiln.Error, ValueError, TypeError, onnx.checker.ValidationError) as error:
            return str(error)[:200]
        for got, want in zip(outputs, expected):
            if fault := check(got, want, random):
                return fault
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--on-vm", action="store_true")
    parser.add_argument("--filter", default="*")
    parser.add_argument("roots", nargs="+", type=pathlib.Path)
    given = parser.parse_args()
    settings = {"compile_mode": "never"} if given.on_vm else {}
    listed = gaps()
    passed, known, failed = 0, 0, 0
    cases = [case for root in given.roots if root.is_dir() for case in sorted(root.glob("*/test_*")) if (case / "model.onnx").is_file()]
    for case in cases[:: given.every]:
        name = f"{case.parts[-3]}/{case.parts[-2]}/{case.parts[-1]}"
        if not fnmatch.fnmatch(name, given.filter):
            continue
        here = {on for pattern, on, _ in listed if fnmatch.fnmatch(name, pattern)}
        gap = bool(here & {"all", "compiled", "O3"})
        fault = run(case, "random" in here, settings)
        passed, known = passed + (not fault), known + bool(fault and gap)
        if bool(fault) != gap:
            failed += 1
            print(f"FAIL {name}: {fault or 'passes, but is listed as a gap'}", flush=True)
    print(f"onnx backend in Python: {passed} passed, {known} known gaps, {failed} failed")
    if not cases:
        print("no data; run scripts/fetch_onnx_tests")
        return 77
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
