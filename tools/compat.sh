#!/usr/bin/env bash
# Runs the Python tests with the oldest and the newest torch and ONNX Runtime that opbridge knows, each in a virtual
# environment of its own in build/compat. These have the Python version of .venv, for which the module is built.
#
#   tools/compat.sh [ENVIRONMENT ...]   the environments to run (default: all of them)
#   TESTS    the arguments of pytest (default "-n auto --dist loadfile tests/python")
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A packages=(
  [torch-2.13.0]="torch==2.13.0 onnxruntime"
  [onnxruntime-1.20.1]="torch onnxruntime==1.20.1"
  [newest]="torch onnxruntime"
)
environments=("$@")
(( $# )) || environments=(torch-2.13.0 onnxruntime-1.20.1 newest)

failed=()
for name in "${environments[@]}"; do
  [[ -v packages[$name] ]] || { echo "opbridge: the environments are ${!packages[*]}, not '$name'" >&2; exit 1; }
  venv=build/compat/$name
  [[ -x $venv/bin/pip ]] || .venv/bin/python -m venv "$venv"
  # shellcheck disable=SC2086  # several packages
  "$venv/bin/pip" install --quiet --upgrade --upgrade-strategy only-if-needed ${packages[$name]} -r tools/requirements.txt
  tools/match_torchvision.sh "$venv"
  "$venv/bin/python" -c 'import onnxruntime, torch; print("opbridge: torch", torch.__version__, "and ONNX Runtime", onnxruntime.__version__)'
  # shellcheck disable=SC2086  # several arguments
  PYTHONPATH=python "$venv/bin/python" -m pytest ${TESTS:--n auto --dist loadfile tests/python} || failed+=("$name")
done
(( ! ${#failed[@]} )) || { echo "opbridge: tests fail in ${failed[*]}" >&2; exit 1; }
