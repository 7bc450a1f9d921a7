#!/usr/bin/env python3
"""A Llama in PyTorch, trained on the CPU: what tests/bench/against_torch.py --model llama compares Strata with.

Pre-norm blocks with RMS norms, rotary positions, grouped queries and a SwiGLU, with PyTorch's fused functions:
rms_norm, scaled_dot_product_attention, and the fused AdamW. With --ranks N above 1 it starts N processes of one
DistributedDataParallel over gloo, or of fully_shard with --fsdp.

Rank 0 prints one line of JSON a step, {"step", "loss", "tokens_per_second"}, and last {"peak_rss_bytes", ...}.
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


def rotated(x, cosine, sine):
    """Turns the features i and i + half of x [batch, heads, tokens, features] together."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = size.heads, size.kv_heads, size.embed // size.heads
        self.attention_norm, self.feed_forward_norm = nn.RMSNorm(size.embed, 1e-5), nn.RMSNorm(size.embed, 1e-5)
        width = self.kv_heads * self.head_dim
        self.query, self.output = (nn.Linear(size.embed, size.embed, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(size.embed, width, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(size.embed, size.ffn, bias=False) for _ in range(2))
        self.down = nn.Linear(size.ffn, size.embed, bias=False)

    def attention(self, x, cosine, sine):
        batch, tokens, embed = x.shape
        heads = lambda y, count: y.view(batch, tokens, count, self.head_dim).transpose(1, 2)
        query = rotated(heads(self.query(x), self.heads), cosine, sine)
        key = rotated(heads(self.key(x), self.kv_heads), cosine, sine)
        y = F.scaled_dot_product_attention(query, key, heads(self.value(x), self.kv_heads), is_causal=True,
                                           enable_gqa=self.heads != self.kv_heads)
        return self.output(y.transpose(1, 2).reshape(batch, tokens, embed))

    def forward(self, x, cosine, sine):
        x = x + self.attention(self.attention_norm(x), cosine, sine)
        y = self.feed_forward_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.embedding = nn.Embedding(size.vocab, size.embed)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.embed, 1e-5)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                ends_branch = name.endswith(("output.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * size.layers) if ends_branch else 1))
        half = size.embed // size.heads // 2
        angles = torch.outer(torch.arange(size.context), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cosine.to(x.dtype), self.sine.to(x.dtype))
        logits = F.linear(self.norm(x), self.embedding.weight)
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


def batches(args, rank):
    """Endless micro-batches of tokens and their successors; one token a byte of the file."""
    with open(args.data, "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(1 + rank)
    while True:
        starts = torch.randint(len(data) - args.context - 1, (args.micro,), generator=generator)
        window = torch.stack([data[start:start + args.context + 1] for start in starts]).long()
        yield window[:, :-1], window[:, 1:]


def train_step(model, optimizer, data, micro_batches, args):
    total = 0.0
    for number in range(micro_batches):
        if args.ranks > 1 and not args.fsdp:
            model.require_backward_grad_sync = number == micro_batches - 1
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = model(*next(data)) / micro_batches
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total


def worker(rank, args):
    torch.manual_seed(1337)
    torch.set_num_threads(args.threads)
    if args.ranks > 1:
        torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{args.port}", rank=rank,
                                             world_size=args.ranks)
    model = distributed(Llama(args), args)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=args.lr, betas=(0.9, 0.95), fused=True)
    if args.compile:
        model.compile()
    data = batches(args, rank)
    micro_batches = args.batch // args.ranks // args.micro
    for step in range(args.steps):
        begin = time.perf_counter()
        loss = train_step(model, optimizer, data, micro_batches, args)
        speed = args.batch * args.context / (time.perf_counter() - begin)
        if rank == 0:
            print(json.dumps({"step": step, "loss": loss, "tokens_per_second": speed}), flush=True)
    if rank == 0:
        print(json.dumps({"peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                          "parameters": sum(p.numel() for p in model.parameters()), "torch": torch.__version__}))
    if args.ranks > 1:
        torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    for name, value in (("vocab", 32000), ("context", 1024), ("layers", 12), ("heads", 12), ("kv-heads", 4),
                        ("embed", 768), ("ffn", 2048), ("batch", 4), ("micro", 2), ("steps", 12), ("warmup", 3),
                        ("ranks", 1), ("threads", os.cpu_count()), ("port", 29512)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--fsdp", action="store_true", help="fully_shard instead of DistributedDataParallel")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    args = parser.parse_args()
    if args.batch % (args.ranks * args.micro):
        parser.error("--batch must be a multiple of --ranks * --micro")
    if args.ranks == 1:
        worker(0, args)
    else:
        torch.multiprocessing.spawn(worker, (args,), nprocs=args.ranks)


if __name__ == "__main__":
    main()
