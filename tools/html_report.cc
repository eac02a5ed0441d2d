// SPDX-License-Identifier: Apache-2.0
#include "tools/html_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/html.h"
#include "tools/report.h"

namespace kiln {
namespace {

// The timeline, in units of its own.
constexpr double kWidth = 1200, kLeft = 20, kRight = 1180, kTop = 20, kBar = 60;
constexpr int kTicks = 6;
constexpr double kCharacter = 7.5;
constexpr size_t kLeastLabel = 3;

constexpr char kStyle[] = R"(<style>
section { margin-block: 2rem; } h2 { font-size: 1.1rem; }
svg.zoom { border: 1px solid var(--line); max-height: 80vh; cursor: grab; touch-action: none; }
.edge { fill: none; stroke: var(--line); stroke-width: 1.5; } svg text.head { font-weight: 600; pointer-events: none; }
.key { display: inline-block; padding: 0 0.6rem; margin-right: 0.6rem; } .key.c0 { background: hsl(210 60% var(--light)); } .key.c2 { background: hsl(130 40% var(--light)); } .key.c4 { background: hsl(270 50% var(--light)); } .key.c5 { background: hsl(55 60% var(--light)); }
.wide { overflow-x: auto; } pre { margin: 0.3rem 0; font: 13px/1.35 ui-monospace, monospace; } td { vertical-align: top; } td.text, th.text { text-align: left; } button { font: inherit; }
</style>
)";

// Every picture: the title of what is under the pointer, keys, and zoom by the viewBox.
constexpr char kScript[] = R"(<script>
for (const section of document.querySelectorAll("section")) {
  const picture = section.querySelector("svg"), said = section.querySelector("output");
  if (!picture || !said) continue;
  const all = [...picture.querySelectorAll("rect.i")];
  const title = rect => (rect.querySelector("title") ?? rect.parentNode.querySelector("title")).textContent;
  let at = -1;
  const show = n => {
    if (at >= 0) all[at].classList.remove("on");
    at = n;
    all[at].classList.add("on");
    said.textContent = title(all[at]);
  };
  const first = (picture.dataset.whole ?? picture.getAttribute("viewBox")).split(" ").map(Number), most = Math.max(first[2], first[3]) * 2;
  const view = (x, y, w, h) => picture.setAttribute("viewBox", [x, y, w, h].join(" "));
  const zoom = (by, x, y) => {
    const v = picture.viewBox.baseVal, w = Math.min(most, Math.max(first[2] / 64, v.width / by)), f = w / v.width;
    view(x - (x - v.x) * f, y - (y - v.y) * f, w, v.height * f);
  };
  const point = e => new DOMPoint(e.clientX, e.clientY).matrixTransform(picture.getScreenCTM().inverse());
  picture.addEventListener("pointerover", e => { const n = all.indexOf(e.target); if (n >= 0) show(n); });
  picture.addEventListener("wheel", e => {
    if (!e.ctrlKey && document.activeElement !== picture) return;
    e.preventDefault();
    const p = point(e);
    zoom(e.deltaY < 0 ? 1.25 : 0.8, p.x, p.y);
  }, { passive: false });
  let from = null;
  picture.addEventListener("pointerdown", e => { from = point(e); picture.setPointerCapture(e.pointerId); });
  picture.addEventListener("pointerup", () => { from = null; });
  picture.addEventListener("pointermove", e => {
    if (!from) return;
    const v = picture.viewBox.baseVal, p = point(e);
    view(v.x + from.x - p.x, v.y + from.y - p.y, v.width, v.height);
  });
  picture.addEventListener("keydown", e => {
    const v = picture.viewBox.baseVal;
    if (e.key === "+" || e.key === "-") return zoom(e.key === "+" ? 1.25 : 0.8, v.x + v.width / 2, v.y + v.height / 2);
    if (e.key === "0") return view(...first);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    if (!step || all.length === 0) return;
    e.preventDefault();
    show(Math.max(0, Math.min(all.length - 1, at + step)));
  });
}
</script>
)";

constexpr char kHint[] =
    "<output aria-live=\"polite\">Point at a box, or click the picture: then the wheel and + and - "
    "zoom, 0 shows all, arrow keys move on, and dragging moves the picture.</output>\n";

int ColourOf(const ThunkTime& time) {
  return time.kind == "kernel" ? 2 : time.kind == "library" ? 0 : time.kind == "host" ? 5 : 4;
}

