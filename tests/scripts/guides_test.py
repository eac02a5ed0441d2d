# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md and docs/howto/*.md: every command that they show is run, page by page in one shell and in the order of the page, and prints what
is shown, but for numbers; every block of code is part of a file of examples/, which tests/install builds.

usage: guides_test.py KILN BUILD_DIRECTORY [INSTALLED_TREE]

Without INSTALLED_TREE nothing is built against it; with it, as install_test.sh has it, what is built so is what is compared. `...` at the end of a shown line stands for the rest of a line, alone for
any number of lines."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from pages_shown import ROOT, environment_in
import transcripts_test
from transcripts_test import unified

PAGES = [ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "howto").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
MARK = "\x1e"
NEVER = ("git clone ", "cmake --install ")  # the address is not known here; install_test.sh has installed
OF_A_TREE = ("scripts/build ", "cmake ", "cc ", "build/")  # at the start of a command: needs an installed tree
LONG = ("./scripts/demo",)  # and nothing that needs a tree needs it


def form(line):
    """That of a transcript, and without the mark of the schedule that a measurement has chosen."""
    return transcripts_test.form(line).replace("# * ", "# ")


def blocks(page):
    return BLOCK.findall(page.read_text())


def commands(page):
    """(command, lines shown); a command goes on behind a backslash at the end of a line, and after `<<EOF` to that word."""
    for language, text in blocks(page):
        if language:
            continue
        for shown in re.split(r"^\$ ", text, flags=re.M)[1:]:
            command, transcript = re.fullmatch(r"((?:[^\n]*<<EOF\n.*?\nEOF|(?:[^\n]*\\\n)*[^\n]*)\n)(.*)", shown, re.S).groups()
            yield command.strip(), transcript.splitlines()


def expected(shown):
    """A pattern for what is printed, line by line in its form."""
    lines = []
    for line in shown:
        before, dots, _ = line.partition("...")
        lines.append(r"(?:.*\n)*?" if line.strip() == "..." else re.escape(form(before)) + (r".*\n" if dots else r"\n"))
    return "".join(lines)


def difference(shown, printed):
    if re.fullmatch(expected(shown), "".join(form(line) + "\n" for line in printed)):
        return ""
    return unified(shown, printed)


def prepare(folder, kiln, build, installed):
    """The folder looks like a checkout that scripts/build has built; returns the variables of its shell."""
    environment = environment_in(str(folder), kiln)
    for path in ROOT.iterdir():
        if path.name not in ("build", "scripts") and not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)
    shutil.copytree(ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "scripts" / "build").write_text("#!/bin/sh\n")
    (folder / "build").mkdir()
    for preset in ("release", "demo"):
        (folder / "build" / preset).symlink_to(build)
    (folder / "home").mkdir()
    if installed:
        (folder / "home" / "kiln").symlink_to(installed)
    # Groups depend on the prices of the CPU's level.
    return {**environment, "HOME": str(folder / "home"), "KILN_MAX_ISA": "x86-64-v3", "TMPDIR": str(folder)}


def run_page(shown, folder, environment, installed):
    """What each command printed, by its number."""
    script = ["exec 2>&1"]
    left_out = NEVER + (LONG if installed else OF_A_TREE)
    for number, (command, _) in enumerate(shown):
        if not command.startswith(left_out):
            script.append(f"printf '{MARK}{number}\\n'\n{command}")
    done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, timeout=280)
    printed = done.stdout.replace(environment["KILN_CACHE_DIR"], "~/.cache/kiln").replace(environment["HOME"], "~")
    printed = printed.replace(str(folder), "~/kiln-source")
    for part in printed.split(MARK)[1:]:
        number, _, text = part.partition("\n")
        yield int(number), text.splitlines()


def code_faults(page):
    examples = {path: path.read_text() for path in (ROOT / "examples").rglob("*") if path.is_file() and not path.name.endswith(".graph")}
    for language, text in blocks(page):
        if not language and not text.startswith("$ "):
            yield f"{page.name}: a block without a language has to begin with a command: {text.splitlines()[0]}"
        if language not in ("", "text") and not any(text in of for of in examples.values()):
            yield f"{page.name}: is no part of a file of examples/:\n{text}"


def faults(folder, kiln, build, installed):
    environment = prepare(folder, kiln, build, installed)
    for page in PAGES:
        yield from code_faults(page)
        shown = list(commands(page))
        if len(shown) < 2:
            yield f"{page.name}: has {len(shown)} commands"
        if installed and not any(command.startswith(OF_A_TREE) for command, _ in shown):
            continue
        for number, printed in run_page(shown, folder, environment, installed):
            command, transcript = shown[number]
            if installed and not command.startswith(OF_A_TREE):
                continue
            text = difference(transcript, printed)
            if text:
                yield f"{page.name}: $ {command}\n{text}"


def main():
    kiln, build, *installed = (os.path.abspath(argument) for argument in sys.argv[1:])
    fetched = subprocess.run([ROOT / "scripts" / "fetch_model", "magika"], capture_output=True, text=True)
    if fetched.returncode != 0:
        print(fetched.stderr, "without magika's network no page can be tried")
        sys.exit(77 if os.environ.get("KILN_OFFLINE") else 1)
    with tempfile.TemporaryDirectory() as folder:
        found = list(faults(pathlib.Path(folder), kiln, build, *(installed or [""])))
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
