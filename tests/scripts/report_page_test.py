# SPDX-License-Identifier: Apache-2.0
"""The page of `kiln report` in a real browser, light and dark, wide and narrow: a box for each group, below those that it takes from, a bar for
each launch, text that can be read, zoom, names that stay text. Usage: report_page_test.py KILN; exit 77 where there is no Chromium."""
import json
import pathlib
import subprocess
import sys
import tempfile

from memory_plan_page_test import BROWSER, ROOT, contrast, luminance, run_in

HOSTILE = "</title><script>document.title='taken'</script><img src=x onerror=document.title='taken'>"
MEASURE = """<script>
const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
const style = e => getComputedStyle(e);
const section = id => document.getElementById(id);
const rects = id => [...section(id).querySelectorAll("rect.i")];
const groups = section("groups").querySelector("svg");
const press = key => groups.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const place = [...rects("groups").map(box)], bars = rects("timeline").map(box), intervals = rects("memory").length;
const width = () => groups.viewBox.baseVal.width;
const widths = [width()];
press("+"); widths.push(width());
press("0");
press("ArrowDown");
const said_first = section("groups").querySelector("output").textContent;
press("ArrowDown");
const measured = {
  title: document.title, scripts: document.scripts.length, images: document.images.length,
  boxes: place, bars, intervals, widths, said_first, whole: groups.dataset.whole, shown: groups.getAttribute("viewBox"), said_second: section("groups").querySelector("output").textContent,
  kernels: section("kernels").querySelectorAll("details").length, edges: groups.querySelectorAll("path.edge").length,
  texts: [...groups.querySelectorAll("g.b")].map(g => [box(g.querySelector("rect")), [...g.querySelectorAll("text")].map(box)]),
  viewport: document.documentElement.clientWidth, scrolls: document.documentElement.scrollWidth,
  paper: style(document.body).backgroundColor, ink: style(document.body).color,
  label: style(groups.querySelector("text")).fill, fills: [...new Set(rects("groups").map(r => style(r).fill))],
};
</script>
"""


def faults(m, expected, dark, width):
    bad = []
    if m["images"] or "Kiln's report of " not in m["title"] or m["scripts"] != 2:
        bad.append(f"a name became part of the page: {m['scripts']} scripts, {m['images']} images, title {m['title']}")
    for name, count in (("boxes", expected["groups"]), ("bars", expected["launches"])):
        if len(m[name]) != count:
            bad.append(f"{len(m[name])} {name}, expected {count}")
    if m["kernels"] != expected["kernels"] or m["intervals"] < 1 or m["edges"] < expected["groups"] - 1:
        bad.append(f"{m['kernels']} kernels, {m['intervals']} intervals, {m['edges']} edges")
    if m["scrolls"] > m["viewport"]:
        bad.append(f"the page is {m['scrolls']} wide in a viewport of {m['viewport']}")
    for one, other in ((a, b) for i, a in enumerate(m["boxes"]) for b in m["boxes"][:i]):
        if min(one[2], other[2]) - max(one[0], other[0]) > 0.1 and min(one[3], other[3]) - max(one[1], other[1]) > 0.1:
            bad.append(f"boxes {one} and {other} overlap")
    for outer, texts in m["texts"]:
        for text in texts:
            if text[0] < outer[0] - 1 or text[2] > outer[2] + 1 or text[1] < outer[1] - 1 or text[3] > outer[3] + 1:
                bad.append(f"text at {text} leaves its box at {outer}")
    if any(a[2] > b[0] + 0.2 for a, b in zip(m["bars"], m["bars"][1:])):
        bad.append("bars overlap")
    if not (m["widths"][1] < m["widths"][0] and m["whole"] == m["shown"]):
        bad.append(f"zoom gives widths {m['widths']}, and all is {m['shown']}")
    if m["said_first"] == m["said_second"] or "group 0" not in m["said_first"]:
        bad.append(f"keys show {m['said_first']!r}, {m['said_second']!r}")
    for text, ground in [("ink", m["paper"]), *(("label", fill) for fill in m["fills"])]:
        if contrast(m[text], ground) < 4.5:
            bad.append(f"{text} {m[text]} on {ground} has contrast {contrast(m[text], ground):.2f}")
    if (luminance(m["paper"]) < 0.5) != dark:
        bad.append(f"the paper is {m['paper']}")
    return [f"{'dark' if dark else 'light'}, {width} wide: {fault}" for fault in bad[:10]]


def main():
    if BROWSER is None:
        print("no chromium: the page was not looked at")
        sys.exit(77)
    bad = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        hostile = folder / "hostile.graph"
        hostile.write_text('graph g\ninput x : f32 [n, 32]\ninput w : f32 [32, 32]\ne = exp(x) "NAME"\nm = matmul(e, w)\n'
                           't = tanh(m)\nk = matmul(t, w)\ns = softmax(k) {axis = 1}\noutput s\n'.replace("NAME", HOSTILE))
        for model, flags in ((hostile, ["--dim", "n=9"]), (ROOT / "tests/data/models/tiny/bert_base/model.onnx", [])):
            page = folder / "page.html"
            told = subprocess.run([sys.argv[1], "report", "-q", "--json", model, "-o", page, "--cache-dir", folder / "cache", *flags],
                                  check=True, stdout=subprocess.PIPE)
            expected = json.loads(told.stdout)["results"]
            if any(mark in page.read_text() for mark in ("http://", "https://", "src=\"", "@import")):
                bad.append(f"{model}: the page names something to load")
            for dark in (False, True):
                for width in (1280, 700):
                    bad += faults(run_in(folder, page, MEASURE, dark, width), expected, dark, width)
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
