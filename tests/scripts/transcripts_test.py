# SPDX-License-Identifier: Apache-2.0
"""Commands that README.md shows print what is shown, but for what is measured, those of docs/cli.md but for all numbers; README.md's
picture is the graph and the kernel that are printed, and docs/ops.md and docs/gradients.md are what `kiln ops` makes. Usage: transcripts_test.py KILN"""
import difflib
import itertools
import os
import re
import subprocess
import sys
import tempfile

from pages_shown import AVX512, ROOT, environment_in, transcripts

PAGES = ("README.md", "docs/cli.md")
GRAPH = "examples/masked_softmax.graph"
SKIPPED = {  # starts of commands, and why they cannot run here
    "kiln devices": "prints the CPU",
    "kiln doctor": "prints the machine",
    **({} if AVX512 else {f"kiln cache why-miss -q {GRAPH} --target": "is a hit where this is the CPU's own target"}),
}


def skipped(command):
    """A file of .deps may not have been fetched (scripts/fetch_onnx_tests, scripts/demo)."""
    missing = any(not (ROOT / file).exists() for file in re.findall(r"\.deps/\S+(?<!;)", command))
    return missing or any(command.startswith(start) for start in SKIPPED)


def undecided(line):
    """The line without what an interval says if it is wide enough, and, by times alone, may or may not be."""
    return re.sub(r"; it contains 1: no difference is shown$", "", line)


def form(line):
    """The line without what differs from run to run or by computer: times, keys, levels, numbers, units, blanks."""
    line = undecided(line)
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
    return unified(map(form, shown), map(form, printed))


def unified(shown, printed):
    return "\n".join(difflib.unified_diff([*shown], [*printed], "page", "printed", lineterm=""))


# Heads of columns with times, errors, and numbers of kernels, which groups by the prices of the CPU decide.
MEASURED = re.compile(r"\bms$|^max abs$|^kernels$|^built$")


def unmeasured(lines):
    """The lines without what is measured: cells below such heads, and ratios of times. Columns are two blanks apart; the last may have no head."""
    heads = []
    for line in lines:
        cells = re.split(r" {2,}", line.rstrip())
        if any(MEASURED.search(cell) for cell in cells):
            heads = cells
        elif heads and len(heads) <= len(cells) <= len(heads) + 1:
            cells = ["#" if MEASURED.search(head) else cell for head, cell in itertools.zip_longest(heads, cells, fillvalue="")][:len(cells)]
        line = re.sub(r"\d+\.\d+ (?=\((?:minima|medians)\))", "# ", "  ".join(cells))
        yield re.sub(r"(?<=ratio: )\d+\.\d+ to \d+\.\d+$", "#", undecided(line))


def printed_by(command, environment, folder):
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)
    return done.stdout.replace(environment["KILN_CACHE_DIR"], "~/.cache/kiln").splitlines()


def picture(readme):
    """README's first block: (what stands for the graph, the text of its kernel)."""
    block = re.search(r"^```\n(.*?)^```$", readme, re.M | re.S)[1].splitlines()
    first = next(i for i, line in enumerate(block) if "dims " in line)
    column = block[first].index("dims ")
    return [line[:column] for line in block], [line[column:].rstrip() for line in block[first:]]


def picture_faults(environment, folder):
    """The left side has the graph's statements and the operators that the last one expands to; the right side is the kernel's text."""
    left, shown = picture((ROOT / "README.md").read_text())
    kernel = printed_by(f"kiln inspect {GRAPH} --group 0", environment, folder)
    yield "README.md: the picture's kernel", unified(shown, kernel[kernel.index(shown[0]):])
    statements = [line.partition(" {")[0] for line in (ROOT / GRAPH).read_text().splitlines() if re.match(r"\w+ = ", line)]
    yield "README.md: the picture's graph", unified([line.strip() for line in left if " = " in line][:len(statements)], statements)
    nodes = printed_by(f"kiln inspect {GRAPH}", environment, folder)[-1].split()[2:]
    expanded = re.findall(r"\w+", " ".join(left[next(i for i, line in enumerate(left) if "expands to" in line) + 1:]))
    yield "README.md: what the picture's graph expands to", unified(expanded, nodes[len(statements) - 1:])


def operators(environment, folder):
    """(subject, difference) of the tables of docs/ops.md and of the counts in README.md."""
    tables = re.findall(r"^```\n(.*?)^```$", (ROOT / "docs" / "ops.md").read_text(), re.M | re.S)
    commands = ["kiln ops", "kiln ops --onnx"]
    printed = [[line.rstrip() for line in printed_by(command, environment, folder)] for command in commands]
    for command, shown, lines in zip(commands, tables, printed, strict=True):
        unified = difflib.unified_diff(shown.splitlines(), lines, "page", "printed", lineterm="")
        yield f"docs/ops.md: {command}", "\n".join(unified)
    shown = re.findall(r"^```\n(.*?)^```$", (ROOT / "docs" / "gradients.md").read_text(), re.M | re.S)[0].splitlines()
    lines = [line.rstrip() for line in printed_by("kiln ops --gradients", environment, folder)]
    yield "docs/gradients.md", "\n".join(difflib.unified_diff(shown, lines, "page", "printed", lineterm=""))
    ours, onnx = (lines[1:] for lines in printed)
    names = {line.split()[0] for line in onnx}  # one may be several of ours
    counts = (f"{len(ours)} operators; {len(names)} ONNX operators, "
              f"of which {sum(line.endswith(' composed') for line in onnx)} are")
    yield "README.md", "" if counts in (ROOT / "README.md").read_text() else f"does not say: {counts}"


def faults(kiln, folder):
    environment = environment_in(folder, kiln)
    yield from picture_faults(environment, folder)
    yield from operators(environment, folder)
    for page in PAGES:
        found = list(transcripts(page))
        yield page, "" if len(found) >= 4 else f"has {len(found)} transcripts"
        for command, shown in found:
            if skipped(command):
                continue
            printed = printed_by(command, environment, folder)
            text = unified(unmeasured(shown), unmeasured(printed)) if page == "README.md" else difference(shown, printed)
            yield f"{page}: $ {command}", text


def main():
    with tempfile.TemporaryDirectory() as folder:
        found = [f"{where}\n{text}" for where, text in faults(os.path.abspath(sys.argv[1]), folder) if text]
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
