#!/bin/sh
# Builds the RPM packages of the tracked files.
# Usage: sh packaging/build-rpm.sh [FOLDER] [ARGUMENT]...    (default: build/rpm)
#   FOLDER     gets the packages, and rpmbuild's folders
#   ARGUMENT   of rpmbuild: '--with cuda'; '--nodeps' where another system provides what the build needs
set -eu

case ${1:-} in
  -h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
  -* | '') folder=$(dirname "$0")/../build/rpm ;;
  *) folder=$1; shift ;;
esac
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")/.."

. packaging/version.sh
rm -rf "$folder/BUILD" "$folder/BUILDROOT" "$folder/RPMS" "$folder/SOURCES"
mkdir -p "$folder/SOURCES" "$folder/SPECS"
sh packaging/copy-source.sh "$folder/SOURCES/strata-$version"
sed -e "s/@VERSION@/$version/g" -e "s/@ABI@/$abi/g" \
  -e "s/@DATE@/$(LC_ALL=C date -u +'%a %b %d %Y' -d "$release_date")/" \
  packaging/rpm/strata.spec.in >"$folder/SPECS/strata.spec"
tar -c -z -C "$folder/SOURCES" --sort=name --owner=root --group=root --mtime="$release_date" \
  -f "$folder/SOURCES/strata-$version.tar.gz" "strata-$version"
rm -r "$folder/SOURCES/strata-$version"

rpmbuild -bb --define "_topdir $folder" "$@" "$folder/SPECS/strata.spec"
find "$folder/RPMS" -name '*.rpm' -exec mv {} "$folder" \;
