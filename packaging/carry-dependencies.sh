#!/bin/sh
# Copies what a build of Strata needs beside compilers, CMake and CUDA into a folder, for a machine where nothing can be
# installed: headers, libraries and CMake files of the packages in packaging/dependencies.txt, about 50 MB.
# Usage: sh packaging/carry-dependencies.sh FOLDER
#   there: cmake -DCMAKE_PREFIX_PATH=FOLDER/usr ...    (tests/gpu.sh finds build/carried by itself)
set -eu

usage() {
  sed -n '2,5s/^# //p' "$0" >&2
  exit 2
}
fail() {
  echo "carry-dependencies: $*" >&2
  exit 1
}
[ $# -eq 1 ] || usage
case $1 in -*) usage ;; esac
command -v dpkg-query >/dev/null 2>&1 || fail "no dpkg here, which knows the files of a package"
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."

# Development packages of the list, and those that they need in turn; Boost comes by the header.
development() { sed -n 's/.*\b\(lib[^ ]*-dev\|nlohmann-json3-dev\).*/\1/p' | grep -v boost; }
listed=$(sed -n '/^\[build\]/,/^\[check\]/p' packaging/dependencies.txt | development)
# shellcheck disable=SC2086  # names of packages
needed=$(dpkg-query -W -f '${Depends}\n' $listed | tr ',' '\n' | development)
packages=$(printf '%s\n' "$listed" "$needed" | sort -u)

copy() { mkdir -p "$folder$(dirname "$1")" && cp -P "$1" "$folder$1"; }

# A library under every name that it has in its folder.
copy_library() {
  for name in "$1" "$1".*; do copy "$name"; done
}

for package in $packages; do
  dpkg-query -L "$package" >/dev/null || fail "$package is not installed here"
  dpkg-query -L "$package" | while read -r file; do
    [ ! -d "$file" ] || continue
    case $file in
      */include/* | */cmake/* | */lib/*.a) copy "$file" ;;
      */lib/*.so) copy_library "$file" ;;
    esac
  done
done

# Boost's headers that this tree includes, as the compiler follows them, and what other compilers' would branch to.
grep -rhoE '#include <boost/[^>]*>' host plugins sdk --include='*.?pp' | sort -u |
  "${CXX:-g++}" -std=c++20 -DBOOST_DLL_USE_STD_FS -M -x c++ - | tr ' ' '\n' | grep '^/usr/include/boost/' |
  while read -r file; do copy "$file"; done
cp -R /usr/include/boost/config "$folder/usr/include/boost/"
copy /usr/include/boost/version.hpp

# What the libraries load themselves, except for what comes with compilers and the system.
find "$folder/usr/lib" -name '*.so*' -type f -exec ldd {} + | awk '$3 ~ /^\// { print $3 }' | sort -u |
  grep -vE '/lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|gomp)\.so' | while read -r library; do
  found=/usr/lib/${library#*/lib/}
  [ -e "$folder$found" ] || { mkdir -p "$folder$(dirname "$found")" && cp -L "$library" "$folder$found"; }
done

echo "$(du -sh "$folder" | cut -f 1) in $folder: Boost's headers and $(echo "$packages" | tr '\n' ' ')"
