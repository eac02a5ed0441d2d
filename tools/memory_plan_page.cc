// SPDX-License-Identifier: Apache-2.0
#include "tools/memory_plan_page.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "tools/html.h"
#include "tools/report.h"

namespace kiln {
namespace {

constexpr size_t kMostDrawn = 20000;
constexpr size_t kColours = 8;  // classes c0 ... c7
// The picture, in units of its own.
constexpr double kWidth = 1200, kHeight = 640;
constexpr double kLeft = 110, kRight = 1180, kTop = 30, kBottom = 590;
constexpr int kTicks = 4;
// A label needs so much room: for its line, and for each character.
constexpr double kLineHeight = 15, kCharacter = 7.5;
constexpr size_t kLeastLabel = 3;

// Shows the title of what is under the pointer, or of what the keys move to.
constexpr char kScript[] = R"(<script>
const picture = document.querySelector("svg"), said = document.querySelector("output");
const all = [...picture.querySelectorAll("rect.i")];
let at = -1;
function show(n) {
  if (at >= 0) all[at].classList.remove("on");
  at = n;
  all[at].classList.add("on");
  said.textContent = all[at].firstElementChild.textContent;
}
picture.addEventListener("pointerover", e => { const n = all.indexOf(e.target); if (n >= 0) show(n); });
picture.addEventListener("keydown", e => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
  const to = e.key === "Home" ? 0 : e.key === "End" ? all.length - 1 : step ? at + step : NaN;
  if (all.length === 0 || Number.isNaN(to)) return;
  e.preventDefault();
  show(Math.max(0, Math.min(all.length - 1, to)));
});
picture.addEventListener("focus", () => { if (at < 0 && all.length > 0) show(0); });
</script>
)";

