#!/usr/bin/env bash
# Puts a font with Chinese characters into build/docs/fonts, from Debian's package (Apache-2.0). The site has its
# characters with it, so that its pages can be read where no such font is installed. Installs nothing and needs no root.
set -euo pipefail

package=fonts-droid-fallback
root=$(cd "$(dirname "$0")/.." && pwd)
target=$root/build/docs/fonts/chinese.ttf
if [[ -e $target ]]; then exit 0; fi

source /etc/os-release
case $ID in
  debian) component=main ;;
  ubuntu) component=universe ;;
  *) echo "opbridge: no $package known for $PRETTY_NAME; pages in Chinese use the reader's fonts" >&2; exit 0 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source "$root/tools/private_apt.sh"
echo "opbridge: taking a font with Chinese characters from $ID's $package into build/docs/fonts"
if ! unpack_package "$VERSION_CODENAME" "$component" "$package"; then
  echo "opbridge: apt could not fetch $package; pages in Chinese use the reader's fonts" >&2
  exit 0
fi
mkdir -p "$(dirname "$target")"
cp "$work/root/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf" "$target"
