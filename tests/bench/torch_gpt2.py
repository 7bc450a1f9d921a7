#!/usr/bin/env python3
"""A GPT-2 in PyTorch, trained on the CPU or on one GPU: what tests/bench/against_torch.py compares Strata with.

Pre-norm blocks, learned positions, GELU (tanh), tied embeddings, biases everywhere. With --ranks N above 1 it starts N
processes of one DistributedDataParallel over gloo, or of fully_shard with --fsdp.

Rank 0 prints one line of JSON a step, {"step", "loss", "tokens_per_second"}, and last {"peak_rss_bytes", ...}, which is
the most that tensors had at a time if the device is a GPU.
"""
import argparse
import json
import math
import os
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, embed, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(embed), nn.LayerNorm(embed)
        self.qkv, self.projection = nn.Linear(embed, 3 * embed), nn.Linear(embed, embed)
        self.up, self.down = nn.Linear(embed, 4 * embed), nn.Linear(4 * embed, embed)

    def attention(self, x):
        batch, tokens, embed = x.shape
        split = self.qkv(x).view(batch, tokens, 3, self.heads, embed // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.projection(y.transpose(1, 2).reshape(batch, tokens, embed))

    def forward(self, x):
        x = x + F.dropout(self.attention(self.ln_1(x)), self.dropout, self.training)
        y = self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))
        return x + F.dropout(y, self.dropout, self.training)


class GPT2(nn.Module):
    def __init__(self, vocab, context, layers, heads, embed, dropout):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, embed), nn.Embedding(context, embed)
        self.blocks = nn.ModuleList(Block(embed, heads, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(embed)
        self.dropout = dropout
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                ends_branch = name.endswith(("projection.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * layers) if ends_branch else 1))

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        x = F.dropout(x, self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def distributed(model, args):
    if args.ranks == 1:
        return model
    if not args.fsdp:
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def batches(args, rank, device):
    """Endless micro-batches of tokens and their successors; one token a byte of the file."""
    with open(args.data, "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(1 + rank)
    while True:
        starts = torch.randint(len(data) - args.context - 1, (args.micro,), generator=generator)
        window = torch.stack([data[start:start + args.context + 1] for start in starts]).long().to(device)
        yield window[:, :-1], window[:, 1:]


def train_step(model, optimizer, data, micro_batches, args):
    total = 0.0
    for number in range(micro_batches):
        if args.ranks > 1 and not args.fsdp:
            model.require_backward_grad_sync = number == micro_batches - 1
        with torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = model(*next(data)) / micro_batches
        loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    # Waits for a GPU.
    return float(total)


def make_optimizer(model, args):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                             lr=args.lr, betas=(0.9, 0.95), fused=args.fused)


def peak_bytes(args):
    if args.device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def worker(rank, args):
    torch.manual_seed(1337)
    torch.set_num_threads(args.threads)
    if args.ranks > 1:
        torch.distributed.init_process_group("nccl" if args.device == "cuda" else "gloo", rank=rank,
                                             init_method=f"tcp://127.0.0.1:{args.port}", world_size=args.ranks)
    device = torch.device("cuda", rank) if args.device == "cuda" else torch.device("cpu")
    sizes = (args.vocab, args.context, args.layers, args.heads, args.embed, args.dropout)
    model = distributed(GPT2(*sizes).to(device), args)
    optimizer = make_optimizer(model, args)
    if args.compile:
        model.compile()
    data = batches(args, rank, device)
    micro_batches = args.batch // args.ranks // args.micro
    for step in range(args.steps):
        begin = time.perf_counter()
        loss = train_step(model, optimizer, data, micro_batches, args)
        speed = args.batch * args.context / (time.perf_counter() - begin)
        if rank == 0:
            print(json.dumps({"step": step, "loss": loss, "tokens_per_second": speed}), flush=True)
    if rank == 0:
        print(json.dumps({"peak_rss_bytes": peak_bytes(args), "torch": torch.__version__,
                          "parameters": sum(p.numel() for p in model.parameters())}), flush=True)
    if args.ranks > 1:
        torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    for name, value in (("vocab", 256), ("context", 256), ("layers", 6), ("heads", 6), ("embed", 384), ("batch", 16),
                        ("micro", 8), ("steps", 12), ("warmup", 3), ("ranks", 1), ("threads", os.cpu_count()),
                        ("port", 29511)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--fsdp", action="store_true", help="fully_shard instead of DistributedDataParallel")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--fused", action="store_true", help="the fused AdamW")
    args = parser.parse_args()
    if args.batch % (args.ranks * args.micro):
        parser.error("--batch must be a multiple of --ranks * --micro")
    if args.ranks == 1:
        worker(0, args)
    else:
        torch.multiprocessing.spawn(worker, (args,), nprocs=args.ranks)


if __name__ == "__main__":
    main()
