#!/usr/bin/env python3
"""Two ranks with `overlap` on and off: speeds, their ratio, and the share of a step in which computation waits for
communication.

Both runs live at once and take turns step by step, each stopped while the other one works: what slows a shared machine
down for seconds or minutes meets both.

    python3 tests/bench/overlap.py --strata build/release/bin/strata --data tinyshakespeare.txt
"""
import argparse
import os
import statistics
import tempfile
from pathlib import Path

from stoppable_run import take_turns

REPOSITORY = Path(__file__).resolve().parents[2]
WARMUP = 3
STACKS = {"ddp": 'plugin="ddp"', "zero 2": 'plugin="zero", stage=2'}


def measure(arguments, folder, strategy):
    """\\return tokens per second and shares of waiting, one per step, with and without overlap."""
    speeds, waits = {True: [], False: []}, {True: [], False: []}
    options = {overlap: {"data.path": arguments.data,
                         "strategy": f"[{{{strategy}, size=2, overlap={str(overlap).lower()}}}]"}
               for overlap in (True, False)}
    for overlap, seconds, line in take_turns(arguments.strata, arguments.config, folder, options, WARMUP,
                                             arguments.steps):
        speeds[overlap].append(line["tokens_per_second"] * line["step_seconds"] / seconds)
        waits[overlap].append(line["wait_seconds"] / seconds)
    return speeds, waits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default="build/release/bin/strata")
    parser.add_argument("--config", default=str(REPOSITORY / "configs/bench-ddp.toml"))
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, default=40, help="of each run")
    arguments = parser.parse_args()
    arguments.data = os.path.abspath(arguments.data)
    print("| stack | overlap, tokens/s | waits | no overlap, tokens/s | waits | ratio | quartiles of a step's ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, strategy in STACKS.items():
        with tempfile.TemporaryDirectory() as folder:
            speeds, waits = measure(arguments, folder, strategy)
        cells = [name]
        for overlap in (True, False):
            cells += [f"{statistics.median(speeds[overlap]):.0f}", f"{100 * statistics.median(waits[overlap]):.1f} %"]
        low, middle, high = statistics.quantiles([on / off for on, off in zip(speeds[True], speeds[False])], n=4)
        print("| " + " | ".join(cells + [f"{middle:.3f}", f"{low:.2f}, {high:.2f}"]) + " |", flush=True)


if __name__ == "__main__":
    main()
