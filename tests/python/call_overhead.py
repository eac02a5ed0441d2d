# SPDX-License-Identifier: Apache-2.0
"""call_overhead.py PROGRAM: what a call with two small arrays costs over the same in C++, of processor time: at most 3 us, for a
new output and for one into memory of the caller. The two take turns, and the best of each counts."""
import subprocess
import sys
import time

import numpy as np
import support

import kiln

LIMIT_US = 3.0


def best(call, calls=2000, rounds=30):
    least = 1e9
    for _ in range(rounds):
        begin = time.thread_time()
        for _ in range(calls):
            call()
        least = min(least, (time.thread_time() - begin) / calls * 1e6)
    return least


def main():
    model = kiln.compile(support.SOFTMAX, threads=1, cache=support.CACHE)
    x, mask, y = np.ones((1, 64), "f"), np.zeros(64, "f"), np.empty((1, 64), "f")
    native, python = [[], []], [[], []]
    for _ in range(3):
        told = subprocess.run([sys.argv[1], support.SOFTMAX, support.CACHE], capture_output=True, text=True, check=True, timeout=100)
        for k, us in enumerate(told.stdout.split()):
            native[k].append(float(us))
        python[0].append(best(lambda: model(x, mask)))
        python[1].append(best(lambda: model(x, mask, out=y)))
    over = [min(of_python) - min(of_native) for of_python, of_native in zip(python, native)]
    for what, of_native, of_python, more in zip(("new output", "out="), native, python, over):
        print(f"{what}: C++ {min(of_native):.2f} us, Python {min(of_python):.2f} us, {more:.2f} us more")
    return 0 if max(over) <= LIMIT_US else 1


if __name__ == "__main__":
    sys.exit(main())
