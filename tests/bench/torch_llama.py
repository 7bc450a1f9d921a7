#!/usr/bin/env python3
"""A Llama in PyTorch, trained on the CPU: what tests/bench/against_torch.py --model llama compares Strata with.

Pre-norm blocks with RMS norms, rotary positions, grouped queries and a SwiGLU, with PyTorch's fused functions:
rms_norm, scaled_dot_product_attention, and the fused AdamW. With --ranks N above 1 it starts N processes of one
DistributedDataParallel over gloo, or of fully_shard with --fsdp.

Rank 0 prints one line of JSON a step, {"step", "loss", "tokens_per_second"}, and last {"peak_rss_bytes", ...}.
"""
import argparse
import math
import os

import torch
import torch.nn.functional as F
from torch import nn

from torch_training import add_options, run


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, {"vocab": 32000, "context": 1024, "layers": 12, "heads": 12, "kv-heads": 4, "embed": 768,
                         "ffn": 2048, "batch": 4, "micro": 2, "steps": 12, "warmup": 3, "ranks": 1,
                         "threads": os.cpu_count(), "port": 29512}, 1e-4)
    parser.set_defaults(device="cpu", fused=True)
    run(parser, Llama)


if __name__ == "__main__":
    main()
