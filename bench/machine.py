# SPDX-License-Identifier: Apache-2.0
"""What a measurement was made on and with: the machine, how busy it was, and which builds."""
import hashlib
import os
import platform
import re
import subprocess


def first_match(path, pattern):
    try:
        with open(path) as file:
            match = re.search(pattern, file.read(), re.M)
    except OSError:
        return None
    return match[1].strip() if match else None


# (vendor, family, models): what clouds call by names that say less.
MICROARCHITECTURES = [("AuthenticAMD", 25, range(0x10, 0x20), "Zen 4"), ("AuthenticAMD", 25, range(0x60, 0xb0), "Zen 4"),
                      ("AuthenticAMD", 25, range(0x100), "Zen 3"), ("AuthenticAMD", 26, range(0x100), "Zen 5"),
                      ("AuthenticAMD", 23, range(0x30, 0x100), "Zen 2"), ("GenuineIntel", 6, (85,), "Skylake, Cascade Lake"),
                      ("GenuineIntel", 6, (106, 108), "Ice Lake"), ("GenuineIntel", 6, (143,), "Sapphire Rapids"),
                      ("GenuineIntel", 6, (207,), "Emerald Rapids"), ("GenuineIntel", 6, (173, 174), "Granite Rapids")]


def cpu_name():
    """As /proc/cpuinfo has it, without trademarks and clock, and with the microarchitecture: AMD EPYC (Zen 4)."""
    of = {key: first_match("/proc/cpuinfo", rf"^{key}\s*:(.*)$") for key in ("vendor_id", "cpu family", "model", "model name")}
    name = re.sub(r"\((R|TM)\)|@.*| CPU\b| Processor\b", "", of["model name"] or platform.machine()).strip()
    for vendor, family, models, called in MICROARCHITECTURES:
        if of["vendor_id"] == vendor and of["cpu family"] == str(family) and int(of["model"]) in models:
            return f"{name} ({called})"
    return name


def describe():
    """Names no host and no path."""
    flags = set((first_match("/proc/cpuinfo", r"^flags\s*:(.*)$") or "").split())
    memory = first_match("/proc/meminfo", r"^MemTotal:\s*(\d+) kB")
    return {"cpu": cpu_name(), "cpus": len(os.sched_getaffinity(0)), "memory_gib": round(int(memory) / 2**20, 1) if memory else None,
            "avx2": "avx2" in flags, "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags,
            "kernel": platform.release()}


class Load:
    """How much of the machine others took while something was measured."""

    def __init__(self):
        self.before, self.load_before = self.ticks(), os.getloadavg()[0]

    @staticmethod
    def ticks():
        with open("/proc/stat") as file:
            return [int(word) for word in file.readline().split()[1:9]]

    def report(self):
        """The load of the last minute before and after, and the share of time that other guests of the host took (steal)."""
        spent = [b - a for a, b in zip(self.before, self.ticks())]
        return {"load_before": round(self.load_before, 2), "load_after": round(os.getloadavg()[0], 2),
                "steal": round(spent[7] / max(1, sum(spent)), 4)}


def git(folder, *arguments):
    done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def commit_of(kiln):
    """(commit or None, whether its tree differs from the commit). scripts/baseline names the folder after the commit."""
    kiln = os.path.realpath(kiln)
    if match := re.search(r"/baseline/([0-9a-f]{40})/", kiln):
        return match[1], False
    folder = os.path.dirname(kiln)
    return git(folder, "rev-parse", "HEAD"), bool(git(folder, "status", "--porcelain", "--untracked-files=no"))


def build_of(kiln):
    """What a kiln was built from. The tree may have changed since it was built: the program's own digest tells it apart."""
    commit, changed = commit_of(kiln)
    version = subprocess.run([kiln, "--version"], capture_output=True, text=True)
    with open(kiln, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:16]
    return {"commit": commit, "changed": changed, "program_sha256": digest, "version": " ".join(version.stdout.split())}
