# SPDX-License-Identifier: Apache-2.0
"""The transcripts of docs/json.md have the fields that the commands print. Usage: json_pages_test.py KILN"""
import json
import os
import re
import subprocess
import sys
import tempfile

from pages_shown import AVX512, environment_in, transcripts


def fields(value, path=""):
    """Paths of all fields; elements of an array have one path."""
    if isinstance(value, dict):
        return {path}.union(*(fields(inner, f"{path}/{key}") for key, inner in value.items()))
    if isinstance(value, list):
        return {path}.union(*(fields(inner, path + "[]") for inner in value))
    return {path}


def keys(kiln, environment):
    done = subprocess.run([kiln, "cache", "ls", "--json"], env=environment, capture_output=True, text=True, check=True)
    return (entry["key"] for entry in json.loads(done.stdout)["results"]["entries"])


def fault(kiln, command, transcript, environment, folder):
    words = command.split("|")[0].split()
    if "KEY" in words:
        some = keys(kiln, environment)
        words = [next(some) if word == "KEY" else word for word in words]
    done = subprocess.run([kiln, *words[1:]], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1, 4):
        return f"exit {done.returncode}: {done.stderr}"
    printed = fields(json.loads(re.sub(r"x86-64-v\d", "x86-64-v4", done.stdout)))  # the pages' CPU has AVX-512
    if "..." in transcript:  # cut: what is there must be printed
        names = {path.rsplit("/", 1)[-1].rstrip("[]") for path in printed}
        unknown = set(re.findall(r'"(\w+)":', "\n".join(transcript))) - names
        return f"is not printed: {sorted(unknown)}" if unknown else ""
    shown = fields(json.loads("\n".join(transcript)))
    return "" if shown == printed else f"printed only: {sorted(printed - shown)}; shown only: {sorted(shown - printed)}"


def main():
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        kiln = os.path.abspath(sys.argv[1])
        environment = environment_in(folder, kiln)
        found = list(transcripts("docs/json.md"))
        for command, transcript in found:
            if "why-miss" in command and not AVX512:
                continue
            text = fault(kiln, command, transcript, environment, folder)
            if text:
                faults.append(f"{command}\n  {text}")
    if len(found) < 5:
        faults.append(f"docs/json.md has {len(found)} transcripts")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
