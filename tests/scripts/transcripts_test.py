# SPDX-License-Identifier: Apache-2.0
"""Commands that README.md and docs/cli.md show print what is shown, but for numbers, and docs/ops.md is what `kiln ops`
makes. Usage: transcripts_test.py KILN"""
import difflib
import os
import re
import subprocess
import sys
import tempfile

from pages_shown import AVX512, ROOT, environment_in, transcripts

PAGES = ("README.md", "docs/cli.md")
GRAPH = "examples/masked_softmax.graph"
FETCHED = "needs a file that scripts/fetch_onnx_tests or scripts/demo fetches"
SKIPPED = {  # starts of commands, and why they cannot run here
    "kiln run .deps/onnx-tests/node/test_roialign_aligned_true/model.onnx": FETCHED,
    "kiln inspect .deps/onnx-tests/node/test_roialign_aligned_true/model.onnx": FETCHED,
    "kiln bench .deps/models/magika/model.onnx": FETCHED,
    "kiln devices": "prints the CPU",
    **({} if AVX512 else {f"kiln cache why-miss -q {GRAPH} --target": "is a hit where this is the CPU's own target"}),
}


def form(line):
    """The line without what differs from run to run or by computer: times, keys, levels, numbers, units, blanks."""
    line = re.sub(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", line)
    line = re.sub(r"(?<![.\w])(?=[0-9a-f]*\d)[0-9a-f]{8,}\b", "KEY", line)
    line = re.sub(r"\bv[34]\b", "LEVEL", line)
    line = re.sub(r"(?<![A-Za-z_\d])-?\d+(\.\d+)?(e[-+]?\d+)?", "#", line)
    return " ".join(re.sub(r"# [KMG]?i?B\b", "# B", line).split())


def same(shown, printed):
    if "..." in shown:
        return form(printed).startswith(form(shown.partition("...")[0]))
    return form(printed) == form(shown)


def difference(shown, printed):
    if len(shown) == len(printed) and all(map(same, shown, printed)):
        return ""
    return "\n".join(difflib.unified_diff([*map(form, shown)], [*map(form, printed)], "page", "printed", lineterm=""))


def printed_by(command, environment, folder):
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)
    return done.stdout.replace(environment["KILN_CACHE_DIR"], "~/.cache/kiln").splitlines()


def picture(readme):
    """The right column of README's first block, which is a kernel's text."""
    block = re.search(r"^```\n(.*?)^```$", readme, re.M | re.S)[1].splitlines()
    column = next(line.index("dims ") for line in block if "dims " in line)
    lines = [line[column:].rstrip() for line in block]
    return lines[next(i for i, line in enumerate(lines) if line.startswith("dims ")):]


def operators(environment, folder):
    """(subject, difference) of the tables of docs/ops.md and of the counts in README.md."""
    tables = re.findall(r"^```\n(.*?)^```$", (ROOT / "docs" / "ops.md").read_text(), re.M | re.S)
    commands = ["kiln ops", "kiln ops --onnx"]
    printed = [[line.rstrip() for line in printed_by(command, environment, folder)] for command in commands]
    for command, shown, lines in zip(commands, tables, printed, strict=True):
        unified = difflib.unified_diff(shown.splitlines(), lines, "page", "printed", lineterm="")
        yield f"docs/ops.md: {command}", "\n".join(unified)
    ours, onnx = (lines[1:] for lines in printed)
    counts = (f"{len(ours)} operators; {len(onnx)} ONNX operators, "
              f"of which {sum(line.endswith(' composed') for line in onnx)} are")
    yield "README.md", "" if counts in (ROOT / "README.md").read_text() else f"does not say: {counts}"


def faults(kiln, folder):
    environment = environment_in(folder, kiln)
    text = printed_by(f"kiln inspect {GRAPH} --group 0", environment, folder)[1:]
    yield "README.md: the picture", difference(picture((ROOT / "README.md").read_text()), text)
    yield from operators(environment, folder)
    for page in PAGES:
        found = list(transcripts(page))
        yield page, "" if len(found) >= 4 else f"has {len(found)} transcripts"
        for command, shown in found:
            if not any(command.startswith(start) for start in SKIPPED):
                yield f"{page}: $ {command}", difference(shown, printed_by(command, environment, folder))


def main():
    with tempfile.TemporaryDirectory() as folder:
        found = [f"{where}\n{text}" for where, text in faults(os.path.abspath(sys.argv[1]), folder) if text]
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
