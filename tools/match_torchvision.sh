#!/usr/bin/env bash
# Brings the virtual environment $1 the torchvision of its torch. A torchvision works with one torch alone: where pip
# brings none that the torch chosen can load, none may stay.
set -euo pipefail

torch=$("$1/bin/python" -c 'import importlib.metadata as m; print("torch==" + m.version("torch"))')
"$1/bin/pip" install --quiet "$torch" "torchvision>=0.20" && "$1/bin/python" -c 'import torchvision' 2>/dev/null && exit
echo "opbridge: there is no torchvision for $torch: what needs torchvision is left out"
"$1/bin/pip" uninstall --quiet -y torchvision
