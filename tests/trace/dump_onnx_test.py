# SPDX-License-Identifier: Apache-2.0
"""dump_onnx_test.py PROGRAM COUNT SEED: random traced functions that PROGRAM (dump_functions) dumps pass ONNX's checker, and ONNX
Runtime gives what the trace gives, within rounding. Exit 77 with a reason where onnx or onnxruntime is not installed."""
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
import onnxruntime  # noqa: E402


def arrays(stem, kind):
    return [numpy.load(f"{stem}_{kind}{k}.npy") for k in range(len(glob.glob(f"{stem}_{kind}*.npy")))]


def judge(path):
    onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    stem = path[:-len(".onnx")]
    inputs = arrays(stem, "in")
    got = session.run(None, {port.name: inputs[k] for k, port in enumerate(session.get_inputs())})
    want = arrays(stem, "out")
    assert len(got) == len(want), f"{len(got)} results, expected {len(want)}"
    # Sums in another order, and then whatever the function makes of the difference.
    for k, (g, w) in enumerate(zip(got, want)):
        assert g.dtype == w.dtype and g.shape == w.shape, f"result {k} is {g.dtype} {g.shape}, expected {w.dtype} {w.shape}"
        numpy.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-4 * max(1.0, finite_max(w)), err_msg=f"result {k}")


def finite_max(w):
    finite = numpy.abs(w[numpy.isfinite(w)])
    return float(finite.max()) if finite.size else 0.0


def main():
    program, count, seed = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder, count, seed], check=True, timeout=600)
        paths = glob.glob(os.path.join(folder, "*.onnx"))
        assert len(paths) == int(count), paths
        for path in paths:
            try:
                judge(path)
            except Exception as error:
                raise AssertionError(f"seed {os.path.basename(path)[:-5]}: {error}") from error
        print(f"{len(paths)} models, as the trace")


if __name__ == "__main__":
    main()
