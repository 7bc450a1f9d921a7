#!/usr/bin/env python3
"""Two ranks with `overlap` on and off, in alternating rounds: speeds, their ratio, and the share of a step in which
computation waits for communication.

    python3 tests/bench/overlap.py --strata build/release/bin/strata --data ../shared/data/tinyshakespeare.txt
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
WARMUP = 3


def train(arguments, folder, plugin, overlap):
    log = os.path.join(folder, "log.jsonl")
    options = {"data.path": arguments.data, "run.steps": arguments.steps, "run.output": os.path.join(folder, "run"),
               "strategy.0.overlap": "true" if overlap else "false", "device.threads": 1, **plugin}
    command = [arguments.strata, "train", str(REPOSITORY / "configs/bench-ddp.toml"), "--log-json", log]
    for key, value in options.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run(command, check=True, capture_output=True)
    with open(log, encoding="utf-8") as lines:
        steps = [json.loads(line) for line in lines if '"step_seconds"' in line][WARMUP:]
    speed = statistics.median(step["tokens_per_second"] for step in steps)
    waits = statistics.median(step["wait_seconds"] / step["step_seconds"] for step in steps)
    return speed, waits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default="build/release/bin/strata")
    parser.add_argument("--data", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    arguments = parser.parse_args()
    arguments.data = os.path.abspath(arguments.data)
    print("| stack | overlap, tokens/s | waits | no overlap, tokens/s | waits | ratio | by round |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    stacks = {"ddp": {}, "zero 2": {"strategy.0.plugin": "zero", "strategy.0.stage": 2}}
    with tempfile.TemporaryDirectory() as folder:
        for name, plugin in stacks.items():
            found = {True: [], False: []}
            for turn in range(arguments.rounds):
                # Each comes first in every other round, lest what slows the machine down meet one of them only.
                for overlap in (True, False) if turn % 2 == 0 else (False, True):
                    found[overlap].append(train(arguments, folder, plugin, overlap))
            cells = [name]
            for overlap in (True, False):
                speed, waits = (statistics.median(column) for column in zip(*found[overlap]))
                cells += [f"{speed:.0f}", f"{100 * waits:.1f} %"]
            ratios = [on[0] / off[0] for on, off in zip(found[True], found[False])]
            cells.append(f"{statistics.median(ratios):.3f}")
            cells.append(", ".join(f"{ratio:.2f}" for ratio in ratios))
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
