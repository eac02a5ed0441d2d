# SPDX-License-Identifier: Apache-2.0
# devices.json, cases.tsv, checks.tsv and times.tsv as a table, and as JSON in the form of kiln.peers/1 (bench/README.md).
BEGIN { FS = "\t" }
FILENAME ~ /devices.json/ { field(); next }
FILENAME ~ /cases.tsv/ { names[++cases] = $1; kind[$1] = $2; next }
FILENAME ~ /checks.tsv/ { check[$1] = $2; why[$1] = $3; if ($2 == "ok") equal++; next }
$2 == "begun" { next }
$2 == "error" { errors[$1] = errors[$1] (errors[$1] == "" ? "" : ", ") quoted($3) ": " quoted($4); next }
{ ms[$1, $2, ++count[$1, $2]] = $3; if ($2 == "kiln") bytes[$1] = $4; else error[$1, $2] = $4; runtimes[$2] = 1 }

function field(  pair) { # a line of pretty-printed JSON
  split($0, pair, /": /)
  gsub(/[ "]/, "", pair[1])
  gsub(/,$|^"|"$|",$/, "", pair[2])
  if (!(pair[1] in device)) device[pair[1]] = pair[2]
}
function quoted(text) { gsub(/[\\"]/, "\\\\&", text); return "\"" text "\"" }
function short(number) { return number == "" ? "-" : sprintf("%.3g", number) }
function least(row, who,  k, best) {
  for (k = 1; k <= count[row, who]; k++) if (k == 1 || ms[row, who, k] + 0 < best) best = ms[row, who, k] + 0
  return best
}
function median(row, who,  n, k, j, v, t) {
  n = count[row, who]
  for (k = 1; k <= n; k++) {
    v[k] = ms[row, who, k] + 0
    for (j = k; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
  }
  return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}
function agrees(row, who) { return error[row, who] <= (row ~ /bf16$/ ? 2e-2 : 1e-3) }
# The fastest peer with the same results; "" where there is none.
function rival(row,  who, found) {
  for (who in runtimes)
    if (who != "kiln" && count[row, who] && agrees(row, who) && (found == "" || least(row, who) < least(row, found))) found = who
  return found
}
function times_of(row,  text, who) {
  for (who in runtimes)
    if (count[row, who])
      text = text (text == "" ? "" : ", ") quoted(who) ": {\"min_ms\": " least(row, who) ", \"median_ms\": " median(row, who) \
        (who == "kiln" ? "" : ", \"error\": " error[row, who] ", \"agrees\": " (agrees(row, who) ? "true" : "false")) "}"
  return text
}
END {
  print "| row | Kiln ms | GB/s | % of copy | fastest peer | peer ms | peer / Kiln |\n| --- | --- | --- | --- | --- | --- | --- |"
  for (i = 1; i <= cases; i++) {
    row = names[i]
    if (!count[row, "kiln"]) continue
    best = least(row, "kiln"); peer = rival(row); rate = share = ratio = ""
    if (kind[row] == "kernel" && best > 0) { rate = bytes[row] / best * 1e-6; share = 100 * rate / device["memory_gb_s"] }
    if (peer != "" && best > 0) {
      ratio = least(row, peer) / best; middle = median(row, peer) / median(row, "kiln")
      compared++; logs += log(ratio); middles += log(middle)
    }
    printf "| %s | %.4g | %s | %s | %s | %s | %s |\n", row, best, short(rate), short(share), peer == "" ? "-" : peer, peer == "" ? "-" : \
      short(least(row, peer)), short(ratio)
    rows = rows (rows == "" ? "" : ",\n  ") "{\"row\": " quoted(row) ", \"runtimes\": {" times_of(row) "}, \"errors\": {" errors[row] "}" \
      (share == "" ? "" : ", \"gb_s\": " rate ", \"copy_percent\": " share) \
      (ratio == "" ? "" : ", \"ratio\": {\"min\": " ratio ", \"median\": " middle "}") "}"
  }
  for (i = 1; i <= cases; i++) if (check[names[i]] != "" && check[names[i]] != "ok") {
    told = told (told == "" ? "" : ",\n  ") "{\"case\": " quoted(names[i]) ", \"result\": " quoted(check[names[i]]) ", \"what\": " quoted(why[names[i]]) "}"
    print names[i] ": " check[names[i]] " " why[names[i]]
  }
  for (name in check) checked++
  print equal + 0 " of " checked + 0 " cases checked are equal; there are " cases + 0
  print "{\"schema\": \"kiln.peers/1\", \"what\": \"gpu\", \"made\": " quoted(made) ",\n" \
    " \"machine\": {\"gpu\": " quoted(device["model"]) ", \"target\": " quoted(device["target"]) ", \"driver\": " quoted(device["driver"]) \
    ", \"memory_gb_s\": " device["memory_gb_s"] + 0 ", \"launch_ns\": " device["launch_ns"] + 0 "},\n" \
    " \"checks\": {\"equal\": " equal + 0 ", \"of\": " checked + 0 ", \"cases\": " cases + 0 "},\n \"faults\": [" told "],\n" \
    " \"geomean\": {\"rows\": " compared + 0 (compared ? ", \"min\": " exp(logs / compared) ", \"median\": " exp(middles / compared) : "") "},\n" \
    " \"rows\": [" rows "]}"
}
