#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Launches of a run at -O3 beside those of TorchInductor.

  bench/launches.py --kiln build/release/bin/kiln MODEL.onnx ...

Kiln: kernels and library calls, from `kiln explain --json`. TorchInductor (where torch and onnx are installed): calls are
counted in the wrapper that it generates for the model as frameworks.py hands it over: those of generated kernels, and those
of extern kernels (library operators). Its C++ is not compiled. A model with an operator that frameworks.py does not know is
left out.
"""
import argparse
import json
import os
import re
import subprocess


def kiln_launches(kiln, path):
    out = subprocess.run([kiln, "explain", "--json", path], capture_output=True, text=True, check=True).stdout
    results = json.loads(out)["results"]
    groups = [g["kind"] for g in results["traffic"]["groups"]]
    return groups.count("kernel"), groups.count("library")


def inductor_launches(path):
    """(generated, extern) calls."""
    import torch
    from torch._inductor import async_compile, config
    from torch._inductor.utils import run_and_get_code
    import frameworks
    config.freezing = True
    config.fx_graph_cache = False
    # Only the wrapper's text is wanted.
    async_compile.AsyncCompile.cpp_pybinding = lambda self, *args, **more: lambda *run: None
    function = frameworks.Function(path, frameworks.Torch())
    inputs = []
    for port in function.model["inputs"]:
        inputs.append(torch.zeros([d or 1 for d in port["shape"]], dtype=getattr(torch, port["dtype"])))
    with torch.no_grad():
        compiled = torch.compile(frameworks.inductor_module(function, inputs), dynamic=False)
        _, codes = run_and_get_code(compiled, *inputs)
    body = "\n".join(code[code.index("def call("):] for code in codes if "def call(" in code)
    generated = len(re.findall(r"^\s+cpp_fused_\w*\(", body, re.M))
    extern = len(re.findall(r"extern_kernels\.\w+\(|torch\.ops\.\w+\.\w+(?:\.\w+)?\(", body))
    return generated, extern


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", required=True)
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    print("| model | Kiln: kernels + library | TorchInductor: generated + extern |\n| --- | --- | --- |")
    for path in args.models:
        name = os.path.basename(os.path.dirname(path)) or path
        kernels, library = kiln_launches(args.kiln, path)
        theirs = "-"
        if not args.no_torch:
            try:
                generated, extern = inductor_launches(path)
                theirs = f"{generated} + {extern} = {generated + extern}"
            except Exception as error:  # of any kind: torch's compiler has its own
                theirs = f"not run: {type(error).__name__} {str(error).splitlines()[0][:60] if str(error) else ''}"
        print(f"| {name} | {kernels} + {library} = {kernels + library} | {theirs} |", flush=True)


if __name__ == "__main__":
    main()
