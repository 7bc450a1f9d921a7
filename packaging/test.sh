#!/bin/sh
# Tests the Debian packages as users meet them: builds and lints them, and in a Debian 12 that has nothing else installs
# them with apt, trains, builds a plugin, upgrades, and removes them.
# Usage: sh packaging/test.sh [--once] [--no-system] [FOLDER]    (default: build/package-test)
#   --once       does not build a second time to compare the packages
#   --no-system  builds and lints only; the rest needs root, and a machine that lets it mount and chroot
#   FOLDER       gets packages and system; it may be removed afterwards
#
# It needs the groups [build], [test] and [packages] of packaging/dependencies.txt, and installs them.
set -eu
export LC_ALL=C.UTF-8

twice=yes
system=yes
while [ $# -gt 0 ]; do
  case $1 in
    --once) twice=no ;;
    --no-system) system=no ;;
    -*) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
folder=${1:-$(dirname "$0")/../build/package-test}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")/.."
. packaging/version.sh

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
say() { printf '\n== %s\n' "$*"; }

[ $system = no ] || [ "$(id -u)" -eq 0 ] || fail "chroot needs root; --no-system does without"
sh packaging/install-dependencies.sh build test packages
root=$folder/root
repository=$root/srv/strata
built=$folder/built

unmount() { umount "$root/proc" 2>/dev/null || true; }
trap unmount EXIT
trap 'exit 1' INT TERM

# packages FOLDER: names of the packages there, without those of debug symbols.
packages() { for file in "$1"/*.deb; do dpkg-deb -f "$file" Package; done | grep -v dbgsym; }
# system COMMAND...: runs it in the other system.
system() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
# offer FOLDER: makes its packages those of the local repository.
offer() {
  rm -rf "$repository"
  mkdir -p "$repository"
  cp "$1"/*.deb "$repository"
  (cd "$repository" && apt-ftparchive packages . >Packages)
  echo "deb [trusted=yes] file:/srv/strata ./" >"$root/etc/apt/sources.list.d/strata.list"
  system apt-get -qq update
}
# files: every file of the system that packages may change, apart from the package manager's own. Folders of the system
# in which only caches change are left out.
files() { (cd "$root" && find etc usr var/lib opt srv -path srv/strata -prune -o -path var/lib/dpkg -prune -o \
  -path var/lib/apt -prune -o -print | sort); }

say "build"
DEB_BUILD_OPTIONS="nocheck werror" sh packaging/build-deb.sh "$built"

if [ $twice = yes ]; then
  say "build again, in another folder"
  DEB_BUILD_OPTIONS="nocheck werror" sh packaging/build-deb.sh "$folder/again"
  for file in "$built"/*.deb; do
    cmp "$file" "$folder/again/${file##*/}" || fail "two builds give different packages"
  done
  (cd "$built" && sha256sum ./*.deb)
fi

say "lint"
# The packages are not uploaded to Debian, which would ask for a bug number.
lintian -I --pedantic --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$built"/*.changes

if [ $system = no ]; then
  say "passed, without a system to install the packages in"
  exit
fi

say "a system of Debian 12"
unmount
rm -rf --one-file-system "$root"
# The mirror that this machine's apt uses.
site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Codename: bookworm' 'Origin: Debian' | sort -u | head -n 1)
mkdir -p "$folder/cache"
debootstrap --variant=minbase --cache-dir="$folder/cache" bookworm "$root" "$site" >"$folder/debootstrap.log" ||
  { tail "$folder/debootstrap.log"; fail "debootstrap"; }
mount -t proc proc "$root/proc"
cp /etc/resolv.conf "$root/etc/resolv.conf"
# Nothing is installed that was not asked for; what the tests need besides is not a package's.
echo 'APT::Install-Recommends "false";' >"$root/etc/apt/apt.conf.d/strata"
sed -n '/^Tests: plugin/,/^$/s/^ \(.*\),$/\1/p' packaging/debian/tests/control | grep -v strata >"$folder/tools"
system apt-get -qq update
system apt-get -qq install -y $(cat "$folder/tools") >"$folder/apt.log" 2>&1 || { tail "$folder/apt.log"; fail "apt-get"; }

say "the version before"
# The packages with a lower version stand for those of an older build.
rm -rf "$folder/before"
mkdir -p "$folder/before"
for file in "$built"/*.deb; do
  case $file in *dbgsym*) continue ;; esac
  dpkg-deb -R "$file" "$folder/before/tree"
  sed -i "s/$version-1\\b/$version-0/g" "$folder/before/tree/DEBIAN/control"
  dpkg-deb -Zgzip --root-owner-group -b "$folder/before/tree" "$folder/before" >/dev/null
  rm -r "$folder/before/tree"
done

say "install"
all=$(packages "$built")
offer "$folder/before"
files >"$folder/files.before"
system apt-get -qq install -y $all >"$folder/apt.log" 2>&1 || { tail "$folder/apt.log"; fail "apt-get install"; }
[ "$(system strata --version | head -n 1)" = "strata $version" ] || fail "strata --version"
system test -e /usr/share/man/man1/strata-train.1.gz || fail "no manual page"
system strata complete train --set optimizer.l | grep -q '^optimizer\.lr=' || fail "no completion"

say "the packages' own tests"
mkdir "$root/srv/source"
sh packaging/copy-source.sh "$root/srv/source"
run_tests() {
  for test in train plugin; do
    echo "-- $test"
    system sh -c "mkdir -p /tmp/$1-$test && cd /srv/source && AUTOPKGTEST_TMP=/tmp/$1-$test sh packaging/debian/tests/$test" \
      >"$folder/$1-$test.log" 2>&1 || { tail -n 30 "$folder/$1-$test.log"; fail "debian/tests/$test"; }
    tail -n 3 "$folder/$1-$test.log"
  done
}
run_tests before

say "upgrade"
offer "$built"
system apt-get -qq upgrade -y >"$folder/apt.log" 2>&1 || { tail "$folder/apt.log"; fail "apt-get upgrade"; }
for name in $all; do
  found=$(system dpkg-query -W -f '${Version}' "$name")
  [ "$found" = "$version-1" ] || fail "$name has the version $found"
done
# A plugin that was built before still loads.
system env STRATA_PLUGIN_PATH=/tmp/before-plugin/build/lib/strata/plugins strata plugins show my_strategy
run_tests after

say "remove"
rm -rf "$root/srv/source"
system apt-get -qq purge -y --auto-remove $all >"$folder/apt.log" 2>&1 || { tail "$folder/apt.log"; fail "apt-get purge"; }
files >"$folder/files.after"
# etc/gshadow- and its like are copies that the system makes when another package adds a group.
diff "$folder/files.before" "$folder/files.after" | grep '^[<>]' |
  grep -v '/__pycache__\|ld.so.cache\|etc/g\?shadow-$\|etc/\(passwd\|group\)-$' && fail "these files stayed"

say "passed"
