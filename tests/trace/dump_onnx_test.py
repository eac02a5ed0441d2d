# SPDX-License-Identifier: Apache-2.0
"""dump_onnx_test.py PROGRAM COUNT SEED: random traced functions that PROGRAM (dump_functions) dumps pass ONNX's checker, and ONNX
Runtime gives what the trace gives, within rounding. Elements that it has otherwise are to be those of ONNX's reference evaluator: its
maxima drop NaN, its sigmoid(-18) is 0, and where the two differ rounding decides, as for floor(tanh(9)). Exit 77 with a reason where onnx or onnxruntime is not installed."""
import glob
import importlib.util
import os
import subprocess
import sys
import tempfile

MISSING = [name for name in ("numpy", "onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
if MISSING:
    print(f"{', '.join(MISSING)} not installed; run scripts/fetch_python")
    sys.exit(77)

import numpy  # noqa: E402
import onnx  # noqa: E402
import onnx.reference  # noqa: E402
import onnxruntime  # noqa: E402


def arrays(stem, kind):
    return [numpy.load(f"{stem}_{kind}{k}.npy") for k in range(len(glob.glob(f"{stem}_{kind}*.npy")))]


def by_runtime(path, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {port.name: inputs[k] for k, port in enumerate(session.get_inputs())})


def by_reference(path, inputs):
    model = onnx.load(path)
    with numpy.errstate(all="ignore"):
        return onnx.reference.ReferenceEvaluator(model).run(None, {port.name: inputs[k] for k, port in enumerate(model.graph.input)})


def is_near(got, want):
    """By element. Sums in another order, and then whatever the function makes of the difference."""
    return numpy.isclose(got, want, rtol=1e-3, atol=1e-4 * max(1.0, finite_max(want)), equal_nan=True)


def judge(path):
    """Whether the reference was needed."""
    onnx.checker.check_model(path, full_check=True)
    stem = path[:-len(".onnx")]
    inputs, want = arrays(stem, "in"), arrays(stem, "out")
    got = by_runtime(path, inputs)
    assert len(got) == len(want), f"{len(got)} results, expected {len(want)}"
    for k, (g, w) in enumerate(zip(got, want)):
        assert g.dtype == w.dtype and g.shape == w.shape, f"result {k} is {g.dtype} {g.shape}, expected {w.dtype} {w.shape}"
    near = [is_near(g, w) for g, w in zip(got, want)]
    if all(n.all() for n in near):
        return False
    for k, (r, g, w, n) in enumerate(zip(by_reference(path, inputs), got, want, near)):
        wrong = ~(n | is_near(r, w))
        assert not wrong.any(), f"result {k}: {numpy.count_nonzero(wrong)} elements are {w[wrong]}, expected {g[wrong]} or {r[wrong]}"
    return True


def finite_max(w):
    finite = numpy.abs(w[numpy.isfinite(w)])
    return float(finite.max()) if finite.size else 0.0


def main():
    program, count, seed = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder, count, seed], check=True, timeout=600)
        paths = glob.glob(os.path.join(folder, "*.onnx"))
        assert len(paths) == int(count), paths
        by_both = 0
        for path in paths:
            try:
                by_both += judge(path)
            except Exception as error:
                raise AssertionError(f"seed {os.path.basename(path)[:-5]}: {error}") from error
        assert by_both <= 0.02 * len(paths), f"ONNX Runtime and its reference differ for {by_both} models"
        print(f"{len(paths)} models, as the trace; {by_both} by ONNX's reference")


if __name__ == "__main__":
    main()
