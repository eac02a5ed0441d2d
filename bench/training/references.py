#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradients and losses of the small networks in torch: stored for tests/training/networks_test.cc, and compared in full with Kiln's.

  bench/training/references.py store tests/training/networks [NAME...]   figures into NAME.json, of networks that files.py has written
  bench/training/references.py gradients FOLDER PROGRAM [NAME...]        every element, torch's f64 against PROGRAM, kiln-bench-training
  bench/training/references.py curves FOLDER PROGRAM [NAME...]           300 losses

In NAME.json: `loss` [f64, error of f32]; of each parameter's `gradients` [norm, projection on seeded.direction, error of f32]; `curve`,
losses before each of the first steps in f64 and the largest error of f32 up to there. Errors of f32 are torch's own: those of losses
absolute, those of gradients |f32 - f64| / |f64|, norms of whole tensors.

`gradients` fails where Kiln's f64 is off by more than 1e-6, or its f32 by more than four times what torch's f32 is in one tensor, or
twice in the geometric mean; both count as 5e-7 at least. `curves` fails
where Kiln's f32 is off by more than twice the largest error that torch's f32, with or without oneDNN, has up to ten steps later (plus
4 ulp of the first loss): a rounding that grows in a steep place of the curve grows at another step.
Needs torch and numpy.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import files  # noqa: E402
import machine  # noqa: E402
import networks  # noqa: E402
import results  # noqa: E402
import seeded  # noqa: E402
from torch_steps import Network  # noqa: E402

STORED_STEPS, STEPS = 10, 300
LATER = 10  # steps
ULP = 2.0**-23
LEAST = 5e-7  # about 4 ulp


def off(got, want):
    norm = np.linalg.norm(want)
    return float(np.linalg.norm(got - want) / norm) if norm > 0 else float(np.linalg.norm(got))


def rounded(*numbers, digits):
    return [float(f"{n:.{digits}g}") for n in numbers]


def largest_so_far(errors):
    return np.maximum.accumulate(np.abs(errors))


def judged(name):
    """(loss, gradients) in f64 and in f32."""
    return [Network(name, True, type).gradients() for type in (torch.float64, torch.float32)]


def store(folder, name):
    (loss, exact), (loss32, rough) = judged(name)
    gradients = {}
    for k, g in exact.items():
        projection = float(seeded.direction(k, g.size) @ g.ravel())
        gradients[k] = rounded(float(np.linalg.norm(g)), projection, digits=12) + rounded(off(rough[k], g), digits=3)
    curves = [Network(name, True, type).curve(STORED_STEPS) for type in (torch.float64, torch.float32)]
    error = largest_so_far(np.subtract(*curves)).max()
    path = os.path.join(folder, f"{name}.json")
    with open(path) as file:
        record = json.load(file)
    record.update(loss=rounded(loss, digits=12) + rounded(abs(loss32 - loss), digits=3), gradients=gradients,
                  curve={"losses": rounded(*curves[0], digits=12), "f32_error": float(f"{error:.3g}")})
    files.dump(record, path)
    return True


def read_safetensors(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__", None)
    types = {"F32": np.float32, "F64": np.float64}
    return {n: np.frombuffer(data[slice(*t["data_offsets"])], types[t["dtype"]]).reshape(t["shape"]).astype(np.float64)
            for n, t in header.items()}


def kiln_gradients(program, folder, name, type):
    with tempfile.TemporaryDirectory() as temp:
        path = os.path.join(temp, "gradients.safetensors")
        subprocess.run([program, "gradients", folder, name, type, path], check=True, stdout=subprocess.DEVNULL)
        return read_safetensors(path)


def compare_gradients(folder, program, name):
    (loss, exact), (loss32, rough) = judged(name)
    found = {type: kiln_gradients(program, folder, name, type) for type in ("f64", "f32")}
    norm = max(np.linalg.norm(g) for g in exact.values())
    # A gradient that is zero but for rounding (of a bias before a batch norm, of a key's bias) is judged by the largest of the network.
    real = {k: g for k, g in exact.items() if np.linalg.norm(g) > 1e-10 * norm}
    worst64 = max([abs(found["f64"]["loss"] - loss) / abs(loss)] + [off(found["f64"][f"d_{k}"], g) for k, g in real.items()])
    rest = max([np.linalg.norm(found["f64"][f"d_{k}"] - g) / norm for k, g in exact.items() if k not in real], default=0.0)
    ours = {k: off(found["f32"][f"d_{k}"], g) for k, g in real.items()}
    theirs = {k: off(rough[k], g) for k, g in real.items()}
    ratios = {k: max(ours[k], LEAST) / max(theirs[k], LEAST) for k in real}
    worst = max(real, key=ratios.get)
    mean = float(np.exp(np.mean(np.log(list(ratios.values())))))
    good = bool(worst64 <= 1e-6 and rest <= 1e-12 and ratios[worst] <= 4 and mean <= 2)
    return {"network": name, "ok": good, "f64_error": float(f"{worst64:.3g}"), "f64_error_of_zeros": float(f"{rest:.3g}"),
            "f32_worst": [worst, *rounded(ours[worst], theirs[worst], digits=3)],
            "f32_error_largest": rounded(max(ours.values()), max(theirs.values()), digits=3), "f32_ratio_geomean": float(f"{mean:.3g}")}


def torch_curve(name, type, onednn):
    with torch.backends.mkldnn.flags(enabled=onednn):
        return np.array(Network(name, True, type).curve(STEPS))


def compare_curves(folder, program, name):
    exact = torch_curve(name, torch.float64, True)
    rough = [np.abs(torch_curve(name, torch.float32, onednn) - exact) for onednn in (True, False)]
    answer = subprocess.run([program, "curve", folder, name, "f32", str(STEPS)], check=True, stdout=subprocess.PIPE).stdout
    ours = np.abs(np.array(json.loads(answer)["losses"]) - exact)
    theirs = largest_so_far(np.maximum(*rough))
    allowed = 2 * np.append(theirs[LATER:], [theirs[-1]] * LATER) + 4 * ULP * abs(exact[0])
    beyond = int((ours > allowed).sum())
    return {"network": name, "ok": beyond == 0, "first_loss": float(f"{exact[0]:.6g}"), "last_loss": float(f"{exact[-1]:.6g}"),
            "largest_error": rounded(ours.max(), theirs[-1], digits=3), "last_error": rounded(ours[-1], rough[0][-1], digits=3),
            "steps_beyond": beyond, "steps_beyond_at_once": int((ours > 2 * largest_so_far(rough[0]) + 4 * ULP * abs(exact[0])).sum())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["store", "gradients", "curves"])
    parser.add_argument("folder")
    parser.add_argument("rest", nargs="*", help="PROGRAM, but for store; names of networks")
    parser.add_argument("--json", metavar="FILE", help="writes all rows")
    args = parser.parse_args()
    torch.set_num_threads(1)
    program = [os.path.abspath(args.rest.pop(0))] if args.what != "store" else []
    run = {"store": store, "gradients": compare_gradients, "curves": compare_curves}[args.what]
    rows = []
    for name in args.rest or list(networks.NETWORKS):
        rows.append(run(args.folder, *program, name))
        if program:
            print(json.dumps(rows[-1]), flush=True)
    if args.json:
        results.write({"schema": "kiln.training_judge/1", "what": f"training {args.what}", "when": results.now(),
                       "machine": machine.describe(), "kiln": machine.build_of(*program), "versions": [f"torch {torch.__version__}"],
                       "rows": rows}, args.json)
    sys.exit(0 if all(row is True or row["ok"] for row in rows) else 1)


if __name__ == "__main__":
    main()
