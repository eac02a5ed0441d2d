#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks and times Kiln on the GPU of this computer. Nothing must be installed but the GPU's driver.
#
#   sh run.sh [--device cuda|cuda:1|cuda-emulated] [--only PATTERN] [--no-timing] [--rounds N] [--minutes N]
#
# 1. what there is: GPU, driver, bandwidth; where there is no GPU it says so, exit 5
# 2. each case of cases.tsv against its stored results, special values first; one that differs is told with the first element that does
# 3. times, beside PyTorch and XLA where python3 has them (peers.py)
# Results are in results/DEVICE: checks.tsv, times.tsv, gpu_check.json. A second run goes on where the first was stopped; delete
# the folder to start anew. Exit: 0 all equal, 1 something differs or failed, 2 wrong usage, an unfinished bundle, or no place for results, 5 no GPU.
set -u
device=cuda only='*' timing=yes rounds=3 minutes=25 row=
while [ $# -gt 0 ]; do
  case $1 in
    --device) device=$2; shift ;;
    --only) only=$2; shift ;;
    --rounds) rounds=$2; shift ;;
    --minutes) minutes=$2; shift ;;
    --no-timing) timing= ;;
    --time-row) row=$2; shift ;; # for peers.py: prints what time_row does
    *) echo "gpu_check: \"$1\": see the head of run.sh" >&2; exit 2 ;;
  esac
  shift
done
cd "$(dirname "$0")" || exit 2
if [ ! -f cases.tsv ]; then # what a bundle gets last
  echo "gpu_check: \"$PWD\" has no cases.tsv: the bundle was not finished; make it again (scripts/gpu_check bundle)" >&2
  exit 2
fi
kiln=$PWD/tree/bin/kiln
results=results/$(echo "$device" | tr : _)
tab=$(printf '\t')
end=$(($(date +%s) + minutes * 60))

selected() { # NAME: whether a pattern of --only, between commas, matches
  set -f
  for pattern in $(echo "$only" | tr , ' '); do
    # shellcheck disable=SC2254
    case $1 in $pattern) set +f; return 0 ;; esac
  done
  set +f
  return 1
}

# One line of cases.tsv: name, kind, inputs, expects.
each_case() { # FUNCTION: called with these four, those that --only names, until time is up
  while IFS=$tab read -r name kind inputs expects; do
    selected "$name" || continue
    [ "$(date +%s)" -lt $end ] || { echo "gpu_check: $minutes minutes are over; run it again to go on" >&2; return; }
    "$1" "$name" "$kind" "$inputs" "$expects" </dev/null
  done <cases.tsv
}
has_line() { grep -q "^$2$tab" "$1" 2>/dev/null; } # FILE NAME

run_case() { # DEVICE NAME ARGUMENTS...
  on=$1 what=$2
  shift 2
  [ "$on" = cpu ] || set -- --require-device "$@" # what runs on the CPU instead shows nothing
  timeout 120 "$kiln" run "cases/$what.kiln" --device "$on" --no-cache -q "$@"
}

# Which element is the first to differ: the CPU computes what only digests are stored of.
locate() { # NAME INPUTS EXPECTS
  saved= wanted= k=0
  for word in $3; do
    case $word in *=sha256:*) ;; *) continue ;; esac
    saved="$saved --output ${word%%=sha256:*}=@$results/cpu$k.npy"
    wanted="$wanted --expect ${word%%=sha256:*}=@$results/cpu$k.npy"
    k=$((k + 1))
  done
  [ $k -gt 0 ] || return
  # shellcheck disable=SC2086
  run_case cpu "$1" $2 $saved $3 >/dev/null 2>&1 || echo "on this CPU too"
  # shellcheck disable=SC2086
  run_case "$device" "$1" --bits $2 $wanted 2>&1 | grep DIFFERS
  rm -f "$results"/cpu*.npy
}

