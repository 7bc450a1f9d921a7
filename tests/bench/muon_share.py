#!/usr/bin/env python3
"""The share of a step that Muon takes beyond AdamW, on one and more ranks of `zero`, one thread each.

A run with AdamW and one with Muon for the matrices of the blocks live at once and take turns step by step. Tokens are
random, because speed does not depend on them.

    python3 tests/bench/muon_share.py --strata build/release/bin/strata
"""
import argparse
import os
import random
import statistics
import tempfile
from array import array
from pathlib import Path

from stoppable_run import take_turns

REPOSITORY = Path(__file__).resolve().parents[2]
WARMUP = 1
VOCABULARY = 50257
MUON = '[{parameters=["h.*.attn.*.weight", "h.*.mlp.*.weight"], plugin="muon"}]'


def measure(arguments, folder, ranks):
    """\return seconds of each step, by optimizer."""
    seconds = {"adamw": [], "muon": []}
    options = {"data.path": os.path.join(folder, "tokens.bin"), "run.eval_every": 0, "run.checkpoint_every": 0,
               "batch.global": ranks, "batch.micro": 1, "model.context": arguments.context,
               "strategy": f'[{{plugin="zero", size={ranks}, stage={arguments.stage}}}]'}
    own = os.path.join(folder, str(ranks))
    os.mkdir(own)
    for name, each, _ in take_turns(arguments.strata, arguments.config, own,
                                    {"adamw": options, "muon": {**options, "optimizer.group": MUON}}, WARMUP,
                                    arguments.steps):
        seconds[name].append(each)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default="build/release/bin/strata")
    parser.add_argument("--config", default=str(REPOSITORY / "configs/gpt2-124m.toml"))
    parser.add_argument("--context", type=int, default=1024, help="tokens of a rank's sequence")
    parser.add_argument("--stage", type=int, default=1, help="of zero")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--steps", type=int, default=3, help="of each run")
    arguments = parser.parse_args()
    print("| ranks of zero | tokens per step | AdamW, seconds per step | Muon | Muon's share of its step |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        tokens = array("H", random.Random(1).choices(range(VOCABULARY), k=1 << 18))
        Path(folder, "tokens.bin").write_bytes(tokens.tobytes())
        for ranks in arguments.ranks:
            seconds = measure(arguments, folder, ranks)
            adamw, muon = (statistics.median(seconds[name]) for name in ("adamw", "muon"))
            share = statistics.median((b - a) / b for a, b in zip(seconds["adamw"], seconds["muon"]))
            print(f"| {ranks} | {ranks * arguments.context} | {adamw:.1f} | {muon:.1f} | {100 * share:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