class Writer {
 public:
  explicit Writer(const MemoryPlanPage& page) : page_(page), order_(page.intervals.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    const auto& all = page.intervals;
    if (order_.size() > kMostDrawn) {
      std::stable_sort(order_.begin(), order_.end(),
                       [&](size_t a, size_t b) { return all[a].size > all[b].size; });
      order_.resize(kMostDrawn);
    }
    // As the keys go through them: by time, then upwards.
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return std::pair(all[a].lower, all[a].offset) < std::pair(all[b].lower, all[b].offset);
    });
    for (const PlannedInterval& i : all) {
      begin_ = &i == all.data() ? i.lower : std::min(begin_, i.lower);
      end_ = &i == all.data() ? i.upper : std::max(end_, i.upper);
    }
  }

  std::string Figure() {
    out_ += "<dl>\n";
    Fact("Peak", page_.peak);
    Fact("Lower bound, most bytes alive at once", page_.lower_bound);
    Fact("Sum, without sharing", page_.sum);
    absl::StrAppend(&out_, "<div><dt>Intervals</dt><dd>", page_.intervals.size(),
                    "</dd></div>\n</dl>\n");
    if (order_.size() < page_.intervals.size())
      absl::StrAppend(&out_, "<p>The ", order_.size(), " largest are shown.</p>\n");
    Picture();
    absl::StrAppend(&out_,
                    "<output aria-live=\"polite\">Point at a rectangle, or focus the picture "
                    "and use the arrow keys.</output>\n");
    List();
    return std::move(out_);
  }

 private:
  void Fact(absl::string_view what, int64_t bytes) {
    absl::StrAppend(&out_, "<div><dt>", what, "</dt><dd>", Bytes(bytes), " (", bytes,
                    " bytes)</dd></div>\n");
  }

  double X(int64_t time) const {
    const double from = static_cast<double>(begin_), span = static_cast<double>(end_) - from;
    return kLeft + (kRight - kLeft) * (static_cast<double>(time) - from) / std::max(span, 1.0);
  }
  double Y(int64_t bytes) const {
    const double peak = static_cast<double>(std::max<int64_t>(page_.peak, 1));
    return kBottom - (kBottom - kTop) * std::min(1.0, static_cast<double>(bytes) / peak);
  }

  std::string Step(int64_t step) const {
    if (step < 0 || step >= static_cast<int64_t>(page_.steps.size())) return absl::StrCat(step);
    return absl::StrCat(step, " (", HtmlEscaped(page_.steps[static_cast<size_t>(step)]), ")");
  }

  void Picture() {
    absl::StrAppendFormat(
        &out_,
        "<svg viewBox=\"0 0 %g %g\" tabindex=\"0\" role=\"img\" aria-label=\"Steps "
        "from left to right, bytes upwards; the table below has the same\">\n",
        kWidth, kHeight);
    for (size_t k = 0; k < order_.size(); ++k) Rectangle(page_.intervals[order_[k]], k);
    Axes();
    absl::StrAppend(&out_, "</svg>\n");
  }

  void Rectangle(const PlannedInterval& i, size_t number) {
    const double x = X(i.lower), y = Y(i.offset + i.size);
    const double width = X(i.upper) - x, height = Y(i.offset) - y;
    absl::StrAppendFormat(
        &out_, "<rect class=\"i c%d\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"><title>",
        number % kColours, x, y, width, height);
    absl::StrAppend(&out_, HtmlEscaped(i.name), ": ", Bytes(i.size), " (", i.size, " bytes) at ",
                    i.offset, ", from step ", Step(i.lower), " to before step ", Step(i.upper),
                    "</title></rect>\n");
    const auto room = static_cast<size_t>(std::max(0.0, width - 6) / kCharacter);
    const bool plain =
        std::all_of(i.name.begin(), i.name.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
    if (height < kLineHeight || room < kLeastLabel || !plain) return;
    absl::StrAppendFormat(&out_, "<text class=\"label\" x=\"%.2f\" y=\"%.2f\">%s</text>\n", x + 3,
                          y + kLineHeight - 3, HtmlEscaped(i.name.substr(0, room)));
  }

  void Axes() {
    const auto line = [this](const char* name, double x1, double y1, double x2, double y2) {
      absl::StrAppendFormat(
          &out_, "<line class=\"%s\" x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"/>\n", name, x1,
          y1, x2, y2);
    };
    line("axis", kLeft, kBottom, kRight, kBottom);
    line("axis", kLeft, kTop, kLeft, kBottom);
    for (int k = 0; k <= kTicks; ++k) {
      const int64_t bytes = page_.peak / kTicks * k + page_.peak % kTicks * k / kTicks;
      line("axis", kLeft - 5, Y(bytes), kLeft, Y(bytes));
      absl::StrAppendFormat(
          &out_, "<text class=\"tick\" x=\"%.2f\" y=\"%.2f\" text-anchor=\"end\">%s</text>\n",
          kLeft - 9, Y(bytes) + 4, Bytes(bytes));
      const auto time = static_cast<int64_t>(
          static_cast<double>(begin_) +
          (static_cast<double>(end_) - static_cast<double>(begin_)) * k / (kTicks + 1));
      line("axis", X(time), kBottom, X(time), kBottom + 5);
      absl::StrAppendFormat(&out_, "<text class=\"tick\" x=\"%.2f\" y=\"%.2f\">%s</text>\n",
                            X(time), kBottom + 20, absl::StrCat(k == 0 ? "step " : "", time));
    }
    line("bound", kLeft, Y(page_.lower_bound), kRight, Y(page_.lower_bound));
    absl::StrAppendFormat(
        &out_,
        "<text class=\"bound\" x=\"%.2f\" y=\"%.2f\" text-anchor=\"end\">lower bound %s</text>\n",
        kRight, Y(page_.lower_bound) - 6, Bytes(page_.lower_bound));
  }

  void List() {
    absl::StrAppend(&out_,
                    "<details>\n<summary>All of them</summary>\n<table>\n<tr><th>Name</th>"
                    "<th>Bytes</th><th>Offset</th><th>From step</th><th>To before</th></tr>\n");
    for (const size_t k : order_) {
      const PlannedInterval& i = page_.intervals[k];
      absl::StrAppend(&out_, "<tr><td>", HtmlEscaped(i.name), "</td><td>", i.size, "</td><td>",
                      i.offset, "</td><td>", Step(i.lower), "</td><td>", Step(i.upper),
                      "</td></tr>\n");
    }
    absl::StrAppend(&out_, "</table>\n</details>\n");
  }

  const MemoryPlanPage& page_;
  std::vector<size_t> order_;    // of the intervals that are shown
  int64_t begin_ = 0, end_ = 1;  // of the time
  std::string out_;
};

}  // namespace

std::string MemoryPlanFigure(const MemoryPlanPage& page) { return Writer(page).Figure(); }

std::string MemoryPlanHtml(const MemoryPlanPage& page) {
  const std::string title = HtmlEscaped(page.title);
  return absl::StrCat(HtmlHead(page.title), "<h1>", title, "</h1>\n", MemoryPlanFigure(page),
                      kScript, "</html>\n");
}

}  // namespace kiln
