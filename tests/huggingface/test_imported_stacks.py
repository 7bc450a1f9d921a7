"""Proves that models that Strata imported from transformers train under every strategy as on one rank, in float64.

`strata verify` compares losses, gradient norms and all parameters with those of one rank, within 1e-9. No combination is
refused.
"""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# It sets what transformers reads when it is imported.
from small_models import *

import numpy

FAMILIES = ["gpt2", "llama2", "llama3", "mistral", "qwen2", "qwen3", "smollm3", "olmo2", "gemma2", "gemma3"]

# Name: the strategies, as in a configuration.
STACKS = {
    "ddp": '{plugin="ddp", size=2}',
    "dataparallel": '{plugin="dataparallel", size=2}',
    "zero_1": '{plugin="zero", size=2, stage=1}',
    "zero_2": '{plugin="zero", size=2, stage=2}',
    "zero_3": '{plugin="zero", size=2, stage=3}',
    "zero_offload": '{plugin="zero", size=2, stage=3, offload_optimizer="host", offload_param="host"}',
    "tensor": '{plugin="tensor", size=2}',
    "sequence_parallel": '{plugin="tensor", size=2, sequence_parallel=true}',
    "ring": '{plugin="context", size=2, attention="ring"}',
    "all_gather": '{plugin="context", size=2, attention="all_gather"}',
    "ulysses": '{plugin="context", size=2, attention="ulysses"}',
    "pipeline": '{plugin="pipeline", size=2}',
    "recompute": '{plugin="recompute", policy="full"}',
    "precision": '{plugin="precision"}, {plugin="ddp", size=2}',
    "lora": '{plugin="lora", rank=2}, {plugin="zero", size=2, stage=3}',
    "localsgd": '{plugin="localsgd", size=2, steps=2}',
    "compress": '{plugin="compress", size=2, rank=2}',
    "all": '{plugin="zero", size=2, stage=3}, {plugin="tensor", size=2, sequence_parallel=true}, '
           '{plugin="context", size=2}, {plugin="pipeline", size=2}, {plugin="recompute", policy="full"}',
}

CONFIGURATION = """
[run]
steps = 3
[model]
from = "{start}"
[data]
plugin = "tokens"
path = "{data}"
validation = 0.1
[batch]
global = 8
micro = 2
[optimizer]
plugin = "adamw"
lr = 1e-2
clip = 1.0
"""


def prove(file, family, stack):
    run = subprocess.run([STRATA, "verify", file, "--full", "--set", f"strategy=[{STACKS[stack]}]"],
                         capture_output=True, text=True)
    check(run.returncode == 0, f"{family} under {stack}: exit code {run.returncode}: {run.stdout}{run.stderr}")


def imported(folder, family):
    """A configuration that starts from the imported model."""
    folder.mkdir()
    saved(folder / "original", family)
    strata("import", folder / "original", folder / "imported")
    data = numpy.random.default_rng(5).integers(0, VOCAB, 64 * (CONTEXT + 1))
    data.astype("uint16").tofile(folder / "data")
    file = folder / "run.toml"
    file.write_text(CONFIGURATION.format(start=folder / "imported", data=folder / "data"))
    return file


with tempfile.TemporaryDirectory() as temporary:
    files = {family: imported(Path(temporary) / family, family) for family in FAMILIES}
    cases = [(files[family], family, stack) for family in FAMILIES for stack in STACKS]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(prove, *zip(*cases)))
print(f"{len(cases)} stacks, {len(failures)} failures")
sys.exit(1 if failures else 0)
