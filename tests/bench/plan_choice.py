#!/usr/bin/env python3
"""The planner's choice on this machine beside the best of all stacks that are trained.

For each of three models, `strata plan` chooses from a cluster file that `strata calibrate` wrote for them. Then the
choice, the other plans that it printed and a list of stacks train some steps each, in several rounds over all of them,
each in another order. A stack's time is the least median of its rounds. The machine must have nothing else to do.

    python3 tests/bench/plan_choice.py --strata build/release/bin/strata
"""
import argparse
import json
import os
import random
import subprocess
import tempfile

from calibrated_steps import (GPT2, LLAMA, WIDE, calibrate, context, ddp, measured_seconds, pipeline,
                              recompute, tensor, write_configuration, write_text, zero)

# Name, model, and sequences of a step.
MODELS = [
    ("gpt2", GPT2, 16),
    ("gpt2-wide", {**WIDE, "embed": 512, "context": 128}, 8),
    ("llama-long", {**LLAMA, "context": 512}, 4),
]
# Strategies of the stacks with which the plans are compared. Each is trained with the largest micro-batch and with a
# quarter of it.
OTHERS = [
    [],
    [ddp(2)],
    [zero(1)],
    [zero(2)],
    [zero(3)],
    [tensor()],
    [tensor(sequence_parallel=True)],
    [pipeline()],
    [pipeline("gpipe")],
    [context("ring")],
    [ddp(2), recompute("selective")],
]


def plans(strata, path, cluster):
    """The configurations of the planner's table, best first, and what it calls them."""
    command = [strata, "plan", path, "--json", "--cluster", cluster]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return [(each["plan"], each["step_seconds"], each["configuration"]) for each in report["plans"]]


def stacks(arguments, folder, text, model, batch):
    """Writes every stack that is trained beside the plans. Returns its name and path."""
    made = []
    for strategies in OTHERS:
        ranks = max([each["size"] for each in strategies if "size" in each], default=1)
        share = batch if any(each["plugin"] in ("tensor", "pipeline", "context") for each in strategies) else batch // ranks
        for micro in sorted({share, max(1, share // 4)}):
            words = [" ".join(str(value) for value in each.values()) for each in strategies]
            name = " · ".join(words or ["one rank"]) + f" · micro-batch {micro}"
            path = os.path.join(folder, f"{model['plugin']}-{model['embed']}-{len(made)}.toml")
            write_configuration(path, "stack", model, batch, micro, strategies, text, arguments.steps)
            made.append((name, path))
    return made


def compare(arguments, name, model, batch, cluster, text):
    with tempfile.TemporaryDirectory() as folder:
        base = os.path.join(folder, "base.toml")
        write_configuration(base, "base", model, batch, 1, [], text, arguments.steps)
        compared = stacks(arguments, folder, text, model, batch)
        predicted = {}
        for number, (plan, seconds, configuration) in enumerate(plans(arguments.strata, base, cluster)):
            path = os.path.join(folder, f"plan{number}.toml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(configuration)
            label = f"plan {number + 1}: {plan}"
            predicted[label] = seconds
            compared.append((label, path))
        rounds = {label: [] for label, _ in compared}
        order = random.Random(1)
        for _ in range(arguments.rounds):
            order.shuffle(compared)
            for label, path in compared:
                rounds[label].append(measured_seconds(arguments.strata, path, folder))
    best = min(min(seconds) for seconds in rounds.values())
    print(f"\n{name}\n{'measured':>12} {'predicted':>12}   {'over best':>9}")
    for label, seconds in sorted(rounds.items(), key=lambda each: min(each[1])):
        guess = f"{1e3 * predicted[label]:>9.2f} ms" if label in predicted else " " * 12
        print(f"{1e3 * min(seconds):>9.2f} ms {guess}   {100 * (min(seconds) / best - 1):>+8.1f}%   {label}")
    choice = next(label for label in rounds if label.startswith("plan 1:"))
    return min(rounds[choice]) / best - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strata", default="build/release/bin/strata")
    parser.add_argument("--cluster", help="a file of strata calibrate")
    parser.add_argument("--model", choices=[name for name, _, _ in MODELS], help="only this one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = write_text(folder)
        measured = [path for _, model, batch in MODELS for _, path in stacks(arguments, folder, text, model, batch)]
        cluster = arguments.cluster or calibrate(arguments.strata, measured, folder)
        losses = {name: compare(arguments, name, model, batch, cluster, text)
                  for name, model, batch in MODELS if arguments.model in (None, name)}
    print()
    for name, loss in losses.items():
        print(f"{name}: the plan takes {100 * loss:.1f}% more than the best of all")


if __name__ == "__main__":
    main()
