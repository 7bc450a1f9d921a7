#!/usr/bin/env python3
"""Time and memory of `strata check` for GPT-2 1558M on 1024 ranks: dp 16, pp 8, tp 8.

All phases run for every class of ranks, and the communication of all 1024 ranks is checked side by side. The verdict is
about this machine's memory, which 1024 ranks do not fit: exit code 2 with that message is the expected end.

    python3 tests/bench/compile_speed.py --strata build/release/bin/strata
"""
import argparse
import os
import resource
import subprocess
import tempfile
import time

CONFIGURATION = """
[run]
name = "thousand"
steps = 1
eval_every = 0
[model]
plugin = "gpt2"
size = "gpt2-1558m"
[data]
path = "{data}"
[batch]
global = 512
micro = 1
[device]
plugin = "cpu"
[communicator]
plugin = "local"
[[strategy]]
plugin = "ddp"
size = 16
[[strategy]]
plugin = "pipeline"
size = 8
[[strategy]]
plugin = "tensor"
size = 8
sequence_parallel = true
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default="build/release/bin/strata")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "text.txt")
        with open(data, "w", encoding="ascii") as text:
            text.write("the quick brown fox jumps over the lazy dog. " * 1000)
        path = os.path.join(folder, "thousand.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(data=data))
        begin = time.perf_counter()
        result = subprocess.run([arguments.strata, "check", path], capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - begin
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    verdict = (result.stdout + result.stderr).strip()
    if result.returncode != 0 and "bytes, its device has" not in verdict:
        raise SystemExit(verdict)
    print(f"{seconds:.1f} s, {memory:.0f} MiB: {verdict}")


if __name__ == "__main__":
    main()
