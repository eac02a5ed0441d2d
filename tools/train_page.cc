// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/html.h"
#include "tools/report.h"
#include "tools/train_history.h"

namespace kiln {
namespace {

// The picture, in its own units, and the room for numbers at its left and foot.
constexpr double kWidth = 1000, kHeight = 420, kLeft = 70, kFoot = 30, kTop = 12;

class Curve {
 public:
  explicit Curve(const TrainHistory& history) {
    for (const TrainHistory::Point& point : history.points)
      Add(trained_, static_cast<double>(point.step), point.loss);
    const auto epochs = static_cast<double>(std::max<size_t>(history.epochs.size(), 1));
    const double last = trained_.empty() ? epochs : trained_.back().x;
    for (const TrainHistory::Epoch& epoch : history.epochs) {
      if (epoch.eval_loss)
        Add(evaluated_, static_cast<double>(epoch.epoch) / epochs * last, *epoch.eval_loss);
    }
  }

  std::string Svg() const {
    std::string svg = absl::StrFormat(
        "<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"loss by step\">\n", kWidth, kHeight);
    for (int k = 0; k <= 4; ++k) {
      const double y = lowest_ + (highest_ - lowest_) * k / 4;
      absl::StrAppendFormat(&svg,
                            "<line class=\"axis\" x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\" "
                            "opacity=\"0.4\"/><text x=\"4\" y=\"%.1f\">%s</text>\n",
                            kLeft, kWidth, Y(y), Y(y), Y(y) + 4, Short(y));
    }
    absl::StrAppendFormat(&svg, "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">step %s</text>\n",
                          kWidth, kHeight - 6, absl::StrCat(static_cast<int64_t>(last_)));
    absl::StrAppend(&svg, Line(trained_, "stroke=\"currentColor\""),
                    Line(evaluated_, "class=\"bound\""), "</svg>\n");
    return svg;
  }
  bool evaluated() const { return !evaluated_.empty(); }

 private:
  struct At {
    double x = 0, y = 0;
  };

  void Add(std::vector<At>& line, double x, double y) {
    if (!std::isfinite(y)) return;
    if (trained_.empty() && evaluated_.empty()) lowest_ = highest_ = y;
    lowest_ = std::min(lowest_, y);
    highest_ = std::max(highest_, y);
    last_ = std::max(last_, x);
    line.push_back({x, y});
  }
  double X(double x) const { return kLeft + (kWidth - kLeft) * x / last_; }
  double Y(double y) const {
    const double range = highest_ > lowest_ ? highest_ - lowest_ : 1;
    return kTop + (kHeight - kFoot - kTop) * (1 - (y - lowest_) / range);
  }
  std::string Line(const std::vector<At>& line, const char* style) const {
    std::string points;
    for (const At& at : line) absl::StrAppendFormat(&points, "%.1f,%.1f ", X(at.x), Y(at.y));
    return line.empty() ? ""
                        : absl::StrCat("<polyline fill=\"none\" stroke-width=\"1.5\" ", style,
                                       " points=\"", points, "\"/>\n");
  }

  std::vector<At> trained_, evaluated_;
  double lowest_ = 0, highest_ = 1, last_ = 1;
};

std::string Cell(const std::optional<double>& value, bool percent = false) {
  if (!value) return "<td></td>";
  return absl::StrCat("<td>", percent ? absl::StrFormat("%.2f %%", 100 * *value) : Short(*value),
                      "</td>");
}

}  // namespace

std::string TrainPage(const std::string& model, const TrainHistory& history) {
  const Curve curve(history);
  std::string page = absl::StrCat(
      HtmlHead(absl::StrCat("Training of ", model)), "<main>\n<h1>Training of ", HtmlEscaped(model),
      "</h1>\n<dl><dt>samples</dt><dd>", history.data.samples, "</dd><dt>batch</dt><dd>",
      history.data.batch, "</dd><dt>seed</dt><dd>", history.data.seed, "</dd><dt>epochs</dt><dd>",
      history.epochs.size(), "</dd></dl>\n<p>Loss by step",
      curve.evaluated() ? "; dashed: of the data for evaluation, after each epoch" : "", ".</p>\n",
      curve.Svg(), "<table>\n<tr><th>epoch</th><th>loss</th><th>evaluation</th><th>accuracy</th>",
      "<th>learning rate</th></tr>\n");
  for (const TrainHistory::Epoch& epoch : history.epochs)
    absl::StrAppend(&page, "<tr><td>", epoch.epoch, "</td>", Cell(epoch.loss),
                    Cell(epoch.eval_loss), Cell(epoch.accuracy, true), Cell(epoch.lr), "</tr>\n");
  return absl::StrCat(page, "</table>\n</main>\n</html>\n");
}

}  // namespace kiln
