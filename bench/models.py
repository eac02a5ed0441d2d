#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times whole networks on Kiln and on the peers that are installed, in turn, in one run; or Kiln's levels of optimisation.

  bench/models.py --kiln build/release/bin/kiln --threads 1 MODEL.onnx[:name=input.npy,...] ...
  bench/models.py --levels greedy,0,1,2,3 --peers "" MODEL.onnx | FILE.graph

An input that is not given is input_I.npy beside the model, else random; an open dim is 1, or as --dim says. The outputs of peers are
compared with Kiln's. Prints minima in ms, and the ratio of the fastest peer's minimum to Kiln's (and of medians): above 1, Kiln is
faster. With several levels it prints the times of each, what it launches, the bytes that it moves and its arena. bench/make_models.py
makes networks. Needs numpy.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import beside
import interleaved
import tensors


def input_ports(kiln, path):
    """The inputs of a model as Kiln sees them: name, dtype, shape."""
    found = subprocess.run([kiln, "inspect", path, "--json"], capture_output=True, text=True)
    if found.returncode != 0:
        raise SystemExit(found.stderr)
    return json.loads(found.stdout)["results"]["inputs"]


def inputs_of(args, spec, folder):
    """The model's path, and for each input a file: the one given, input_I.npy beside the model, or random values."""
    path, _, given = spec.partition(":")
    files = dict(item.split("=", 1) for item in given.split(",")) if given else {}
    dims = dict(item.split("=") for item in args.dim)
    for i, port in enumerate(input_ports(args.kiln, path)):
        name, near = port["name"], os.path.join(os.path.dirname(path), f"input_{i}.npy")
        if name not in files and os.path.exists(near):
            files[name] = near
        if name in files:
            continue
        shape = [d if isinstance(d, int) else int(dims.get(d, 1)) for d in port["shape"]]
        files[name] = os.path.join(folder, f"in_{i}.npy")
        tensors.write_npy(files[name], port["dtype"], shape, tensors.model_values(port["dtype"]))
    return os.path.abspath(path), {n: os.path.abspath(p) for n, p in files.items()}


def short_name(path):
    """resnet50 of resnet50/model.onnx."""
    stem, folder = os.path.splitext(os.path.basename(path))[0], os.path.basename(os.path.dirname(os.path.abspath(path)))
    return folder if stem == "model" else stem


def print_launches(args, path, inputs, level):
    command = [args.kiln, "bench", path, *interleaved.options_of(level), "--iters", "1", "--warmup", "0", "--json", "-q", "--threads",
               str(args.threads)]
    for name, file in inputs.items():
        command += ["--input", f"{name}=@{file}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{interleaved.name_of(level)}: {done.stderr.strip()}", file=sys.stderr)
        return
    r = json.loads(done.stdout)["results"]
    launches = r["launches"]
    print(f"{interleaved.name_of(level)}: {launches['kernel']} kernels, {launches['library']} library calls, {launches['other']} other; "
          f"{r['bytes_moved'] / 2**20:.1f} MiB moved, arena {r['memory']['arena'] / 2**20:.1f} MiB")


def compare_levels(args, levels):
    """Times of every level, and their ratios to the last one's."""
    names, last = interleaved.installed_peers(args.peers), interleaved.name_of(levels[-1])
    for spec in args.models:
        with tempfile.TemporaryDirectory() as folder:
            path, inputs = inputs_of(args, spec, folder)
            runtimes = interleaved.start(args.kiln, levels, names, args.threads)
            times, errors = interleaved.interleave(runtimes, path, inputs, folder, args.repeat)
            for runtime in runtimes:
                runtime.close()
            print(f"\n{short_name(path)}, threads {args.threads}: ms, minimum and median; by the same of {last}")
            for name, (least, middle) in times.items():
                by = f"{least / times[last][0]:8.2f} {middle / times[last][1]:8.2f}" if last in times else ""
                print(f"{name:12} {least:9.3f} {middle:9.3f} {by}")
            for name, error in errors.items():
                print(f"{name}: {error}", file=sys.stderr)
            for level in levels:
                print_launches(args, path, inputs, level)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL[:name=file,...]", help="ONNX files; .graph files too without peers")
    beside.add_arguments(parser, repeat=24)
    parser.add_argument("--levels", default="3", help="of Kiln, 0 to 3 or greedy; with several, no --json")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N")
    args = parser.parse_args()
    if args.levels != "3":
        if args.json or args.keep:
            parser.error("--json and --keep write times of -O3 beside peers: leave --levels out")
        return compare_levels(args, args.levels.split(","))

    def measure(spec, runtimes, repeat):
        with tempfile.TemporaryDirectory() as folder:
            path, inputs = inputs_of(args, spec, folder)
            return beside.measure(short_name(path), runtimes, path, inputs, folder, repeat)

    beside.run(args, "networks", args.models, measure)


if __name__ == "__main__":
    main()
