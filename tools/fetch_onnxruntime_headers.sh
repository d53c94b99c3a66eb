#!/usr/bin/env bash
# Puts the headers of libonnxruntime-dev into build/deps/onnxruntime, by the machine's own apt mirrors and keys. Where
# the release lacks the package, takes it from the distribution's next one. Installs nothing and needs no root.
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
mkdir -p "$work"/{sources,lists/partial,cache/archives/partial}

# The apt sources of this release, turned to the one that has the package; mirrors, options and keys stay as they are.
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
  [[ -r $file ]] || continue
  sed -nE "s/^(deb([[:space:]]+\[[^]]*\])?[[:space:]]+[^[:space:]]+)[[:space:]]+$VERSION_CODENAME[[:space:]].*/\1 $suite $component/p" \
    "$file" >"$work/sources/${file##*/}.list"
done
for file in /etc/apt/sources.list.d/*.sources; do
  [[ -r $file ]] || continue
  awk -v current="$VERSION_CODENAME" -v suite="$suite" -v component="$component" '
    BEGIN { RS = ""; FS = OFS = "\n"; ORS = "\n\n" }
    $0 ~ "(^|\n)Suites:([^\n]*[ \t])?" current "([ \t][^\n]*)?(\n|$)" {
      for (i = 1; i <= NF; i++) {
        if ($i ~ /^Types:/) $i = "Types: deb"
        if ($i ~ /^Suites:/) $i = "Suites: " suite
        if ($i ~ /^Components:/) $i = "Components: " component
      }
      print
    }' "$file" >"$work/sources/${file##*/}"
done

next_apt() {
  apt-get -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/sources" \
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o Acquire::Languages=none \
    -o APT::Sandbox::User="$(id -un)" "$@"
}
echo "opbridge: taking the headers of $package from $ID $suite into build/deps/onnxruntime"
cd "$work"
# A third party's source need not serve the other release, so that only the download decides.
if ! { next_apt update; next_apt download "$package"; } &>apt.log; then
  cat apt.log >&2
  echo "opbridge: apt could not fetch $package of $ID $suite; its messages are above" >&2
  exit 1
fi
dpkg -x "$package"_*.deb root
mkdir -p "$target/usr"
cp -r root/usr/include "$target/usr/"
