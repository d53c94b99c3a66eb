# To be sourced: apt with lists of its own, made from the machine's sources, with the same mirrors, options and keys.
# Nothing is installed and no root is needed.

# prepare_apt TYPE SUITE COMPONENT: $work is the folder; TYPE is deb or deb-src. SUITE replaces the release of this machine.
prepare_apt() {
  local type=$1 suite=$2 component=$3 file
  mkdir -p "$work"/{sources,lists/partial,cache/archives/partial}
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ -r $file ]] || continue
    sed -nE "s/^deb(([[:space:]]+\[[^]]*\])?[[:space:]]+[^[:space:]]+)[[:space:]]+$VERSION_CODENAME[[:space:]].*/$type\1 $suite $component/p" \
      "$file" >"$work/sources/${file##*/}.list"
  done
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -r $file ]] || continue
    awk -v current="$VERSION_CODENAME" -v type="$type" -v suite="$suite" -v component="$component" '
      BEGIN { RS = ""; FS = OFS = "\n"; ORS = "\n\n" }
      $0 ~ "(^|\n)Suites:([^\n]*[ \t])?" current "([ \t][^\n]*)?(\n|$)" {
        for (i = 1; i <= NF; i++) {
          if ($i ~ /^Types:/) $i = "Types: " type
          if ($i ~ /^Suites:/) $i = "Suites: " suite
          if ($i ~ /^Components:/) $i = "Components: " component
        }
        print
      }' "$file" >"$work/sources/${file##*/}"
  done
}

private_apt() {
  apt-get -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/sources" \
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o Acquire::Languages=none \
    -o APT::Sandbox::User="$(id -un)" "$@"
}

# unpack_package SUITE COMPONENT PACKAGE: $work/root gets its files. If apt fails, shows its messages and returns 1.
unpack_package() {
  prepare_apt deb "$1" "$2"
  # A third party's source may lack the suite, so errors of the update are ignored if the download succeeds.
  (cd "$work" && { private_apt update; private_apt download "$3"; } &>apt.log) || { cat "$work/apt.log" >&2; return 1; }
  dpkg -x "$work/$3"_*.deb "$work/root"
}
