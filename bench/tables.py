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
            cells += [f"{kiln['min_ms']:.3g}" if kiln else "-", ratio]
        body.append(cells)
    blank = [""] if described else []
    names = list(dict.fromkeys(peer for c in columns for row in c.report["rows"] for peer, _ in rivals(row, what)))
    for title, of in [("**geomean**, fastest peer", lambda c: [r["ratio"] for r in c.report["rows"] if "ratio" in r]),
                      *((f"geomean, {peer}", lambda c, peer=peer: ratios_to(c, what, peer)) for peer in names)]:
        means = [f"{ratio_text(mean_of(ratios))} of {len(ratios)}" if (ratios := of(c)) else "-" for c in columns]
        body.append([title, *blank, *(cell for mean in means for cell in ("", mean))])
    return table(head, body)


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


def slow_rows(columns):
    """(what, columns) pairs: all rows with a ratio of minima below 1, lowest first."""
    found = [(row["ratio"]["min"], f"- {row['row']}, {title}: {ratio_text(row['ratio'])}, {fastest(row, what)}\n")
             for what, of in columns for title, c in zip(titles(of), of) for row in c.report["rows"] if row.get("ratio", {"min": 1})["min"] < 1]
    return "".join(text for _, text in sorted(found))


def machines(columns):
    """Where and when the columns were measured, and with which versions."""
    rows = []
    for c in columns:
        m, load = c.report["machine"], c.report["load"]
        rows.append([c.report["what"], m["cpu"], f"{c.threads} of {count(m['cpus'], 'CPU')}", "AVX-512" if m["avx512"] else "AVX2", c.report["when"][:10],
                     f"{load['steal']:.1%}", ", ".join(c.report["versions"].values())])
    return table(["table", "CPU", "threads", "vectors", "date", "taken by other guests", "peers"], rows) if rows else ""


def first_answer(columns):
    """ms from the command to the first answer, cold and warm."""
    if not columns:
        return ""
    names = list(dict.fromkeys(name for c in columns for row in c.report["rows"] for name in row["runtimes"]))
    called = [peers.PEERS[n][2] if n in peers.PEERS else n.replace("kiln", "Kiln,") for n in names]
    body = []
    for title, c in zip(titles(columns), columns):
        for row in c.report["rows"]:
            times = [f"{row['runtimes'][n]['min_ms']:.3g}" if n in row["runtimes"] else "-" for n in names]
            body.append([row["row"], title, *times, ratio_text(row["ratio"]) if "ratio" in row else "-"])
    return table(["network", "on", *(f"{name} ms" for name in called), "fastest peer / Kiln, warm"], body)


def provenance(report):
    return f"{report['machine']['cpu']}, commit {build_name(report['kiln'])}, {report['when'][:10]}"


def regret(reports):
    texts = []
    for r in (r for r in reports if r.get("schema") == "kiln.regret/1"):
        rows = [[f"**{row['template']}**" if row["template"] == "all" else row["template"], str(row["kernels"]),
                 *(f"{row[k]:.2f}" for k in ("median", "p90", "worst")), f"{row['worst_kernel']}: `{row['best'].split()[0]}`"] for row in r["rows"]]
        texts.append(f"{provenance(r)}{', ' * bool(r['target'])}{r['target']}, seed {r['seed']}:\n\n" +
                     table(["template chosen", "kernels", "median", "90th percentile", "worst", "worst kernel: template of the best"], rows))
    return "\n".join(texts)


def ablation(reports):
    texts = []
    for r in (r for r in reports if r.get("schema") == "kiln.ablation/1"):
        rows = [[row["pass"], str(row["lines"]), f"{row['graphs']} of {r['graphs']}", *(f"{row[k]:.3f}" for k in ("geomean", "of_all")),
                 f"{row['most']:.2f} ({row['most_graph']})"] for row in r["rows"]]
        texts.append(f"{provenance(r)}{', without ' * bool(r['without'])}{', '.join(r['without'])}:\n\n" +
                     table(["pass", "lines of code", "kernels changed", "geomean of these", "of all", "most"], rows))
    return "\n".join(texts)


def old_against_new(reports):
    """A line for each file of bench/compare, newest first."""
    body = []
    for r in sorted((r for r in reports if r["schema"] == "kiln.compare/1"), key=lambda r: r["when"], reverse=True):
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
