#!/usr/bin/env python3
"""A mixture on two ranks: its experts sharded by `expert`, against copies of them on both ranks by `ddp`. Speeds and
their ratio.

Both runs live at once and take turns step by step, each stopped while the other one works: what slows a shared machine
down for seconds or minutes meets both.

    python3 tests/bench/expert_against_ddp.py --strata build/release/bin/strata --data tinyshakespeare.txt
"""
import argparse
import os
import statistics
import tempfile
from pathlib import Path

from stoppable_run import take_turns

REPOSITORY = Path(__file__).resolve().parents[2]
STRATEGIES = ("expert", "ddp")


def measure(arguments, folder, options):
    """\\return tokens per second of each strategy, one per step."""
    speeds = {each: [] for each in STRATEGIES}
    own = {each: {"data.path": arguments.data, "strategy": f'[{{plugin="{each}", size=2}}]', **options}
           for each in STRATEGIES}
    for strategy, seconds, line in take_turns(arguments.strata, arguments.config, folder, own, arguments.warmup,
                                              arguments.steps):
        speeds[strategy].append(line["tokens_per_second"] * line["step_seconds"] / seconds)
    return speeds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default="build/release/bin/strata")
    parser.add_argument("--config", default=str(REPOSITORY / "configs/mixture.toml"))
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, default=40, help="of each run")
    parser.add_argument("--warmup", type=int, default=12, help="steps before them")
    parser.add_argument("--ffn", type=int, nargs="+", default=[192, 768], help="inner widths of an expert")
    arguments = parser.parse_args()
    arguments.data = os.path.abspath(arguments.data)
    print("| inner width | expert, tokens/s | ddp, tokens/s | ratio | quartiles of a step's ratio |")
    print("| --- | --- | --- | --- | --- |")
    for ffn in arguments.ffn:
        with tempfile.TemporaryDirectory() as folder:
            speeds = measure(arguments, folder, {"model.ffn": ffn, "run.eval_every": 0})
        cells = [str(ffn)] + [f"{statistics.median(speeds[strategy]):.0f}" for strategy in STRATEGIES]
        low, middle, high = statistics.quantiles([a / b for a, b in zip(*speeds.values())], n=4)
        print("| " + " | ".join(cells + [f"{middle:.3f}", f"{low:.2f}, {high:.2f}"]) + " |", flush=True)


if __name__ == "__main__":
    main()
