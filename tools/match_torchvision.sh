#!/usr/bin/env bash
# Installs the torchvision that belongs to the torch of the virtual environment $1. A torchvision works with only one
# version of torch: if pip finds none that this torch can load, torchvision is removed.
set -euo pipefail

torch=$("$1/bin/python" -c 'import importlib.metadata as m; print("torch==" + m.version("torch"))')
"$1/bin/pip" install --quiet "$torch" "torchvision>=0.20" && "$1/bin/python" -c 'import torchvision' 2>/dev/null && exit
echo "opbridge: there is no torchvision for $torch: what needs torchvision is left out"
"$1/bin/pip" uninstall --quiet -y torchvision
