"""Compares lora with PEFT: loss and gradients of the adapters of a small Llama.

Strata trains a few steps of plain gradient descent so the difference of two checkpoints is the gradient times the rate.
Usage: compare_peft.py STRATA WRITE_PEFT PLUGINS
"""

import array
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
from peft import PeftModel
from safetensors.numpy import load_file
from transformers import LlamaConfig, LlamaForCausalLM

CONTEXT, VOCAB, EMBED, FFN, HEADS, KV_HEADS = 8, 32, 16, 24, 4, 2
STEPS = 6
RATE = 0.25
# What rounding of values in f32 makes of their difference, divided by the rate.
ROUNDING = 5e-7

CONFIGURATION = f"""
[run]
steps = {STEPS}
checkpoint_every = 1
keep_checkpoints = 0
log_every = 1
[model]
plugin = "llama"
layers = 2
heads = {HEADS}
kv_heads = {KV_HEADS}
embed = {EMBED}
ffn = {FFN}
context = {CONTEXT}
vocab = {VOCAB}
[data]
plugin = "tokens"
validation = 0.0
[batch]
global = 2
micro = 1
[optimizer]
plugin = "sgd"
lr = {RATE}
weight_decay = 0.0
clip = 0.0
[device]
plugin = "cpu"
[[strategy]]
plugin = "zero"
size = 2
stage = 1
[[strategy]]
plugin = "lora"
rank = 3
alpha = 12.0
targets = ["*_proj.weight", "lm_head.weight"]
[[strategy]]
plugin = "lora"
rank = 2
alpha = 3.0
targets = ["*embed_tokens*"]
"""


def require(holds, message):
    if not holds:
        sys.exit(message)


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    require(result.returncode == 0, f"{' '.join(command)}: {result.stdout}{result.stderr}")


def read_base(checkpoint):
    """All tensors of a checkpoint that are in one piece."""
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    files = {}
    tensors = {}
    for name, tensor in manifest["tensors"].items():
        piece = tensor["pieces"][0]
        if len(tensor["pieces"]) != 1:
            continue
        if piece["file"] not in files:
            files[piece["file"]] = load_file(checkpoint / piece["file"])
        tensors[name] = files[piece["file"]][piece["key"]].reshape(tensor["shape"])
    return tensors


def base_model(tensors):
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=EMBED, intermediate_size=FFN, num_hidden_layers=2,
                         num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, max_position_embeddings=CONTEXT,
                         rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False)
    model = LlamaForCausalLM(config)
    state = {}
    for name, published in model.state_dict().items():
        values = torch.from_numpy(tensors[name].copy())
        if "_proj." in name:  # the inputs come first
            values = values.reshape(published.shape[1], published.shape[0]).T
        state[name] = values.reshape(published.shape).contiguous()
    model.load_state_dict(state)
    return model.eval()


def gradients(model, tokens):
    """The loss, and the gradient of every adapter under the name in PEFT's file."""
    rows = torch.tensor([tokens])
    logits = model(input_ids=rows[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), rows[:, 1:].reshape(-1))
    loss.backward()
    found = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            found[name.replace(".default", "")] = parameter.grad.numpy()
    return loss.item(), found


def main():
    strata, write_peft, plugins = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tokens = [int(x) for x in numpy.random.default_rng(1).integers(0, VOCAB, CONTEXT + 1)]  # one sample
        (folder / "tokens.bin").write_bytes(array.array("H", tokens).tobytes())
        (folder / "run.toml").write_text(CONFIGURATION)
        run(strata, "train", str(folder / "run.toml"), "--set", f"data.path={folder}/tokens.bin", "--set",
            f"run.output={folder}/run", "--log-json", str(folder / "log.json"))
        for step in (STEPS - 1, STEPS):
            (folder / f"peft{step}").mkdir()
            run(write_peft, str(folder / "run" / "checkpoints" / f"step-{step:08}"), str(folder / f"peft{step}"), plugins)

        base = base_model(read_base(folder / "run" / "checkpoints" / f"step-{STEPS - 1:08}"))
        model = PeftModel.from_pretrained(base, folder / f"peft{STEPS - 1}", is_trainable=True)
        loss, expected = gradients(model, tokens)
        before = load_file(folder / f"peft{STEPS - 1}" / "adapter_model.safetensors")
        after = load_file(folder / f"peft{STEPS}" / "adapter_model.safetensors")
        require(sorted(before) == sorted(expected), f"other adapters: {sorted(before)}, PEFT has {sorted(expected)}")
        worst = 0.0
        for name, gradient in expected.items():
            largest = numpy.abs(gradient).max()
            require(largest > 0, f"{name}: the gradient is zero")
            difference = numpy.abs((before[name] - after[name]) / RATE - gradient).max()
            require(difference < 2e-5 * largest + ROUNDING,
                    f"{name}: the gradient of up to {largest:.2e} differs by {difference:.2e}")
            worst = max(worst, difference)
        losses = [json.loads(line) for line in (folder / "log.json").read_text().splitlines()]
        found = [each["loss"] for each in losses if each.get("step") == STEPS and "loss" in each][0]
        require(abs(found - loss) < 1e-5 * loss, f"loss {found}, PEFT's is {loss}")
        print(f"loss {found:.7f}, PEFT's {loss:.7f}; {len(expected)} gradients differ by less than {worst:.1e}")


main()
