# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/performance.md and the figures of README.md, as Markdown, from reports of bench/results. Pure functions of these.

A section of which there are no reports is an empty text. A Column is one report of kiln.peers/1: a CPU, a number of threads.
"""
import collections
import re

import peers
from results import build_name, geometric_mean

Column = collections.namedtuple("Column", "cpu threads report")
KILN = {"kernels": "kiln -O3", "networks": "kiln -O3", "first": "kiln warm"}


class Mixed(Exception):
    """Reports that cannot stand in one table; the text says which."""


def lines(rows):
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def table(head, rows):
    return lines([head, ["---"] * len(head), *rows])


def short_cpu(report):
    """Zen 4 of AMD EPYC (Zen 4)."""
    cpu = report["machine"]["cpu"]
    match = re.search(r"\((.*)\)", cpu)
    return match[1] if match else cpu


def count(number, word):
    return f"{number} {word}{'s' * (number != 1)}"


def newest(reports, what):
    """A column for each CPU and number of threads; the newest report where there are several."""
    of = {(r["machine"]["cpu"], r["threads"]): r for r in sorted(reports, key=lambda r: r["when"]) if r.get("what") == what}
    return [Column(short_cpu(report), threads, report) for (_, threads), report in sorted(of.items())]


def one_commit(columns):
    """The build of all; none where there are no columns."""
    builds = sorted({build_name(c.report["kiln"]) for c in columns})
    if len(builds) > 1:
        raise Mixed(f"bench/results has tables beside peers of commits {' and '.join(builds)}: measure all of one "
                    "(scripts/baseline COMMIT builds an earlier one), or delete files")
    return builds[0] if builds else None


def rivals(row, what):
    """(page name, times) of the peers that count."""
    return [(peers.PEERS[name][2], of) for name, of in row["runtimes"].items() if name in peers.PEERS and of.get("agrees", what == "first")]


def fastest(row, what):
    return min(rivals(row, what), key=lambda rival: rival[1]["min_ms"])[0]


def ms(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def ratio_text(ratio):
    least = f"{ratio['min']:.2f}"
    return f"{f'**{least}**' if ratio['min'] < 1 else least} ({ratio['median']:.2f})"


def mean_of(ratios):
    return {k: geometric_mean(r[k] for r in ratios) for k in ("min", "median")}


def ratios_to(column, what, peer):
    """Of all rows that the peer runs and agrees on: its time / Kiln's."""
    found = []
    for row in column.report["rows"]:
        kiln = row["runtimes"].get(KILN[what])
        found += [{k: of[k + "_ms"] / kiln[k + "_ms"] for k in ("min", "median")} for name, of in rivals(row, what) if kiln and name == peer]
    return found


def means_by_peer(column, what, names):
    found = [(name, ratios_to(column, what, name)) for name in names]
    return ", ".join(f"{name} {mean_of(ratios)['min']:.2f}" for name, ratios in found if ratios)


def titles(columns):
    return [f"{c.cpu}, {count(c.threads, 'thread')}" for c in columns]


def rows_of(columns):
    """(name, [the row or None of each column]) in the order of the first report."""
    names = list(dict.fromkeys(row["row"] for c in columns for row in c.report["rows"]))
    by_name = [{row["row"]: row for row in c.report["rows"]} for c in columns]
    return [(name, [rows.get(name) for rows in by_name]) for name in names]


def beside_peers(columns, what, described):
    """A row for each kernel or network: Kiln's time, the ratio to the fastest peer, and who that is; then geometric means."""
    if not columns:
        return ""
    head = ["row", *(["what"] if described else [])] + [h for title in titles(columns) for h in (f"{title}: ms", "ratio")]
    body = []
    for name, rows in rows_of(columns):
        cells = [name, *([described.get(name, "")] if described else [])]
        for row in rows:
            kiln = row and row["runtimes"].get(KILN[what])
            ratio = f"{ratio_text(row['ratio'])} {fastest(row, what)}" if row and "ratio" in row else "-"
            cells += [ms(kiln["min_ms"]) if kiln else "-", ratio]
        body.append(cells)
    blank = [""] if described else []
    means = [ratio_text(mean_of([r["ratio"] for r in c.report["rows"] if "ratio" in r])) for c in columns]
    body.append(["**geomean**, fastest peer", *blank, *(cell for mean in means for cell in ("", mean))])
    names = list(dict.fromkeys(peer for c in columns for row in c.report["rows"] for peer, _ in rivals(row, what)))
    body.append(["geomean, each peer", *blank, *(cell for c in columns for cell in ("", means_by_peer(c, what, names)))])
    return table(head, body)


TRAINERS = {"eager": "torch eager", "inductor": "torch.compile", "jax": "jax"}


