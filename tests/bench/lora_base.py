#!/usr/bin/env python3
"""What a base of lora in 8 or 4 bits costs: seconds of a step, and loss.

Speed: a Llama of 100 M parameters is trained with each base. The runs live at once and take turns step by step. Loss: a
small Llama is trained on a text, then adapted with each base to the same text in capitals.

    python3 tests/bench/lora_base.py --text input.txt
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
from array import array
from pathlib import Path

from stoppable_run import take_turns

REPOSITORY = Path(__file__).resolve().parents[2]
BASES = ["full", "int8", "nf4"]
SMALL = """
[run]
steps = {steps}
eval_every = {steps}
checkpoint_every = 0
output = "{output}"
[model]
{model}
[data]
plugin = "text"
path = "{text}"
tokenizer = "bytes"
validation = 0.1
[batch]
global = 16
[optimizer]
plugin = "adamw"
lr = {rate}
schedule = {{ kind = "warmup_cosine", warmup = {warmup}, min_lr = 1e-4 }}
[device]
plugin = "cpu"
{strategy}
"""
MODEL = 'plugin = "llama"\nlayers = 4\nheads = 4\nkv_heads = 2\nembed = 256\nffn = 704\ncontext = 128'


def lora(base):
    return f'[[strategy]]\nplugin = "lora"\nrank = 8\nbase = "{base}"\n'


def seconds_of_steps(arguments, folder):
    seconds = {base: [] for base in BASES}
    tokens = array("H", random.Random(1).choices(range(32000), k=1 << 16))
    Path(folder, "tokens.bin").write_bytes(tokens.tobytes())
    options = {"data": f'{{plugin="tokens", path="{folder}/tokens.bin"}}', "batch.global": 2,
               "model.vocab": 32000}
    own = {base: {**options, "strategy": f'[{{plugin="lora", targets=["*_proj.weight"], base="{base}"}}]'} for base in BASES}
    for base, each, _ in take_turns(arguments.strata, arguments.config, folder, own, 1, arguments.rounds):
        seconds[base].append(each)
    return seconds


def train(arguments, folder, name, text, model, steps, rate, strategy=""):
    """Trains and returns the training loss of the first step, and the validation loss after the last."""
    path = folder / f"{name}.toml"
    path.write_text(SMALL.format(steps=steps, output=folder / name, model=model, text=text, rate=rate,
                                 strategy=strategy, warmup=min(20, steps)))
    log = folder / f"{name}.json"
    subprocess.run([arguments.strata, "train", path, "--log-json", log], check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return lines[0]["loss"], [line["eval_loss"] for line in lines if "eval_loss" in line][-1]


def losses_of_bases(arguments, folder):
    text = Path(arguments.text).read_text()
    (folder / "capitals.txt").write_text(text.upper())
    train(arguments, folder, "begin", os.path.abspath(arguments.text), MODEL, arguments.steps, 2e-3)
    start = f'from = "{folder}/begin"'
    return {base: train(arguments, folder, "adapt-" + base, folder / "capitals.txt", start, arguments.steps, 3e-3,
                        lora(base)) for base in BASES}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default="build/release/bin/strata")
    parser.add_argument("--config", default=str(REPOSITORY / "configs/bench-llama.toml"), help="the large model")
    parser.add_argument("--text", required=True)
    parser.add_argument("--rounds", type=int, default=4, help="steps of each run of the large model")
    parser.add_argument("--steps", type=int, default=300, help="of each run of the small model")
    arguments = parser.parse_args()
    arguments.strata = os.path.abspath(arguments.strata)
    with tempfile.TemporaryDirectory() as folder:
        seconds = seconds_of_steps(arguments, folder)
        losses = losses_of_bases(arguments, Path(folder))
    print("| base | seconds a step | of the full base | first loss | validation loss |")
    print("|---|---|---|---|---|")
    for base in BASES:
        ratio = statistics.median(a / b for a, b in zip(seconds[base], seconds["full"]))
        first, last = losses[base]
        print(f"| {base} | {statistics.median(seconds[base]):.2f} | {ratio:.3f} | {first:.4f} | {last:.4f} |")


if __name__ == "__main__":
    main()
