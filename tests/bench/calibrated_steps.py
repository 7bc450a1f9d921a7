#!/usr/bin/env python3
"""Predicted and measured steps of 24 stacks on this machine, after `strata calibrate`.

`strata simulate` predicts each stack from one cluster file. Then every stack trains some steps, in several rounds over
all stacks, so that a disturbance of the machine meets different ones. A stack's time is the least median of its rounds.
The file is measured first: by default for the kernels of these 24 configurations, with --general for those of sample
models. --cluster takes one that was measured before. The machine must have nothing else to do.

    python3 tests/bench/calibrated_steps.py --strata build/release/bin/strata
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile

GPT2 = {"plugin": "gpt2", "layers": 4, "heads": 4, "embed": 128, "context": 128, "dropout": 0.0}
DROPOUT = {**GPT2, "dropout": 0.1}
WIDE = {"plugin": "gpt2", "layers": 2, "heads": 8, "embed": 256, "context": 64, "dropout": 0.0}
LONG = {**GPT2, "context": 512}
LLAMA = {"plugin": "llama", "layers": 4, "heads": 4, "kv_heads": 2, "embed": 128, "ffn": 344, "context": 128}

BF16 = {"plugin": "precision", "compute": "bf16"}


def ddp(size):
    return {"plugin": "ddp", "size": size}


def zero(stage, size=2):
    return {"plugin": "zero", "size": size, "stage": stage}


def tensor(**options):
    return {"plugin": "tensor", "size": 2, **options}


def pipeline(schedule="1f1b", size=2):
    return {"plugin": "pipeline", "size": size, "schedule": schedule}


def context(attention):
    return {"plugin": "context", "size": 2, "attention": attention}


def recompute(policy):
    return {"plugin": "recompute", "policy": policy}


# Name, model, sequences of a step and of a micro-batch, strategies.
STACKS = [
    ("gpt2", GPT2, 16, 8, []),
    ("gpt2-bf16", GPT2, 16, 8, [BF16]),
    ("gpt2-dropout", DROPOUT, 16, 4, []),
    ("gpt2-wide", WIDE, 16, 8, []),
    ("llama", LLAMA, 16, 8, []),
    ("recompute-full", GPT2, 16, 8, [recompute("full")]),
    ("recompute-selective", LLAMA, 16, 8, [recompute("selective")]),
    ("ddp-2", GPT2, 16, 8, [ddp(2)]),
    ("ddp-2-bf16", GPT2, 16, 8, [ddp(2), BF16]),
    ("zero1-2", WIDE, 16, 4, [zero(1)]),
    ("zero2-2", GPT2, 16, 4, [zero(2)]),
    ("zero3-2", GPT2, 16, 8, [zero(3)]),
    ("zero3-2-bf16", LLAMA, 16, 8, [zero(3), BF16]),
    ("tensor-2", GPT2, 16, 8, [tensor()]),
    ("tensor-2-sequence", WIDE, 16, 8, [tensor(sequence_parallel=True)]),
    ("tensor-2-bf16", LLAMA, 16, 8, [tensor(), BF16]),
    ("pipeline-2", GPT2, 16, 2, [pipeline()]),
    ("pipeline-2-gpipe", LLAMA, 16, 4, [pipeline("gpipe")]),
    ("context-2-ring", LONG, 4, 2, [context("ring")]),
    ("context-2-ulysses", LONG, 4, 2, [context("ulysses")]),
    ("ddp-4", GPT2, 16, 4, [ddp(4)]),
    ("zero3-4", GPT2, 16, 4, [zero(3, 4)]),
    ("pipeline-2-ddp-2", GPT2, 16, 2, [pipeline(), ddp(2)]),
    ("zero2-2-tensor-2", LLAMA, 16, 4, [zero(2), tensor()]),
]
# Steps of a run that do not count, because memory is touched for the first time.
WARM_UP = 3


def toml(value):
    return json.dumps(value)  # its words, numbers and flags are those of TOML


def table(name, values):
    return f"[{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in values.items())


def write_text(folder):
    path = os.path.join(folder, "input.txt")
    letters = random.Random(1)
    with open(path, "w", encoding="ascii") as file:
        file.write("".join(letters.choices("abcdefghij klmno\n", k=200_000)))
    return path


def write_configuration(path, name, model, batch, micro, strategies, text, steps):
    parts = [
        table("run", {"name": name, "steps": steps, "output": os.path.join(os.path.dirname(path), "runs", name),
                      "eval_every": 0, "checkpoint_every": 0}),
        table("model", model),
        table("data", {"plugin": "text", "path": text, "tokenizer": "bytes", "validation": 0.1}),
        table("batch", {"global": batch, "micro": micro}),
        table("optimizer", {"plugin": "adamw", "lr": 1e-4}),
        table("device", {"plugin": "cpu"}),
        table("communicator", {"plugin": "local"}),
    ] + [table("[strategy]", each) for each in strategies]
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(parts))


def write_configurations(folder, steps):
    text = write_text(folder)
    paths = {}
    for name, model, batch, micro, strategies in STACKS:
        paths[name] = os.path.join(folder, name + ".toml")
        write_configuration(paths[name], name, model, batch, micro, strategies, text, steps)
    return paths


def measured_seconds(strata, path, folder):
    """Median of a run's steps."""
    log = os.path.join(folder, "log.jsonl")
    if os.path.exists(log):
        os.remove(log)
    subprocess.run([strata, "train", path, "--overwrite", "--log-json", log], check=True, capture_output=True)
    with open(log, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    steps = [record["step_seconds"] for record in records if "loss" in record and "event" not in record]
    return statistics.median(steps[WARM_UP:])


def calibrate(strata, configurations, folder):
    """The file of `strata calibrate` for the kernels of these configurations, or of sample models if there are none."""
    output = os.path.join(folder, "machine.toml")
    command = [strata, "calibrate", output]
    for path in configurations:
        command += ["--for", path]
    subprocess.run(command, check=True)
    return output


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strata", default="build/release/bin/strata")
    parser.add_argument("--cluster", help="a file of strata calibrate")
    parser.add_argument("--general", action="store_true", help="calibrate with sample models")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = write_configurations(folder, arguments.steps)
        cluster = arguments.cluster or calibrate(arguments.strata, [] if arguments.general else paths.values(), folder)
        predicted = {}
        for name, path in paths.items():
            command = [arguments.strata, "simulate", path, "--json", "--cluster", cluster]
            predicted[name] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["step_seconds"]
        rounds = {name: [] for name in paths}
        for _ in range(arguments.rounds):
            for name, path in paths.items():
                rounds[name].append(measured_seconds(arguments.strata, path, folder))
    print(f"{'stack':<22} {'predicted':>10} {'measured':>10} {'error':>8}   {'rounds differ by':>16}")
    errors = []
    for name, seconds in rounds.items():
        best = min(seconds)
        errors.append(predicted[name] / best - 1)
        print(f"{name:<22} {1e3 * predicted[name]:>7.2f} ms {1e3 * best:>7.2f} ms {100 * errors[-1]:>+7.1f}%"
              f"   {100 * (max(seconds) / best - 1):>15.1f}%")
    mean = statistics.mean(abs(error) for error in errors)
    print(f"mean absolute error {100 * mean:.1f}%, bias {100 * statistics.mean(errors):+.1f}%")


if __name__ == "__main__":
    main()
