#!/usr/bin/env python3
"""Time and memory of `strata check` for a GPT-2 of 48 layers and width 2048, by number of ranks and by phase.

The ranks are zero-3 x pipeline 8 x tensor 8. All phases run for every class of ranks, and the communication of the
classes is checked side by side. The number of micro-batches is the same for all, so that a phase which costs more for
more ranks has a fault. The verdict is about this machine's memory, which so many ranks do not fit: exit code 2 with that
message is the expected end. Time is processor time.

    python3 tests/bench/compile_speed.py --strata build/release/bin/strata
    python3 tests/bench/compile_speed.py --ranks 1024 --layers 128
"""
import argparse
import os
import re
import subprocess
import tempfile

PIPELINE = 8
TENSOR = 8
MICRO_BATCHES = 16

CONFIGURATION = """
[run]
name = "many-ranks"
steps = 1
eval_every = 0
[model]
plugin = "gpt2"
layers = {layers}
heads = 16
embed = 2048
context = 1024
[data]
path = "{data}"
[batch]
global = {batch}
micro = 1
[device]
plugin = "cpu"
[communicator]
plugin = "local"
[[strategy]]
plugin = "zero"
size = {replicas}
stage = 3
[[strategy]]
plugin = "pipeline"
size = {pipeline}
[[strategy]]
plugin = "tensor"
size = {tensor}
"""

PHASE = re.compile(r"^ *([0-9.]+) s +([0-9]+) MiB  (.+)$", re.MULTILINE)


def check(strata, folder, layers, ranks):
    """Seconds and MiB of each phase."""
    replicas = ranks // (PIPELINE * TENSOR)
    path = os.path.join(folder, "many-ranks.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(CONFIGURATION.format(layers=layers, data=os.path.join(folder, "text.txt"), replicas=replicas,
                                        batch=MICRO_BATCHES * replicas, pipeline=PIPELINE, tensor=TENSOR))
    result = subprocess.run([strata, "check", "--profile", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, check=False)
    if result.returncode != 0 and "bytes, its device has" not in result.stdout:
        raise SystemExit(result.stdout)
    phases = {name: (float(seconds), int(mebibytes)) for seconds, mebibytes, name in PHASE.findall(result.stdout)}
    phases["all"] = tuple(sum(column) for column in zip(*phases.values()))
    return phases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default="build/release/bin/strata")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1024, 16384, 131072])
    parser.add_argument("--layers", type=int, default=48)
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "text.txt"), "w", encoding="ascii") as text:
            text.write("the quick brown fox jumps over the lazy dog. " * 1000)
        for ranks in arguments.ranks:
            results[ranks] = check(arguments.strata, folder, arguments.layers, ranks)
    print(f"{'ranks':24}" + "".join(f"{ranks:>18,}" for ranks in results))
    for name in dict.fromkeys(name for phases in results.values() for name in phases):
        cells = [phases[name] for phases in results.values()]
        print(f"{name:24}" + "".join(f"{seconds:8.3f} s {mebibytes:4d} MiB" for seconds, mebibytes in cells))


if __name__ == "__main__":
    main()
