"""Each folder of host/ includes only the folders that stand before it in the table of docs/architecture.md, so that it
can be read, and tested, without what comes later. The phases of the compiler include each other without a circle. No
folder of the product has more than 40 files of its own.

Usage: python3 folder_order.py SOURCES
"""

import pathlib
import re
import sys

MOST_FILES = 40
ROOTS = ("host", "sdk", "plugins", "models")


def table_order(text):
    """The folders of host/ in the order of the table's rows. A row of a folder within another one counts for the other."""
    rows = re.findall(r"^\| `host/([\w/]+)` \|", text, re.MULTILINE)
    assert len(rows) == len(set(rows)), f"the table of docs/architecture.md names a folder twice: {sorted(rows)}"
    return list(dict.fromkeys(row.split("/")[0] for row in rows))


def includes(host):
    """File, line and target of each #include of a file of host/ by another one, as paths below host/."""
    for path in sorted(host.rglob("*.?pp")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'#include "(.+)"', line)
            if found and (host / found[1]).exists():
                yield path.relative_to(host), number, pathlib.PurePath(found[1])


def order_faults(host, order):
    places = {name: place for place, name in enumerate(order)}
    yield from (
        f"host/{path.name}: docs/architecture.md has no row of this folder"
        for path in sorted(host.iterdir())
        if path.is_dir() and path.name not in places
    )
    for path, number, target in includes(host):
        if places.get(target.parts[0], 0) > places.get(path.parts[0], len(places)):
            yield f'host/{path}:{number}: #include "{target}": {path.parts[0]} stands before {target.parts[0]}'


def circle_faults(host):
    """Circles of the compiler's folders. Its own files join the phases, so they include all of them."""
    reached = {}
    for path, _, target in includes(host):
        if path.parts[0] == target.parts[0] == "compiler" and len(path.parts) == len(target.parts) == 3:
            reached.setdefault(path.parts[1], set()).add(target.parts[1])
    for folder in list(reached):
        seen, todo = set(), reached[folder] - {folder}
        while todo:
            seen |= todo
            todo = set().union(*(reached.get(each, set()) for each in todo)) - seen
        if folder in seen:
            yield f"host/compiler/{folder}: its includes lead back to it, through some of {sorted(seen - {folder})}"


def size_faults(sources):
    for root in ROOTS:
        for folder in [sources / root, *sorted((sources / root).rglob("*/"))]:
            count = sum(path.is_file() and not path.name.startswith(".") for path in folder.iterdir())
            if count > MOST_FILES:
                yield f"{folder.relative_to(sources)}: has {count} files of its own; accepted: at most {MOST_FILES}"


def main(sources):
    order = table_order((sources / "docs/architecture.md").read_text())
    assert len(order) > 10, f"the table of docs/architecture.md has only the folders {order}"
    faults = [*order_faults(sources / "host", order), *circle_faults(sources / "host"), *size_faults(sources)]
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


main(pathlib.Path(sys.argv[1]))
