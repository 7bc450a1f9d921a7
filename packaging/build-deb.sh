#!/bin/sh
# Builds the Debian packages of the tracked files.
# Usage: sh packaging/build-deb.sh [--cuda] [FOLDER]    (default: build/deb)
#   --cuda   also strata-plugin-cuda and strata-plugin-nccl; needs nvcc, cuBLAS and nccl.h
#   FOLDER   gets the packages, and the source tree that they are built in
set -eu

usage() {
  sed -n '2,5s/^# //p' "$0" >&2
  exit 2
}
fail() {
  echo "build-deb: $*" >&2
  exit 1
}

profiles=
while [ $# -gt 0 ]; do
  case $1 in
    --cuda) profiles=pkg.strata.cuda ;;
    -*) usage ;;
    *) break ;;
  esac
  shift
done
[ $# -le 1 ] || usage
for tool in dh dpkg-buildpackage doxygen; do
  command -v $tool >/dev/null || fail "$tool is missing: apt-get install debhelper dpkg-dev doxygen"
done
folder=${1:-$(dirname "$0")/../build/deb}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")/.."

. packaging/version.sh
tree=$folder/strata-$version
rm -rf "$tree" "$folder"/*.deb "$folder"/*.buildinfo "$folder"/*.changes
mkdir -p "$tree"
sh packaging/copy-source.sh "$tree"

# debian/ with the version and the ABI number filled in, and files of the libraries' packages under their names.
cp -R packaging/debian "$tree/debian"
sed "s/@ABI@/$abi/g" packaging/debian/control.in >"$tree/debian/control"
rm "$tree/debian/control.in"
for name in libstrata libstrata-testing; do
  for file in "$tree/debian/$name".*; do mv "$file" "$tree/debian/$name$abi.${file##*/"$name".}"; done
done
cat >"$tree/debian/changelog" <<END
strata ($version-1) unstable; urgency=medium

  * Version $version; CHANGELOG.md says what is in it.

 -- $(sed -n 's/^Maintainer: //p' "$tree/debian/control")  $(LC_ALL=C date -u -R -d "$release_date")
END

# CMake finds ccache; the package tools hide its folder by another HOME.
export CCACHE_DIR="${CCACHE_DIR:-$HOME/.cache/ccache}"
cd "$tree"
DEB_BUILD_PROFILES=$profiles DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-nocheck}" dpkg-buildpackage -us -uc -b
