#!/usr/bin/env bash
# Puts the headers of libonnxruntime-dev into build/deps/onnxruntime, for releases that lack the package: takes it from
# the distribution's next release, by the machine's own apt mirrors and keys. Installs nothing, needs no root.
set -euo pipefail

package=libonnxruntime-dev
root=$(cd "$(dirname "$0")/.." && pwd)
target=$root/build/deps/onnxruntime
header=$target/usr/include/onnxruntime/onnxruntime_c_api.h
if [[ -e $header ]]; then exit 0; fi

source /etc/os-release
case $ID in
  debian) next=trixie component=main ;;
  ubuntu) next=resolute component=universe ;;
  *) echo "opbridge: no $package known for $PRETTY_NAME; put its headers where the compiler finds them" >&2; exit 1 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{sources,lists/partial,cache/archives/partial}

# The sources that serve this release, turned to the next one; mirrors, options and keys stay as they are.
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
  [[ -r $file ]] || continue
  sed -nE "s/^(deb([[:space:]]+\[[^]]*\])?[[:space:]]+[^[:space:]]+)[[:space:]]+$VERSION_CODENAME[[:space:]].*/\1 $next $component/p" \
    "$file" >"$work/sources/${file##*/}.list"
done
for file in /etc/apt/sources.list.d/*.sources; do
  [[ -r $file ]] || continue
  awk -v suite="$VERSION_CODENAME" -v next_suite="$next" -v component="$component" '
    BEGIN { RS = ""; FS = OFS = "\n"; ORS = "\n\n" }
    $0 ~ "(^|\n)Suites:([^\n]*[ \t])?" suite "([ \t][^\n]*)?(\n|$)" {
      for (i = 1; i <= NF; i++) {
        if ($i ~ /^Types:/) $i = "Types: deb"
        if ($i ~ /^Suites:/) $i = "Suites: " next_suite
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
echo "opbridge: taking the headers of $package from $ID $next into build/deps/onnxruntime"
cd "$work"
if ! { next_apt update && next_apt download "$package"; }; then
  echo "opbridge: apt could not fetch $package of $ID $next; see apt's message above" >&2
  exit 1
fi
dpkg -x "$package"_*.deb root
mkdir -p "$target/usr"
cp -r root/usr/include "$target/usr/"
