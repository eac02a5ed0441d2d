# SPDX-License-Identifier: Apache-2.0
"""Circles among the files of a component.

A header and the source of its name are one unit (exec/plan: plan.h and plan.cc); an `-inl.h` is a part of the source that
includes it. A unit depends on the units of its component that its files include. Where these dependencies have no
circle, every unit can be read, tested and replaced after those below it. Used by scripts/lint.
"""
import pathlib
import re

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)

# Circles that stay, as sets of units, and why.
ALLOWED = {
    frozenset({"exec/library/deconv_product", "exec/library/library"}):
        "one of the table's operators is computed with another, a product, by whatever implementation takes that",
}


def unit_of(path, includers):
    """The unit of a file; `includers`: the files that include each file."""
    if path.stem.endswith("-inl"):
        sources = {unit_of(p, {}) for p in includers.get(path, ()) if p.suffix == ".cc"}
        parents = sources or {unit_of(p, includers) for p in includers.get(path, ()) if p != path}
        if len(parents) == 1:
            return parents.pop()
    return str(path.with_suffix(""))


def dependencies(files):
    """{unit: {unit that it includes}} within each component, for {path: text}."""
    included = {path: [pathlib.PurePosixPath(re.sub("^kiln/", "include/kiln/", name)) for name in INCLUDE.findall(text)]
                for path, text in files.items()}
    includers = {}
    for path, names in included.items():
        for name in names:
            includers.setdefault(name, []).append(path)
    graph = {}
    for path, names in included.items():
        unit = unit_of(path, includers)
        edges = graph.setdefault(unit, set())
        edges.update(unit_of(name, includers) for name in names if name in files and name.parts[0] == path.parts[0])
        edges.discard(unit)
    return graph


def circles(graph):
    """The strongly connected sets of more than one unit, each sorted (Tarjan's algorithm)."""
    number, least, stack, found = {}, {}, [], []

    def visit(unit):
        number[unit] = least[unit] = len(number)
        stack.append(unit)
        for other in sorted(graph[unit]):
            if other not in number:
                visit(other)
                least[unit] = min(least[unit], least[other])
            elif other in stack:
                least[unit] = min(least[unit], number[other])
        if least[unit] == number[unit]:
            start = stack.index(unit)
            if len(stack) - start > 1:
                found.append(sorted(stack[start:]))
            del stack[start:]

    for unit in sorted(graph):
        if unit not in number:
            visit(unit)
    return found


def check(files):
    """Yields a message for each circle that is not allowed, and for each that is and has gone."""
    graph = dependencies(files)
    found = circles(graph)
    for units in found:
        if frozenset(units) in ALLOWED:
            continue
        edges = [f"{unit} -> {other}" for unit in units for other in sorted(graph[unit] & set(units))]
        yield f"{units[0]}: is in a circle of includes: {', '.join(edges)}; move what both need to a file below them"
    for units in ALLOWED:
        if sorted(units) not in found:
            yield f"scripts/include_graph.py: {', '.join(sorted(units))} are no circle any more; take them off the list"
