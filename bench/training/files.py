#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the networks of networks.py for kiln-bench-training: FOLDER/NAME.graph and FOLDER/NAME.json.

  bench/training/files.py --small tests/training/networks      all
  bench/training/files.py /tmp/networks resnet50 mlp

Of a NAME.json that is there the figures that references.py has added stay. Needs Python's standard library alone.
"""
import argparse
import json
import os

import networks


def record(name, text):
    optimizer, lr = networks.OPTIMIZERS[name]
    ports = {p.name: [p.role, p.low, p.high] for p in text.values()}
    return {"head": text.head, "optimizer": optimizer, "lr": lr, "ports": ports}


def dump(record, path):
    """One member a line, and one line for each member of an object."""
    def lines(value):
        if not isinstance(value, dict):
            return json.dumps(value)
        return "{\n" + ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()) + "\n  }"

    with open(path, "w") as file:
        file.write("{\n" + ",\n".join(f"  {json.dumps(k)}: {lines(v)}" for k, v in record.items()) + "\n}\n")


def write(folder, name, small):
    text, stem = networks.text(name, small), os.path.join(folder, name)
    old = {}
    if os.path.exists(f"{stem}.json"):
        with open(f"{stem}.json") as file:
            old = json.load(file)
    with open(f"{stem}.graph", "w") as file:
        file.write(text.text())
    dump({**old, **record(name, text)}, f"{stem}.json")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", default=list(networks.NETWORKS))
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    for name in args.names:
        write(args.folder, name, args.small)
