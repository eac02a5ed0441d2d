#!/usr/bin/env bash
# run.sh INTERPRETER BUILD_DIR FILE [ARGS...]: runs a test of the Python package of a build, with the packages of
# scripts/fetch_python. Exit 77 with a reason where there is no NumPy.
set -euo pipefail
python=$1 build=$2
shift 2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH=$build/python:$root/.deps/python PYTHONDONTWRITEBYTECODE=1 PATH=$build/bin:$PATH
if ! "$python" -c "import numpy" 2>/dev/null; then
  echo "$python has no NumPy; run scripts/fetch_python"
  exit 77
fi
exec "$python" "$@"
