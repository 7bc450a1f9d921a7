#!/usr/bin/env python3
"""The validation loss that PyTorch reaches with a configuration's budget: the same model, batches, optimizer and
learning rates, other random numbers.

    build/release/bin/strata train configs/quickstart.toml --set data.path=FILE
    python3 tests/bench/validation_against_torch.py configs/quickstart.toml --data FILE

The first prints Strata's validation loss, the second PyTorch's; both are nats per byte over the whole validation part,
in windows that do not overlap. Needs PyTorch
(docs/performance.md).
"""
import argparse
import importlib.util
import math
import tomllib
from pathlib import Path

import torch

REPOSITORY = Path(__file__).resolve().parents[2]


def load_peer(path):
    specification = importlib.util.spec_from_file_location("peer", path)
    peer = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(peer)
    return peer


def learning_rate(optimizer, step, steps):
    """The schedules 'constant' and 'warmup_cosine', as Strata has them."""
    schedule, peak = optimizer.get("schedule", {}), optimizer["lr"]
    if schedule.get("kind", "constant") == "constant":
        return peak
    warmup, low = schedule["warmup"], schedule["min_lr"]
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    return low + (peak - low) * 0.5 * (1 + math.cos(math.pi * progress))


@torch.no_grad()
def validation_loss(model, data, context, batch):
    model.eval()
    windows = (len(data) - 1) // context
    total = 0.0
    for first in range(0, windows, batch):
        begins = [w * context for w in range(first, min(first + batch, windows))]
        window = torch.stack([data[b:b + context + 1] for b in begins]).long()
        total += float(model(window[:, :-1], window[:, 1:])) * len(begins)
    model.train()
    return total / windows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--data", required=True, type=Path, help="a text, read as bytes")
    parser.add_argument("--torch", default=REPOSITORY / "tests/bench/torch_gpt2.py", type=Path)
    parser.add_argument("--seed", type=int, default=1337)
    args = parser.parse_args()

    config = tomllib.loads(args.config.read_text())
    model_size, optimizer_keys, batch = config["model"], config["optimizer"], config["batch"]["global"]
    context, steps = model_size["context"], config["run"]["steps"]
    torch.manual_seed(args.seed)
    data = torch.tensor(bytearray(args.data.read_bytes()), dtype=torch.uint8)
    training_size = len(data) - int(len(data) * config["data"]["validation"])
    training, validation = data[:training_size], data[training_size:]

    model = load_peer(args.torch).GPT2(256, context, *(model_size[key] for key in ("layers", "heads", "embed", "dropout")))
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": optimizer_keys["weight_decay"]},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=optimizer_keys["betas"], eps=1e-8)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(optimizer_keys, step, steps)
        begins = torch.randint(len(training) - context, (batch,)).tolist()
        window = torch.stack([training[b:b + context + 1] for b in begins]).long()
        loss = model(window[:, :-1], window[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), optimizer_keys["clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}/{steps}  loss {float(loss.detach()):.4f}", flush=True)
    print(f"validation loss {validation_loss(model, validation, context, batch):.5f} nats per token")


if __name__ == "__main__":
    main()
