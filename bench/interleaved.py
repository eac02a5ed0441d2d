# SPDX-License-Identifier: Apache-2.0
"""Times runtimes in turn, each a process of its own that is stopped while another one is timed.

Rounds go forth and back (a, b, c, c, b, a, ...), so that a slow change of the machine meets all alike. A process may use as many CPUs
as it has threads.
"""
import json
import os
import signal
import statistics
import subprocess
import sys

import peers

ROUNDS = 6


def pinned(threads, variables):
    """Arguments of Popen for a process on as many CPUs as it has threads."""
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    return {"env": dict(os.environ, OMP_NUM_THREADS=str(threads), **variables),
            "preexec_fn": lambda: os.sched_setaffinity(0, cpus)}


class Runtime:
    """A process that answers `load` and `time`, one JSON object a line."""

    def __init__(self, name, command, threads, **variables):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **pinned(threads, variables))

    def ask(self, **request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says so
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"ok": False, "error": f"its process ended with {self.process.wait()}"}

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """Lets it end by itself: what it still writes to its cache gets there."""
        try:
            self.process.communicate(timeout=60)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.close()


def options_of(level):
    """0 to 3, or greedy: level 3 that groups by the rules of fusion/group.h's FusionRules::kGreedy."""
    return ["-O3", "--rules=greedy"] if level == "greedy" else [f"-O{level}"]


def name_of(level):
    return "kiln greedy" if level == "greedy" else f"kiln -O{level}"


def installed_peers(words):
    """Those of the comma-separated names that can be imported; says which are left out."""
    names = [name for name in words.split(",") if name]
    for name in names:
        if name not in peers.PEERS:
            raise SystemExit(f'--peers "{name}": is none of {", ".join(peers.PEERS)}')
        if not peers.installed(name):
            print(f"{peers.PEERS[name][0]} is not installed: left out", file=sys.stderr)
    return [name for name in names if peers.installed(name)]


def start(kiln, levels, names, threads):
    """A process for each level of Kiln and for each peer."""
    served = [os.path.abspath(kiln), "bench", "--serve", "--threads", str(threads)]
    commands = {name_of(level): served + options_of(level) for level in levels}
    commands.update({name: [sys.executable, "-B", peers.__file__, "serve", name, str(threads)] for name in names})
    return [Runtime(name, command, threads) for name, command in commands.items()]


def interleave(runtimes, path, inputs, folder, repeat):
    """({name: (minimum, median)} in ms, {name: error}). A runtime's results are FOLDER/NAME.I.npy, blanks of its name as _."""
    samples, errors = {}, {}
    for r in runtimes:
        r.go_on()
        answer = r.ask(cmd="load", onnx=path, inputs=inputs, results=results_of(r.name, folder))
        if answer.get("ok"):
            samples[r.name] = []
        else:
            errors[r.name] = answer.get("error")
    # Only now: who is stopped while it builds a kernel keeps others from it.
    for r in runtimes:
        r.stop()
    for round_ in range(ROUNDS):
        for r in runtimes if round_ % 2 == 0 else runtimes[::-1]:
            if r.name not in samples:
                continue
            r.go_on()
            answer = r.ask(cmd="time", n=-(-repeat // ROUNDS), warm=2 if round_ == 0 else 1, budget_s=60)
            r.stop()
            if "ms" in answer:
                samples[r.name] += answer["ms"]
            else:
                errors[r.name] = answer.get("error")
                del samples[r.name]
    return {n: (min(ms), statistics.median(ms)) for n, ms in samples.items()}, errors


def results_of(name, folder):
    return os.path.join(folder, name.replace(" ", "_") + ".")
