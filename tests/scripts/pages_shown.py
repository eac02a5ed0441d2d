# SPDX-License-Identifier: Apache-2.0
"""What pages show of commands, and where these can be run."""
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Where the CPU has no AVX-512, x86-64-v3 is its own target, and nothing misses.
AVX512 = "avx512f" in pathlib.Path("/proc/cpuinfo").read_text()


def transcripts(page):
    """(command, lines) of what blocks of a file of the checkout show after `$ `."""
    for block in re.findall(r"^```\n(\$ kiln .*?)^```$", (ROOT / page).read_text(), re.M | re.S):
        for shown in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, transcript = shown.partition("\n")
            yield command, transcript.splitlines()


def environment_in(folder, kiln):
    """Variables for commands in the folder, which gets what they read of the checkout and an empty cache."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KILN_")}
    environment["KILN_CACHE_DIR"] = folder + "/cache"
    environment["PATH"] = f"{pathlib.Path(kiln).parent}:{os.environ['PATH']}"
    for name in ("examples", "tests", "CMakeLists.txt", ".deps"):
        os.symlink(ROOT / name, pathlib.Path(folder) / name)
    return environment
