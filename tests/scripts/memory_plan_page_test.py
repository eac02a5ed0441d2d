# SPDX-License-Identifier: Apache-2.0
"""The page of `kiln plan --page` in a real browser, light and dark, wide and narrow: rectangles for all intervals, within the axes and the
viewport, text that can be read, names that stay text. Usage: memory_plan_page_test.py KILN; exit 77 where there is no Chromium."""
import base64
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
HOSTILE = "</title><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">&amp;\x07'"
# Runs in the page and leaves what it measured in an element.
MEASURE = """<script>
const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
const style = (s, what) => getComputedStyle(document.querySelector(s))[what];
const press = key => picture.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
picture.focus();
if (!document.hasFocus()) picture.dispatchEvent(new FocusEvent("focus"));  // a window that does not have it may get no event
const said_first = said.textContent;
press("ArrowRight");
const said_second = said.textContent;
press("End");
const measured = {
  title: document.title, scripts: document.scripts.length, images: document.images.length,
  rectangles: all.map(box), titles: all.map(r => r.firstElementChild.textContent),
  axes: [...document.querySelectorAll("line.axis")].slice(0, 2).map(box), svg: box(picture),
  viewport: document.documentElement.clientWidth, scrolls: document.documentElement.scrollWidth,
  paper: style("body", "backgroundColor"), ink: style("body", "color"), faint: style("dt", "color"),
  label: style("svg text", "fill"), bound: style("svg text.bound", "fill"),
  fills: [...new Set(all.map(r => getComputedStyle(r).fill))],
  focused: document.activeElement === picture, said_first, said_second, said_last: said.textContent,
};
</script>
"""
LEAVE = """<script>
const left = document.createElement("pre");
left.id = "measured";
left.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(measured))));
document.body.append(left);
</script>
"""


def luminance(colour):
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def run_in(folder, page, script, dark, width):
    """What `script` calls measured, of the page in a window of that width."""
    copy = folder / "measured.html"
    copy.write_text(page.read_text().replace("</html>", script + LEAVE + "</html>"))
    done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
                           f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--window-size={width},900", "--dump-dom",
                           copy.as_uri()], capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="measured">([^<]*)</pre>', done.stdout)
    if not found:
        sys.exit(f"the page has not run: {done.stderr[-2000:]}")
    return json.loads(base64.b64decode(found[1]))


def faults(m, count, dark, width):
    bad = [f"{name} is {m[name]}" for name, expected in
           (("title", "Memory plan of "), ("said_first", ": "), ("said_second", ": ")) if expected not in m[name]]
    if m["images"] or m["title"] == "taken" or m["scripts"] != 2:
        bad.append(f"a name became part of the page: {m['scripts']} scripts, {m['images']} images, title {m['title']}")
    if len(m["rectangles"]) != count:
        bad.append(f"{len(m['rectangles'])} rectangles for {count} intervals")
    if m["scrolls"] > m["viewport"]:
        bad.append(f"the page is {m['scrolls']} wide in a viewport of {m['viewport']}")
    (left, _, right, bottom), (_, top, _, _) = m["axes"]
    for rectangle in m["rectangles"]:
        inside = left - 1 <= rectangle[0] < rectangle[2] <= right + 1 and top - 1 <= rectangle[1] < rectangle[3] <= bottom + 1
        if not inside or not (0 <= rectangle[0] and rectangle[2] <= m["viewport"]):
            bad.append(f"a rectangle lies at {rectangle}; the axes are {left} to {right}, {top} to {bottom}")
    for one, other in ((a, b) for i, a in enumerate(m["rectangles"]) for b in m["rectangles"][:i]):
        if min(one[2], other[2]) - max(one[0], other[0]) > 0.1 and min(one[3], other[3]) - max(one[1], other[1]) > 0.1:
            bad.append(f"rectangles {one} and {other} overlap")
    for text, ground in [("ink", m["paper"]), ("faint", m["paper"]), ("label", m["paper"]), ("bound", m["paper"]),
                         *(("label", fill) for fill in m["fills"])]:
        if contrast(m[text], ground) < 4.5:
            bad.append(f"{text} {m[text]} on {ground} has contrast {contrast(m[text], ground):.2f}")
    if (luminance(m["paper"]) < 0.5) != dark:
        bad.append(f"the paper is {m['paper']}")
    if not m["focused"] or m["said_first"] == m["said_second"] or m["said_last"] != m["titles"][-1]:
        bad.append(f"keys show {m['said_first']!r}, {m['said_second']!r}, {m['said_last']!r}")
    return [f"{'dark' if dark else 'light'}, {width} wide: {fault}" for fault in bad[:10]]


def main():
    if BROWSER is None:
        print("no chromium: the page was not looked at")
        sys.exit(77)
    bad = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        hostile = folder / "hostile.csv"
        hostile.write_text(f"id,lower,upper,size\n{HOSTILE},0,3,4096\nb,1,2,100\nc,3,4,5\n")
        for file, count in ((ROOT / "tests/data/minimalloc/C.1048576.csv", 203), (hostile, 3)):
            page = folder / "page.html"
            subprocess.run([sys.argv[1], "plan", "-q", file, "--capacity", "1M", "--page", page], check=True, stdout=subprocess.DEVNULL)
            for dark in (False, True):
                for width in (1280, 700):
                    m = run_in(folder, page, MEASURE, dark, width)
                    bad += faults(m, count, dark, width)
                    if file == hostile and not any(HOSTILE.replace("\x07", "\\x07") in title for title in m["titles"]):
                        bad.append(f"the hostile name is not shown as it is: {m['titles']}")
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