std::string Timeline(const std::vector<ThunkTime>& launches) {
  double sum = 0;
  for (const ThunkTime& time : launches) sum += time.ms;
  const auto x = [&](double ms) { return kLeft + (kRight - kLeft) * ms / std::max(sum, 1e-9); };
  std::string out = absl::StrFormat(
      "<svg class=\"zoom\" viewBox=\"0 0 %g %g\" tabindex=\"0\" role=\"img\" aria-label=\"Launches "
      "from left to right, as wide as they take time\">\n",
      kWidth, kTop + kBar + 40);
  double at = 0;
  for (const ThunkTime& time : launches) {
    const double width = x(at + time.ms) - x(at);
    absl::StrAppendFormat(&out,
                          "<rect class=\"i c%d\" x=\"%.2f\" y=\"%g\" width=\"%.2f\" height=\"%g\">"
                          "<title>%s %s: %s us, %s, %.1f %% of the run%s</title></rect>\n",
                          ColourOf(time), x(at), kTop, width, kBar, time.kind,
                          HtmlEscaped(time.name), Short(time.ms * 1000), Bytes(time.bytes),
                          100 * time.ms / std::max(sum, 1e-9), time.vm ? ", on the VM" : "");
    const auto room = static_cast<size_t>(std::max(0.0, width - 6) / kCharacter);
    if (room >= kLeastLabel) {
      absl::StrAppendFormat(&out, "<text class=\"label\" x=\"%.2f\" y=\"%g\">%s</text>\n",
                            x(at) + 3, kTop + kBar / 2 + 4, HtmlEscaped(time.name.substr(0, room)));
    }
    at += time.ms;
  }
  for (int k = 0; k < kTicks; ++k) {
    const double ms = sum * k / kTicks;
    absl::StrAppendFormat(&out,
                          "<line class=\"axis\" x1=\"%.2f\" y1=\"%g\" x2=\"%.2f\" y2=\"%g\"/>"
                          "<text class=\"tick\" x=\"%.2f\" y=\"%g\">%s us</text>\n",
                          x(ms), kTop + kBar, x(ms), kTop + kBar + 6, x(ms), kTop + kBar + 22,
                          Short(ms * 1000));
  }
  return out + "</svg>\n";
}

std::string KernelTable(const std::vector<ReportPage::Kernel>& kernels) {
  std::string out =
      "<div class=\"wide\"><table>\n<tr><th>Group</th><th>Predicted us</th><th>Measured us</th>"
      "<th class=\"text\">Schedule</th></tr>\n";
  for (const ReportPage::Kernel& kernel : kernels) {
    absl::StrAppend(&out, "<tr><td>", kernel.group, "</td><td>", Short(kernel.predicted_us),
                    "</td><td>", kernel.measured_us ? Short(*kernel.measured_us) : "-",
                    "</td><td class=\"text\"><details><summary>", HtmlEscaped(kernel.nodes),
                    "</summary><pre>", HtmlEscaped(kernel.schedule), "</pre>");
    // Line by line: what is escaped is cut where it is long.
    std::string text;
    size_t begin = 0;
    for (size_t end; (end = kernel.text.find('\n', begin)) != std::string::npos; begin = end + 1)
      absl::StrAppend(&text, HtmlEscaped(kernel.text.substr(begin, end - begin)), "\n");
    absl::StrAppend(&out, "<pre>", text, "</pre></details></td></tr>\n");
  }
  return out + "</table></div>\n";
}

}  // namespace

std::string ReportHtml(const ReportPage& page) {
  std::string out =
      absl::StrCat(HtmlHead(page.title), kStyle, "<h1>", HtmlEscaped(page.title), "</h1>\n<dl>\n");
  for (const auto& [what, how_much] : page.facts) {
    absl::StrAppend(&out, "<div><dt>", HtmlEscaped(what), "</dt><dd>", HtmlEscaped(how_much),
                    "</dd></div>\n");
  }
  absl::StrAppend(&out, "</dl>\n<section id=\"groups\">\n<h2>Groups</h2>\n<p>",
                  "<span class=\"key c2\">kernel</span><span class=\"key c0\">library</span>",
                  "<span class=\"key c4\">view</span><span class=\"key c5\">host</span></p>\n",
                  GroupSvg(page.groups), kHint, "</section>\n");
  absl::StrAppend(&out, "<section id=\"timeline\">\n<h2>One run</h2>\n", Timeline(page.launches),
                  kHint, "</section>\n<section id=\"memory\">\n<h2>Memory plan</h2>\n",
                  page.memory ? MemoryPlanFigure(*page.memory)
                              : "<p>The model is several programs, each with a plan of its own; "
                                "<code>kiln bench --memory-plan</code> draws the largest.</p>\n",
                  "</section>\n<section id=\"kernels\">\n<h2>Kernels</h2>\n",
                  KernelTable(page.kernels), "</section>\n", kScript, "</html>\n");
  return out;
}

}  // namespace kiln
