#!/usr/bin/env bash
# Builds the site into build/docs/site, with mkdocs in a virtual environment of its own. A broken link or a page without a
# translation is an error. The reference needs the build: the command, and the mappings of the core.
#
#   PYTHON   the interpreter that the environment is made with (default python3)
#   PRESET   the preset of the build (default release)
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/docs/venv
wanted=tools/docs_requirements.txt
if ! cmp -s "$wanted" "$venv/installed.txt"; then
  echo "opbridge: pip installs into $venv: $(grep -v '^#' "$wanted" | xargs)"
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" install --quiet -r "$wanted"
  cp "$wanted" "$venv/installed.txt"
fi
tools/fetch_chinese_font.sh
PYTHONPATH=python:tests:tools .venv/bin/python -m operator_forms build/docs/mappings.json
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --strict
echo "opbridge: the site is build/docs/site/index.html"
