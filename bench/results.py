# SPDX-License-Identifier: Apache-2.0
"""What measurements are kept as: bench/results/CPU/WHAT-COMMIT-tN.json, one row a line. README.md beside this file has the fields.

Needs numpy only to compare outputs.
"""
import datetime
import json
import math
import os
import re
import sys

import machine

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")
AGREES = 1e-3  # the greatest error of outputs that agree


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def build_name(build):
    """The first 8 digits of the commit, and + where its tree was changed."""
    return (build["commit"] or "unknown")[:8] + "+" * build["changed"]


def folder_of(cpu):
    return os.path.join(FOLDER, re.sub(r"[^a-z0-9]+", "-", cpu.lower()).strip("-"))


def text_of(report):
    """JSON with a line for each field and for each row of a list."""
    lines = []
    for key, value in report.items():
        if isinstance(value, list) and value:
            rows = ",\n  ".join(json.dumps(row) for row in value)
            lines.append(f" {json.dumps(key)}: [\n  {rows}]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def rounded(value, digits=4):
    """All floats with so many digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {k: rounded(v, digits) for k, v in value.items()}
    return [rounded(v, digits) for v in value] if isinstance(value, list) else value


def kept(report, stem):
    """The path of a report of this name in the folder of its machine."""
    return os.path.join(folder_of(report["machine"]["cpu"]), stem + ".json")


def write(report, path):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as file:
        file.write(text_of(report))
    print(f"written to {os.path.relpath(path)}", file=sys.stderr)


def largest_error(ours, theirs):
    """Over the pairs of outputs: of floats the greatest difference, as a share of the greatest magnitude in ours; of integers the share of
    elements that differ. Outputs of other shapes are infinitely far apart, and so is a NaN from anything."""
    import numpy as np
    errors = [0.0]
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape:
            return math.inf
        if a.dtype.kind == "f":
            a, b = a.astype(np.float64), b.astype(np.float64)
            errors.append(float(np.max(np.abs(a - b), initial=0) / max(np.max(np.abs(a), initial=0), 1e-30)))
        else:
            errors.append(float(np.mean(a != b)))
    return math.inf if any(map(math.isnan, errors)) else max(errors)


def outputs(prefix):
    """The arrays PREFIX0.npy, PREFIX1.npy, ..."""
    import numpy as np
    found = []
    while os.path.exists(path := f"{prefix}{len(found)}.npy"):
        found.append(np.load(path))
    return found


def peers_row(name, kiln, times, errors, results):
    """A row of kiln.peers/1. `times` has (minimum, median) of each runtime, `results` its outputs; peers whose outputs do not agree with
    those of `kiln` take no part in the ratio."""
    row = {"row": name, "runtimes": {}, "errors": errors}
    for runtime, (least, middle) in times.items():
        of = row["runtimes"][runtime] = {"min_ms": least, "median_ms": middle}
        if runtime != kiln and kiln in results and runtime in results:
            of["error"] = largest_error(results[kiln], results[runtime])
            of["agrees"] = of["error"] <= AGREES
    rivals = [of for runtime, of in row["runtimes"].items() if of.get("agrees")]
    if kiln in times and rivals:
        row["ratio"] = {k: min(of[k + "_ms"] for of in rivals) / row["runtimes"][kiln][k + "_ms"] for k in ("min", "median")}
    return rounded(row)


def report(what, kiln, settings, versions, load, rows):
    """kiln.peers/1: `load` is a machine.Load from before the measurement."""
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    geomean = {"rows": len(ratios), **{k: geometric_mean(r[k] for r in ratios) for k in ("min", "median")}}
    return {"schema": "kiln.peers/1", "what": what, "when": now(), "machine": machine.describe(), "load": load.report(),
            "kiln": machine.build_of(kiln), **settings, "versions": versions, "geomean": rounded(geomean), "rows": rows}
