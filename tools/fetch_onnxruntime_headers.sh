#!/usr/bin/env bash
# Puts the headers of libonnxruntime-dev into build/deps/onnxruntime, with the machine's own apt mirrors and keys. If
# the release lacks the package, takes it from the distribution's next release. Installs nothing and needs no root.
set -euo pipefail

package=libonnxruntime-dev
root=$(cd "$(dirname "$0")/.." && pwd)
target=$root/build/deps/onnxruntime
header=$target/usr/include/onnxruntime/onnxruntime_c_api.h
if [[ -e $header || -e /usr/include/onnxruntime/onnxruntime_c_api.h ]]; then exit 0; fi

source /etc/os-release
case $ID-${VERSION_CODENAME:-} in
  debian-bookworm) suite=trixie component=main ;;
  debian-*) suite=$VERSION_CODENAME component=main ;;
  ubuntu-noble) suite=resolute component=universe ;;
  ubuntu-*) suite=$VERSION_CODENAME component=universe ;;
  *) echo "opbridge: no $package known for $PRETTY_NAME; put its headers into /usr/include/onnxruntime" >&2; exit 1 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source "$root/tools/private_apt.sh"
echo "opbridge: taking the headers of $package from $ID $suite into build/deps/onnxruntime"
if ! unpack_package "$suite" "$component" "$package"; then
  echo "opbridge: apt could not fetch $package of $ID $suite; its messages are above" >&2
  exit 1
fi
mkdir -p "$target/usr"
cp -r "$work/root/usr/include" "$target/usr/"