def training(reports):
    """A row for each network: Kiln's time of a step, the ratio to the fastest peer, and how much longer it takes without optimisation."""
    columns = newest(reports, "training")
    plain = {(c.cpu, c.threads): {row["row"]: row["runtimes"] for row in c.report["rows"]} for c in newest(reports, "training levels")}
    if not columns:
        return ""
    body = []
    for name, rows in rows_of(columns):
        cells = [name]
        for c, row in zip(columns, rows):
            of = row["runtimes"] if row else {}
            rivals_ = ", ".join(f"{word} {ms(of[peer]['min_ms'])}" for peer, word in TRAINERS.items() if of.get(peer, {}).get("agrees"))
            levels = plain.get((c.cpu, c.threads), {}).get(name)
            gain = f"{levels['kiln -O0']['min_ms'] / levels['kiln -O3']['min_ms']:.2f}" if levels else ""
            cells += [ms(of["kiln -O3"]["min_ms"]) if of else "-", rivals_, ratio_text(row["ratio"]) if row and "ratio" in row else "-", gain]
        body.append(cells)
    means = [mean_of([r["ratio"] for r in c.report["rows"] if "ratio" in r]) for c in columns]
    body.append(["**geomean**", *(cell for mean in means for cell in ("", "", ratio_text(mean), ""))])
    return table(["network", *(h for t in titles(columns) for h in (f"{t}: ms", "peers", "ratio", "-O0 / -O3"))], body)


def training_kernels(reports):
    """A row for each kernel of training steps: Kiln's time, what share of a copy's bandwidth that is, the ratio to the fastest peer."""
    columns = newest(reports, "training kernels")
    if not columns:
        return ""
    body = []
    for name, rows in rows_of(columns):
        cells = [name]
        for row in rows:
            cells += [ms(row["runtimes"]["kiln -O3"]["min_ms"]), f"{row['copy_percent']:.0f} %", ratio_text(row["ratio"])] if row else ["-", "", "-"]
        body.append(cells)
    return table(["kernel", *(h for t in titles(columns) for h in (f"{t}: ms", "of a copy's bandwidth", "ratio"))], body)


def programs(reports):
    """A row for each program of arrays: Kiln's time, those of the peers that agree, and the ratio to the fastest."""
    columns = newest(reports, "programs")
    if not columns:
        return ""
    body = []
    for name, rows in rows_of(columns):
        cells = [name.replace("_", " ")]
        for row in rows:
            of = row["runtimes"] if row else {}
            rivals_ = ", ".join(f"{peer} {ms(times['min_ms'])}" for peer, times in of.items() if times.get("agrees"))
            cells += [ms(of["kiln"]["min_ms"]) if "kiln" in of else "-", rivals_, ratio_text(row["ratio"]) if row and "ratio" in row else "-"]
        body.append(cells)
    means = [mean_of([r["ratio"] for r in c.report["rows"] if "ratio" in r]) for c in columns]
    body.append(["**geomean**", *(cell for mean in means for cell in ("", "", ratio_text(mean)))])
    return table(["program", *(h for t in titles(columns) for h in (f"{t}: ms", "peers", "ratio"))], body)


def left_out(columns, what):
    """A line for each peer that could not run rows, or whose results differ."""
    found = collections.defaultdict(list)
    for c in columns:
        for row in c.report["rows"]:
            for name in row["errors"]:
                found[peers.PEERS[name][2] if name in peers.PEERS else name, "does not run"].append(row["row"])
            for name, of in row["runtimes"].items():
                if of.get("agrees") is False:
                    found[peers.PEERS[name][2], "has other results for"].append(row["row"])
    return "".join(f"- {peer} {why} {', '.join(dict.fromkeys(rows))}.\n" for (peer, why), rows in found.items())


def slow_rows(measured, most=5):
    """Of (what, columns): a line for each row with a ratio of minima below 1 in a column, lowest first; those beyond `most` in one line."""
    found = collections.defaultdict(list)
    for what, columns in measured:
        for title, c in zip(titles(columns), columns):
            for row in c.report["rows"]:
                if row.get("ratio", {"min": 1})["min"] < 1:
                    found[row["row"]].append((row["ratio"]["min"], f"{title}: {ratio_text(row['ratio'])}, {fastest(row, what)}"))
    slow = sorted(found.items(), key=lambda item: min(item[1]))
    rest = [f"- Less slow: {', '.join(name for name, _ in slow[most:])}.\n"] if len(slow) > most else []
    return "".join([f"- {name}, {'; '.join(text for _, text in sorted(of))}\n" for name, of in slow[:most]] + rest)


