#!/usr/bin/env python3
"""Planned memory against the published formulas: the tables of docs/memory.md.

Nothing is trained: `strata explain --json` plans exactly what a run would allocate.

    python3 tests/bench/memory_tables.py --strata build/release/bin/strata [zero|activations|ring]
"""
import argparse
import json
import os
import subprocess
import tempfile

CONFIGURATION = """
[run]
name = "memory"
steps = 1
eval_every = 0
[model]
plugin = "gpt2"
{model}
[data]
path = "{data}"
[batch]
global = {batch}
micro = {micro}
[optimizer]
plugin = "adamw"
[device]
plugin = "cpu"
[communicator]
plugin = "local"
{strategies}
"""


def strategy(plugin, **options):
    values = {True: "true", False: "false"}
    lines = [f"{key} = " + (values[value] if isinstance(value, bool) else json.dumps(value))
             for key, value in options.items()]
    return f'[[strategy]]\nplugin = "{plugin}"\n' + "\n".join(lines) + "\n"


class Planner:
    def __init__(self, strata):
        self.strata = strata
        self.folder = tempfile.TemporaryDirectory()
        self.data = os.path.join(self.folder.name, "text.txt")
        with open(self.data, "w", encoding="ascii") as text:
            text.write("the quick brown fox jumps over the lazy dog. " * 20000)

    def plan(self, model, strategies, batch=1, micro=1):
        """Rank 0's planned bytes by kind, and the arena's."""
        path = os.path.join(self.folder.name, "memory.toml")
        fields = "\n".join(f"{key} = {json.dumps(value)}" for key, value in model.items())
        with open(path, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(model=fields, data=self.data, batch=batch, micro=micro,
                                            strategies="".join(strategies)))
        result = subprocess.run([self.strata, "explain", path, "--json"], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise SystemExit(result.stderr or result.stdout)
        report = json.loads(result.stdout)
        rank = report["ranks"][0]
        return {**rank["bytes_at_peak"], "arena": rank["planned_peak_bytes"],
                "persistent": rank["persistent_bytes"], "parameters": report["parameters"]}


def row(cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def zero(planner):
    """ZeRO paper, figure 1: 7.5 B parameters on 64 ranks, mixed precision: 16 bytes per parameter without ZeRO."""
    model = {"layers": 37, "heads": 32, "embed": 4096, "context": 8, "vocab": 256, "dropout": 0.0}
    precision = strategy("precision", compute="bf16", reduce="bf16")
    row(["stage", "published, GB", "planned between steps, GB", "planned peak, GB"])
    row(["---"] * 4)
    for stage in range(4):
        stack = strategy("ddp", size=64) if stage == 0 else strategy("zero", size=64, stage=stage)
        planned = planner.plan(model, [stack, precision], batch=64)
        count = planned["parameters"]
        published = [16 * count, 4 * count + 12 * count / 64, 2 * count + 14 * count / 64, 16 * count / 64][stage]
        row([stage, f"{published / 1e9:.2f}", f"{planned['persistent'] / 1e9:.2f}", f"{planned['arena'] / 1e9:.2f}"])


def activations(planner):
    """Korthikanti et al., table 2: bytes of activations of one block in 16 bits, s tokens, b sequences, h wide, a heads."""
    s, b, h, a = 1024, 4, 1024, 16
    sbh = s * b * h
    scores = 5 * a * s / h
    precision = strategy("precision", compute="bf16")
    cases = [("no parallelism", [], sbh * (34 + scores)),
             ("tensor 4", [strategy("tensor", size=4)], sbh * (10 + 24 / 4 + scores / 4)),
             ("tensor 4, sequence", [strategy("tensor", size=4, sequence_parallel=True)], sbh / 4 * (34 + scores)),
             ("tensor 4, sequence, selective recompute",
              [strategy("tensor", size=4, sequence_parallel=True), strategy("recompute", policy="selective")],
              sbh / 4 * 34),
             ("full recompute", [strategy("recompute", policy="full")], sbh * 2)]
    row(["stack", "published, MiB", "planned, MiB", "planned / published"])
    row(["---"] * 4)
    for name, stack, published in cases:
        def alive(layers):
            model = {"layers": layers, "heads": a, "embed": h, "context": s, "vocab": 256, "dropout": 0.1}
            return planner.plan(model, stack + [precision], batch=b, micro=b).get("activation", 0)
        block = (alive(8) - alive(4)) / 4
        row([name, f"{published / 2**20:.1f}", f"{block / 2**20:.1f}", f"{block / published:.2f}"])


def ring(planner):
    """Peak activations of a rank at 1024 tokens per rank, context and axis growing together."""
    row(["ranks", "context", "ring, MiB", "all_gather, MiB"])
    row(["---"] * 4)
    for ranks in (1, 2, 4, 8):
        model = {"layers": 4, "heads": 8, "embed": 512, "context": 1024 * ranks, "vocab": 256, "dropout": 0.0}
        cells = []
        for attention in ("ring", "all_gather"):
            stack = [strategy("context", size=ranks, attention=attention)]
            planned = planner.plan(model, stack)
            cells.append((planned.get("activation", 0) + planned.get("communication", 0)) / 2**20)
        row([ranks, 1024 * ranks, f"{cells[0]:.1f}", f"{cells[1]:.1f}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default="build/release/bin/strata")
    tables = ["zero", "activations", "ring"]
    # Not `choices`: before Python 3.12 argparse refuses an empty list of them.
    parser.add_argument("table", nargs="*", metavar="|".join(tables))
    arguments = parser.parse_args()
    for name in arguments.table:
        if name not in tables:
            parser.error(f"found '{name}'; accepted: {', '.join(tables)}")
    planner = Planner(arguments.strata)
    for name in arguments.table or tables:
        print(f"\n{name}\n")
        globals()[name](planner)


if __name__ == "__main__":
    main()
