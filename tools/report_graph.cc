// SPDX-License-Identifier: Apache-2.0
#include "tools/report_graph.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/html.h"

namespace kiln {
namespace {

// In units of the picture's own.
constexpr double kBoxWidth = 252, kGapX = 26, kGapY = 44, kLine = 16, kPad = 8;
// What is shown first: the top, at a size that can be read.
constexpr double kLeastView = 1200, kMostView = 2000, kViewRatio = 0.5;
constexpr size_t kMostLines = 6, kMostCharacters = 32;
constexpr int kRounds = 4;  // of ordering the boxes of a row

std::string Cut(const std::string& text) {
  return text.size() <= kMostCharacters ? text
                                        : absl::StrCat(text.substr(0, kMostCharacters - 3), "...");
}

int ColourOf(const std::string& kind) {
  return kind == "kernel" ? 2 : kind == "library" ? 0 : kind == "host" ? 5 : 4;
}

struct Place {
  size_t row = 0;
  double x = 0, y = 0, height = 0;
};

std::vector<std::string> LinesOf(const GroupBox& box) {
  std::vector<std::string> lines;
  for (size_t k = 0; k < box.nodes.size(); ++k) {
    if (k == kMostLines && box.nodes.size() > kMostLines + 1) {
      lines.push_back(absl::StrCat("and ", box.nodes.size() - k, " more"));
      break;
    }
    lines.push_back(Cut(box.nodes[k]));
  }
  if (!box.costs.empty()) lines.push_back(Cut(box.costs));
  return lines;
}

class BoxLayout {
 public:
  explicit BoxLayout(const GroupPicture& picture)
      : picture_(picture), places_(picture.boxes.size()) {
    for (size_t k = 0; k < places_.size(); ++k) {
      places_[k].height =
          kLine * static_cast<double>(LinesOf(picture.boxes[k]).size() + 1) + 2 * kPad;
      for (const auto& [from, to] : picture.edges) {
        if (to == k) places_[k].row = std::max(places_[k].row, places_[from].row + 1);
      }
    }
    for (size_t k = 0; k < places_.size(); ++k) rows_[places_[k].row].push_back(k);
    size_t widest = 1;
    for (const auto& [row, boxes] : rows_) widest = std::max(widest, boxes.size());
    width_ = static_cast<double>(widest) * (kBoxWidth + kGapX) + kGapX;
    for (int round = 0; round < kRounds; ++round) PlaceRows();
  }

  const Place& at(size_t box) const { return places_[box]; }
  double width() const { return width_; }
  double height() const { return height_; }

 private:
  // Each row in the order of what its boxes take, which is where it stood in the last round.
  void PlaceRows() {
    height_ = kGapY;
    for (auto& [row, boxes] : rows_) {
      std::map<size_t, double> wanted;
      for (const size_t box : boxes) wanted[box] = WantedX(box);
      std::stable_sort(boxes.begin(), boxes.end(),
                       [&](size_t a, size_t b) { return wanted[a] < wanted[b]; });
      const double all = static_cast<double>(boxes.size()) * (kBoxWidth + kGapX) - kGapX;
      double x = (width_ - all) / 2, tallest = 0;
      for (const size_t box : boxes) {
        places_[box].x = x;
        places_[box].y = height_;
        tallest = std::max(tallest, places_[box].height);
        x += kBoxWidth + kGapX;
      }
      height_ += tallest + kGapY;
    }
  }

  double WantedX(size_t box) const {
    double sum = 0;
    int count = 0;
    for (const auto& [from, to] : picture_.edges) {
      if (to != box) continue;
      sum += places_[from].x;
      ++count;
    }
    return count > 0 ? sum / count : width_ / 2;
  }

  const GroupPicture& picture_;
  std::vector<Place> places_;
  std::map<size_t, std::vector<size_t>> rows_;
  double width_ = 0, height_ = 0;
};

void AppendBox(const GroupBox& box, size_t number, const Place& place, std::string& out) {
  absl::StrAppendFormat(&out,
                        "<g class=\"b\"><title>group %d, %s: %s; %s</title><rect class=\"i c%d\" "
                        "x=\"%.1f\" y=\"%.1f\" width=\"%g\" height=\"%.1f\" rx=\"6\"/>\n",
                        number, box.kind, HtmlEscaped(absl::StrJoin(box.nodes, ", ")),
                        HtmlEscaped(box.costs), ColourOf(box.kind), place.x, place.y, kBoxWidth,
                        place.height);
  double y = place.y + kPad + kLine - 4;
  absl::StrAppendFormat(&out, "<text class=\"head\" x=\"%.1f\" y=\"%.1f\">%d %s</text>\n",
                        place.x + kPad, y, number, box.kind);
  for (const std::string& line : LinesOf(box)) {
    y += kLine;
    absl::StrAppendFormat(&out, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                          place.x + kPad, y, HtmlEscaped(line));
  }
  out += "</g>\n";
}

}  // namespace

std::string GroupSvg(const GroupPicture& picture) {
  const BoxLayout layout(picture);
  const double width = std::min(std::max(layout.width(), kLeastView), kMostView);
  const double height = std::min(layout.height(), width * kViewRatio);
  std::string out = absl::StrFormat(
      "<svg class=\"zoom\" style=\"aspect-ratio: %.0f / %.0f\" viewBox=\"%.0f 0 %.0f %.0f\" "
      "data-whole=\"0 0 %.0f %.0f\" tabindex=\"0\" role=\"img\" aria-label=\"Groups from top to "
      "bottom in the order in which they run\">\n",
      width, height, (layout.width() - width) / 2, width, height, layout.width(), layout.height());
  for (const auto& [from, to] : picture.edges) {
    const Place &a = layout.at(from), &b = layout.at(to);
    const double x1 = a.x + kBoxWidth / 2, y1 = a.y + a.height, x2 = b.x + kBoxWidth / 2;
    const double bend = std::max(20.0, (b.y - y1) / 2);
    absl::StrAppendFormat(
        &out, "<path class=\"edge\" d=\"M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f\"/>\n", x1, y1,
        x1, y1 + bend, x2, b.y - bend, x2, b.y);
  }
  for (size_t k = 0; k < picture.boxes.size(); ++k)
    AppendBox(picture.boxes[k], k, layout.at(k), out);
  return out + "</svg>\n";
}

}  // namespace kiln