def machines(columns):
    """A row for each CPU: when its columns were measured, the largest share that other guests took, and the peers' versions."""
    rows = []
    for cpu in dict.fromkeys(c.report["machine"]["cpu"] for c in columns):
        of = [c.report for c in columns if c.report["machine"]["cpu"] == cpu]
        m, dates = of[0]["machine"], sorted({r["when"][:10] for r in of})
        rows.append([cpu, str(m["cpus"]), "AVX-512" if m["avx512"] else "AVX2", " to ".join(dict.fromkeys([dates[0], dates[-1]])),
                     f"{max(r['load']['steal'] for r in of):.1%}", ", ".join(dict.fromkeys(v for r in of for v in r["versions"].values()))])
    return table(["machine", "CPUs", "vectors", "date", "taken by other guests", "peers"], rows) if rows else ""


def first_answer(columns):
    """ms from the command to the first answer, cold and warm, and the ratio of the fastest peer's to the warm one."""
    body = []
    for name, rows in rows_of(columns):
        cells = [name]
        for row in rows:
            times = row["runtimes"] if row else {}
            cells += [", ".join(ms(times[n]["min_ms"]) if n in times else "-" for n in ("kiln cold", "kiln warm")),
                      f"{ratio_text(row['ratio'])} {fastest(row, 'first')}" if row and "ratio" in row else "-"]
        body.append(cells)
    return table(["network", *(h for title in titles(columns) for h in (f"{title}: cold, warm ms", "ratio"))], body) if body else ""


def by_report(reports, schema, key, cell, order, most):
    """One table of all reports of a schema: a column for each report, a row for each value of `key`, for `most` of them by `order`."""
    of = sorted((r for r in reports if r["schema"] == schema), key=lambda r: r["when"])
    rank = collections.defaultdict(float)
    for row in (row for r in of for row in r["rows"]):
        rank[row[key]] = max(rank[row[key]], order(row))
    names = sorted(rank, key=rank.get, reverse=True)
    found = [{row[key]: cell(row, r) for row in r["rows"]} for r in of]
    heads = [f"{short_cpu(r)}{', ' * bool(r.get('target'))}{r.get('target', '')}, commit {build_name(r['kiln'])}" for r in of]
    return table([key, *heads], [[name, *(cells.get(name, "-") for cells in found)] for name in names[:most]]) if of else ""


def regret(reports):
    """Of all kernels, and of the templates whose 90th percentile is highest."""
    return by_report(reports, "kiln.regret/1", "template", lambda row, _: f"{row['median']:.2f}, {row['p90']:.2f}, {row['worst']:.2f} of {row['kernels']}",
                     lambda row: float("inf") if row["template"] == "all" else row["p90"], most=6)


def ablation(reports):
    """The lowering passes that earn most of all kernels."""
    return by_report(reports, "kiln.ablation/1", "pass", lambda row, r: f"{row['geomean']:.3f} of {row['graphs']}, {row['of_all']:.3f} of {r['graphs']}, "
                     f"{row['most']:.2f} ({row['most_graph']})", lambda row: row["of_all"], most=5)


def old_against_new(reports, most=4):
    """A line for each of the newest files of bench/compare."""
    body = []
    for r in sorted((r for r in reports if r["schema"] == "kiln.compare/1"), key=lambda r: r["when"], reverse=True)[:most]:
        mean = r["geomean"]["all"]
        extra = "".join(f", {side} with `{r[side + '_args']}`" for side in ("old", "new") if r[side + "_args"])
        kinds = ", ".join(sorted({row["dtype"] for row in r["rows"]}))
        body.append([r["when"][:10], f"{build_name(r['old'])}, {build_name(r['new'])}{extra}", r["mode"], f"{count(mean['rows'], 'row')}, {kinds}",
                     short_cpu(r), str(r["threads"]), f"{mean['min']:.3f} ({mean['median']:.3f})", f"{mean['low']:.2f} to {mean['high']:.2f}"])
    return table(["date", "old, new", "mode", "rows", "CPU", "threads", "old / new", "rounds"], body) if body else ""


def headline(kernels, networks, first):
    """The figures of README.md."""
    def sentence(columns, what):
        return "; ".join(f"{ratio_text(mean_of([r['ratio'] for r in c.report['rows'] if 'ratio' in r])).replace('*', '')} with {title}"
                         for title, c in zip(titles(columns), columns))

    told = []
    for columns, what, text in ((kernels, "kernels", "kernels, fastest peer / Kiln"), (networks, "networks", "whole networks, fastest peer / Kiln"),
                                (first, "first", "networks from the command to the first answer with a full cache, fastest peer / Kiln")):
        if columns:
            told.append(f"- {len(columns[0].report['rows'])} {text}: {sentence(columns, what)}\n")
    if not told:
        return ""
    with_peers = dict.fromkeys(peers.PEERS[name][2] for c in kernels + networks + first for name in c.report["versions"])
    return f"Geometric means of minima (of medians), above 1: Kiln is faster. Peers: {', '.join(with_peers)}.\n" + "".join(told)