check() { # NAME KIND INPUTS EXPECTS
  has_line "$results/checks.tsv" "$1" && return
  # shellcheck disable=SC2086
  run_case "$device" "$1" --json $3 $4 >"$results/out" 2>"$results/err"
  status=$?
  # A kernel that the GPU does not take runs on the VM, with right results.
  vm=$(awk '/"vm":/ { gsub("[^0-9]", ""); print; exit }' "$results/out")
  case $status in
    0) word=ok what=
       [ "${vm:-0}" -eq 0 ] || { word=vm; what="$vm kernels ran on the CPU: $(tail -n 1 "$results/err")"; } ;;
    1) word=differs what=$(locate "$1" "$3" "$4") && [ -n "$what" ] ||
         what=$(run_case "$device" "$1" $3 $4 2>&1 | grep DIFFERS) ;;
    124) word=timeout what= ;;
    *) word=failed what=$(tail -n 1 "$results/err") ;;
  esac
  what=$(echo "$what" | tr '\n\t' '  ' | cut -c1-300)
  printf '%s\t%s\t%s\n' "$1" "$word" "$what" >>"$results/checks.tsv"
  [ $word = ok ] || printf '%s: %s %s\n' "$1" $word "$what"
}

# "milliseconds bytes": of a kernel's launches by the GPU's clock; of a model from inputs to outputs in the host's memory.
time_row() { # NAME KIND INPUTS EXPECTS
  how="--profile --warmup 1 --iters 1"
  [ "$2" = model ] && how="--warmup 3 --iters 20"
  # shellcheck disable=SC2086
  timeout 120 "$kiln" bench "cases/$1.kiln" --device "$device" --no-cache -q --json $how $3 2>/dev/null |
    awk -v kind="$2" '{ gsub(",", "") } /"min":/ { least = $2 } /"bytes":/ { b = $2 } /"kind":/ { on = $2 }
      /"ms":/ && on ~ /kernel/ { ms += $2; bytes += b } END { if (NR) print kind == "model" ? least : ms, bytes + 0 }'
}

time_case() { # NAME KIND INPUTS EXPECTS
  case $2 in kernel | model) ;; *) return ;; esac
  has_line "$results/times.tsv" "$1${tab}kiln" && return
  for _ in $(seq $rounds); do
    measured=$(time_row "$@")
    [ -n "$measured" ] && printf '%s\tkiln\t%s\t%s\n' "$1" "${measured% *}" "${measured#* }" >>"$results/times.tsv"
  done
}

if [ -n "$row" ]; then
  only=$row
  each_case time_row
  exit
fi

if ! { mkdir -p "$results" && touch "$results/checks.tsv" "$results/times.tsv" "$results/out"; } 2>/dev/null; then
  echo "gpu_check: \"$PWD/$results\" cannot be written; copy this folder to a disk that can" >&2
  exit 2
fi
# A line that a killed run has left without its end is done again.
for file in "$results/checks.tsv" "$results/times.tsv"; do
  [ -z "$(tail -c 1 "$file")" ] || sed -i '$d' "$file"
done
"$kiln" devices --device "$device" --json >"$results/devices.json" 2>"$results/out"
status=$?
if [ $status -eq 5 ]; then
  echo "gpu_check: there is no GPU here that Kiln can use: $(cat "$results/out")"
  exit 5
elif [ $status -ne 0 ]; then
  echo "gpu_check: $kiln does not run here: $(cat "$results/out")"
  exit 1
fi
grep -E '"(model|target|driver|multiprocessors|memory_bytes|[a-z_]+_gb_s|launch_ns)":' "$results/devices.json" | tr -d '",'
each_case check
if [ -n "$timing" ]; then
  # What kills or hangs a process is not tried again; the next one goes on behind it.
  tries=0
  while [ $tries -lt 5 ] && python3 -c 'import numpy, sys, importlib.util as u; sys.exit(not (u.find_spec("torch") or u.find_spec("jax")))' 2>/dev/null; do
    timeout $((end - $(date +%s))) python3 peers.py "$device" "$only" "$results/times.tsv" $rounds && break
    tries=$((tries + 1))
  done
  each_case time_case
fi
awk -v made="$(cat made)" -f report.awk "$results/devices.json" cases.tsv "$results/checks.tsv" "$results/times.tsv" >"$results/report"
sed '/^{/,$d' "$results/report"
sed -n '/^{/,$p' "$results/report" >"$results/gpu_check.json"
rm -f "$results/report" "$results/out" "$results/err"
echo "written to $PWD/$results/gpu_check.json"
! grep -qv "${tab}ok$tab" "$results/checks.tsv" || exit 1
end=$(($(date +%s) + 60)) missing=0
is_checked() { has_line "$results/checks.tsv" "$1" && known=yes || missing=$((missing + 1)); }
known=
each_case is_checked
[ -n "$known" ] && [ $missing -eq 0 ]
