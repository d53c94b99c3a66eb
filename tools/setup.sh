#!/usr/bin/env bash
# Sets up a Debian or Ubuntu machine so that opbridge builds: compiler and libraries by apt, ONNX Runtime's headers,
# and .venv with torch by pip. Says what it is about to install, and installs only what is missing.
#
#   TORCH    what pip installs as torch, for instance "torch==2.13.0"; kept for later runs (default "torch torchvision")
#   PYTHON   the interpreter that .venv is made with (default python3)
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
stamp=.venv/opbridge-requirements.txt  # what pip installed last, with the choice of torch in the first line

say() { echo "opbridge: $*"; }
stop() { say "$*" >&2; exit 1; }

missing_packages() {
  local wanted=(g++ cmake ninja-build libprotozero-dev libsimdjson-dev libfmt-dev libcli11-dev libzip-dev zlib1g-dev
                libgtest-dev libbenchmark-dev libeigen3-dev)
  [[ -x .venv/bin/python ]] && python=.venv/bin/python
  "$python" -c 'import ensurepip' 2>/dev/null || wanted+=(python3-venv)
  "$python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
    wanted+=(python3-dev)
  comm -23 <(printf '%s\n' "${wanted[@]}" | sort) \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/^installed //p' | sort)
}

install_packages() {
  command -v dpkg-query >/dev/null || stop "set-up installs on Debian and Ubuntu; elsewhere, install what tools/setup.sh names and run cmake --preset release"
  local packages as_root=()
  mapfile -t packages < <(missing_packages)
  (( ${#packages[@]} )) || return 0
  local install="apt-get install -y --no-install-recommends ${packages[*]}"
  if (( EUID )); then
    sudo -n true 2>/dev/null || stop "packages are missing and root is needed; run: sudo apt-get update && sudo $install"
    as_root=(sudo -n)
  fi
  say "apt installs: ${packages[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $install
}

install_python() {
  local torch=${TORCH:-}
  [[ -n $torch || ! -e $stamp ]] || torch=$(head -n 1 "$stamp")
  torch=${torch:-torch torchvision}
  local wanted
  wanted=$(echo "$torch"; cat tools/requirements.txt)
  [[ -e $stamp && $(<"$stamp") == "$wanted" ]] && return 0

  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || stop "$python is older than Python 3.10; set PYTHON"
  say "pip installs into .venv, where missing: $torch $(grep -v '^#' tools/requirements.txt | xargs)"
  [[ -x .venv/bin/pip ]] || "$python" -m venv .venv
  rm -f "$stamp"
  .venv/bin/pip install $torch -r tools/requirements.txt
  tools/match_torchvision.sh .venv
  echo "$wanted" >"$stamp"
}

install_packages
tools/fetch_onnxruntime_headers.sh
install_python
