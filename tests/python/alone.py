# SPDX-License-Identifier: Apache-2.0
"""alone.py GRAPH CACHE built|vm: runs a model with the package and nothing else; its kernel is built, or stays on the VM, which
one line tells."""
import importlib.util
import logging
import sys

import kiln

graph, cache, expected = sys.argv[1:]
assert importlib.util.find_spec("numpy") is None
lines = []
handler = logging.Handler()
handler.emit = lambda record: lines.append(record.getMessage())
logging.getLogger("kiln").addHandler(handler)

model = kiln.compile(graph, threads=1, cache=cache)
x, mask = kiln.empty((2, 64)), kiln.empty(64)
for tensor, value in ((x, 1.0), (mask, 0.0)):
    flat = memoryview(tensor).cast("B").cast("f")
    for k in range(len(flat)):
        flat[k] = value
y = model(x, mask)
assert isinstance(y, kiln.Tensor) and abs(memoryview(y)[1, 63] - 1 / 64) < 1e-9, memoryview(y).tolist()
metrics = kiln.Runtime.default().metrics()
if expected == "built":
    assert metrics["kernels_built"] == 1 and not lines, (metrics, lines)
else:
    assert metrics["kernels_built"] == 0 and metrics["vm_runs"] == 1, metrics
    assert len(lines) == 1, lines
    print("told:", lines[0])
checks = {check["name"]: check["status"] for check in kiln.doctor()["checks"]}
assert (checks["compiler"] == "ok") == (expected == "built"), checks
