#!/usr/bin/env bash
# Builds wheels for Linux with glibc 2.28 or later (manylinux_2_28) into build/wheel/dist: one for CPython 3.12 and later,
# which uses the stable ABI, and one each for 3.10 and 3.11. The compiler is Zig's clang, which links against any glibc; the
# libraries are built from the distribution's sources and linked statically.
#
#   tools/wheel.sh [PYTHON ...]   the interpreters to build for (default: those of python3.10, python3.11, python3.12 that run)
#   ARCH   x86_64 or aarch64 (default: that of this machine)
#
# For another machine, torch's headers and the libraries to link with are taken from its wheel for that machine.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

ARCH=${ARCH:-$(uname -m)}
folder=$root/build/wheel/$ARCH
prefix=$folder/prefix
tools=$root/build/wheel/tools
say() { echo "opbridge: $*"; }
stop() { say "$*" >&2; exit 1; }

interpreters() {
  local name
  for name in python3.10 python3.11 python3.12; do
    "$name" -c 'import sys' 2>/dev/null && echo "$name"
  done
  return 0
}
pythons=("$@")
(( $# )) || mapfile -t pythons < <(interpreters)
(( ${#pythons[@]} )) || stop "no python3.10, python3.11 or python3.12 runs here; name interpreters as arguments"

make_tools() {
  [[ -x $tools/bin/pip ]] || .venv/bin/python -m venv "$tools"
  "$tools/bin/pip" install --quiet -r tools/wheel_requirements.txt
  mkdir -p "$folder/bin"
  local zig driver
  zig=$("$tools/bin/python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
  for driver in cc c++; do
    printf '#!/bin/sh\nexec "%s" %s -target %s-linux-gnu.2.28 "$@"\n' "$zig" $driver "$ARCH" >"$folder/bin/new"
    chmod +x "$folder/bin/new"
    # ccache compares the time of this file.
    cmp -s "$folder/bin/new" "$folder/bin/$driver" || mv "$folder/bin/new" "$folder/bin/$driver"
  done
}

# SOURCE PACKAGE by apt, unpacked into $folder/sources/PACKAGE.
fetch_sources() {
  source /etc/os-release
  source tools/private_apt.sh
  work=$folder/apt
  mkdir -p "$work/packages"
  prepare_apt deb-src "$VERSION_CODENAME" "main $([[ $ID != ubuntu ]] || echo universe)"
  say "taking the sources of $* from $ID $VERSION_CODENAME"
  (cd "$work/packages" && { private_apt update; private_apt source --download-only "$@"; } &>apt.log) ||
    { cat "$work/packages/apt.log" >&2; stop "apt could not fetch the sources of $*; its messages are above"; }
  local package
  for package in "$@"; do
    mkdir -p "$folder/sources/$package"
    tar -xf "$work/packages/$package"_*.orig.tar.* -C "$folder/sources/$package" --strip-components=1
  done
}

build_library() {
  local package=$1
  shift
  "$tools/bin/cmake" -S "$folder/sources/$package" -B "$folder/$package" -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF -DCMAKE_POLICY_VERSION_MINIMUM=3.5 "${toolchain[@]}" "$@"
  "$tools/bin/cmake" --build "$folder/$package" --target install
}

# zlib's CMakeLists.txt names a file that Debian's source lacks.
build_zlib() {
  cd "$folder/sources/zlib"
  CC=$folder/bin/cc CFLAGS="-O3 -fPIC" ./configure --static --prefix="$prefix"
  make libz.a
  install -D -m 644 -t "$prefix/lib" libz.a
  install -D -m 644 -t "$prefix/include" zlib.h zconf.h
}

# Only headers. The build must not take them from /usr/include, which has glibc's headers too.
copy_headers() {
  mkdir -p "$prefix"/{include,share/cmake,share/eigen3}
  cp -r /usr/include/{protozero,CLI,eigen3} "$prefix/include/"
  cp -r /usr/share/cmake/CLI11 "$prefix/share/cmake/"
  cp -r /usr/share/eigen3/cmake "$prefix/share/eigen3/"
}

build_libraries() {
  [[ ! -e $prefix/complete ]] || return 0
  fetch_sources fmtlib simdjson libzip zlib
  say "building fmt, simdjson, zlib and libzip into $prefix; log in $folder/libraries.log"
  {
    (build_zlib)
    build_library fmtlib -DFMT_TEST=OFF -DFMT_DOC=OFF
    build_library simdjson -DSIMDJSON_DEVELOPER_MODE=OFF
    build_library libzip -DBUILD_TOOLS=OFF -DBUILD_REGRESS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF \
      -DENABLE_{COMMONCRYPTO,GNUTLS,MBEDTLS,OPENSSL,BZIP2,LZMA,ZSTD}=OFF
    copy_headers
  } &>"$folder/libraries.log" || { tail -n 30 "$folder/libraries.log" >&2; stop "a library failed to build"; }
  touch "$prefix/complete"
}

# The folder of torch's package: this machine's, or those files of the other machine's wheel that the build needs.
find_torch() {
  if [[ $ARCH == "$(uname -m)" ]]; then
    torch=$(.venv/bin/python -I -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')
    return
  fi
  torch=$folder/torch/torch
  [[ ! -e $folder/torch/complete ]] || return 0
  local version
  version=$(.venv/bin/python -I -c 'import importlib.metadata as m; print(m.version("torch").split("+")[0])')
  say "taking the headers and libraries of torch $version for $ARCH"
  "$tools/bin/pip" download --quiet --no-deps --only-binary :all: --platform "manylinux_2_28_$ARCH" --python-version 3.12 \
    --dest "$folder/torch" "torch==$version"
  "$tools/bin/python" - "$folder"/torch/torch-*.whl <<'END'
import pathlib, sys, zipfile
wheel = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(wheel) as archive:
    libraries = ["torch/lib/libtorch_cpu.so", "torch/lib/libc10.so"]
    headers = [name for name in archive.namelist() if name.startswith("torch/include/")]
    archive.extractall(wheel.parent, headers + libraries)
wheel.unlink()
END
  touch "$folder/torch/complete"
}

# One build folder for all interpreters: only the Python module is compiled for each.
build_wheel() {
  local python=$1 version
  version=$("$python" -c 'import sys; print(".".join(map(str, sys.version_info[:2])))') || stop "$python does not run"
  say "building the wheel for CPython $version"
  "$python" -m venv "$folder/python$version"
  export SETUPTOOLS_EXT_SUFFIX=".cpython-${version/./}-$ARCH-linux-gnu.so"  # the suffix without the stable ABI
  PATH="$tools/bin:$PATH" "$folder/python$version/bin/pip" wheel "$root" --no-deps --wheel-dir "$folder/unrepaired" \
    --config-settings build-dir="$folder/opbridge" "${toolchain[@]/#-D/--config-settings=cmake.define.}" \
    --config-settings cmake.define.OPBRIDGE_TORCH_DIR="$torch"
}

# auditwheel knows only the platforms of the machine on which it runs, so it is told that this is $ARCH.
audit() {
  PATH="$tools/bin:$PATH" "$tools/bin/python" -c \
    "import platform; platform.machine = lambda: '$ARCH'; import auditwheel.main; raise SystemExit(auditwheel.main.main())" "$@"
}

toolchain=(-DCMAKE_TOOLCHAIN_FILE="$root/cmake/ZigToolchain.cmake" -DCMAKE_BUILD_TYPE=Release -DOPBRIDGE_WHEEL_DIR="$folder")
export CMAKE_GENERATOR=Ninja CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)} CCACHE_COMPILERTYPE=clang
make_tools
build_libraries
find_torch
rm -rf "$folder/unrepaired"
for python in "${pythons[@]}"; do build_wheel "$python"; done
# By default, Python names this machine's platform.
"$tools/bin/wheel" tags --platform-tag "linux_$ARCH" --remove "$folder"/unrepaired/*.whl
for wheel in "$folder"/unrepaired/*.whl; do
  audit repair "$wheel" --plat "manylinux_2_28_$ARCH" --exclude libtorch_cpu.so --wheel-dir build/wheel/dist
done
