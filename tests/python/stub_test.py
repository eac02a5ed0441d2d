# SPDX-License-Identifier: Apache-2.0
"""Types of the package: the stub is that of the module, settings are the attributes of options, and mypy finds no fault.

usage: stub_test.py [--write] [--mypy]
  --write  writes python/kiln/_kiln.pyi anew
  --mypy   also checks the package with mypy --strict
"""
import pathlib
import subprocess
import sys
import tempfile

import support

import kiln
from kiln import _settings

STUB = support.ROOT / "python/kiln/_kiln.pyi"


def made():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "_kiln.pyi")
        subprocess.run([sys.executable, str(support.ROOT / ".deps/nanobind/stubgen.py"), "-q", "-m", "kiln._kiln", "-o", str(path), "-p",
                        str(support.ROOT / "python/stub_patterns.txt")], check=True, timeout=100)
        return path.read_text()


def attributes(options):
    return {name for name in dir(options) if not name.startswith("_")}


def main():
    if "--write" in sys.argv:
        STUB.write_text(made())
        return 0
    faults = []
    if made() != STUB.read_text():
        faults.append(f"{STUB.name} is not that of the module; stub_test.py --write writes it")
    for settings, options in ((_settings.RunSettings, kiln.RunOptions()), (_settings.CompileSettings, kiln.CompileOptions()),
                              (_settings.DumpSettings, kiln.DumpOptions())):
        names = set(settings.__annotations__)
        if names != attributes(options):
            faults.append(f"{settings.__name__} and attributes differ: {sorted(names ^ attributes(options))}")
    for name in kiln.__all__:
        if not getattr(kiln, name).__doc__ and not isinstance(getattr(kiln, name), str):
            faults.append(f"kiln.{name} has no docstring")
    if "--mypy" in sys.argv:
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--python-version", "3.11", "-p", "kiln"],
                              capture_output=True, text=True, check=False, timeout=500)
        if done.returncode != 0:
            faults.append(done.stdout + done.stderr)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
