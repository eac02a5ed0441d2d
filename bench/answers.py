# SPDX-License-Identifier: Apache-2.0
"""The side of a runtime in Python that interleaved.Runtime asks: a line of JSON for each request, and for each answer."""
import json
import os
import sys
import time


def timed(run, request):
    """Milliseconds of up to n runs that fit into the budget, at least one."""
    for _ in range(request["warm"]):
        run()
    ms, end = [], time.perf_counter() + request.get("budget_s", 60)
    while not ms or (len(ms) < request["n"] and time.perf_counter() < end):
        start = time.perf_counter()
        run()
        ms.append((time.perf_counter() - start) * 1e3)
    return ms


def answer_all(load):
    """Answers until stdin ends. `load` makes what a request names: who runs it and lives as long, the function that is timed, and the answer."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print must not break the protocol
    owner = run = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["cmd"] == "load":
                owner, run, answer = load(request)
            else:
                answer = {"ms": timed(run, request)}
        except Exception as error:  # of any kind: a peer that cannot run a model is left out
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)
