// SPDX-License-Identifier: Apache-2.0
#include "tools/html.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kiln {
namespace {

constexpr size_t kMostName = 200;

constexpr char kHead[] = R"(<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1a1a1a; --faint: #595959; --line: #8a8a8a; --bound: #b00020; --light: 82%; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181c; --ink: #f0f0f0; --faint: #b5b5b5; --line: #777777; --bound: #ff8a80; --light: 27%; }
}
body { margin: 1rem auto; max-width: 80rem; padding: 0 1rem; background: var(--paper); color: var(--ink); font: 16px/1.4 system-ui, sans-serif; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; }
dl { display: flex; flex-wrap: wrap; gap: 0.3rem 2rem; margin: 0; }
dt { color: var(--faint); } dd { margin: 0; font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg text.label { font: 12px ui-monospace, monospace; pointer-events: none; }
.axis { stroke: var(--line); } .bound { stroke: var(--bound); stroke-dasharray: 6 4; } svg text.bound { stroke: var(--paper); stroke-width: 4px; stroke-dasharray: none; paint-order: stroke; fill: var(--bound); }
rect.i { stroke: var(--paper); stroke-width: 0.7; }
rect.i.on, rect.i:hover { stroke: var(--ink); stroke-width: 2.5; }
.c0 { fill: hsl(210 60% var(--light)); } .c1 { fill: hsl(30 70% var(--light)); } .c2 { fill: hsl(130 40% var(--light)); } .c3 { fill: hsl(350 60% var(--light)); }
.c4 { fill: hsl(270 50% var(--light)); } .c5 { fill: hsl(55 60% var(--light)); } .c6 { fill: hsl(180 50% var(--light)); } .c7 { fill: hsl(310 40% var(--light)); }
svg:focus-visible, summary:focus-visible { outline: 3px solid var(--bound); }
output { display: block; min-height: 2.8em; overflow-wrap: anywhere; }
table { border-collapse: collapse; } th, td { text-align: right; padding: 0.1rem 0.8rem; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
@media (prefers-contrast: more) { :root { --faint: var(--ink); --line: var(--ink); } }
</style>
)";

}  // namespace

std::string HtmlEscaped(absl::string_view text) {
  const bool cut = text.size() > kMostName;
  std::string out;
  for (const char c : text.substr(0, kMostName)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          absl::StrAppendFormat(&out, "\\x%02X", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  return cut ? out + "..." : out;
}

std::string HtmlHead(absl::string_view title) {
  return absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\">\n", kHead, "<title>", HtmlEscaped(title),
                      "</title>\n");
}

}  // namespace kiln
