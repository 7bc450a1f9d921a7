"""Runs the programs that compare Strata with PyTorch, on models so small that the comparison means nothing.

Usage: python test_against_torch.py STRATA
"""
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parent
RUN = """
[run]
steps = 3
output = "{folder}/run"
checkpoint_every = 0
eval_every = 0
[model]
{model}
[data]
plugin = "text"
path = "{folder}/text.txt"
validation = 0.1
[batch]
global = 4
micro = 2
[optimizer]
plugin = "adamw"
lr = 1e-3
betas = [0.9, 0.95]
weight_decay = 0.1
clip = 1.0
[device]
plugin = "cpu"
"""
MODELS = {
    "gpt2": 'plugin = "gpt2"\nlayers = 2\nheads = 2\nembed = 16\ncontext = 8\ndropout = 0.0',
    "llama": 'plugin = "llama"\nlayers = 2\nheads = 2\nkv_heads = 1\nembed = 16\nffn = 32\ncontext = 8\nvocab = 256\ntied = "yes"',
}


def run(program, *words):
    command = [sys.executable, BENCH / program, *words]
    print("$", *command, flush=True)
    return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout


def configuration(folder, model):
    path = folder / f"{model}.toml"
    path.write_text(RUN.format(folder=folder, model=MODELS[model]))
    return path


def main(strata, folder):
    text = folder / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 40)
    short = ["--strata", strata, "--data", text, "--rounds", 1, "--steps", 3, "--warmup", 1]
    for model, setting in (("gpt2", "2 ranks x 1 thread"), ("llama", "1 rank x 2 threads")):
        table = run("against_torch.py", *short, "--model", model, "--config", configuration(folder, model),
                    "--setting", setting)
        assert setting in table and "ratio" in table, table
    said = run("validation_against_torch.py", folder / "gpt2.toml", "--data", text)
    assert "validation loss" in said, said


with tempfile.TemporaryDirectory() as temporary:
    main(sys.argv[1], Path(temporary))
