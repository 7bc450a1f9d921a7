#!/usr/bin/env python3
"""A GPT-2 in PyTorch, trained on the CPU or on one GPU: what tests/bench/against_torch.py compares Strata with.

Pre-norm blocks, learned positions, GELU (tanh), tied embeddings, biases everywhere. With --ranks N above 1 it starts N
processes of one DistributedDataParallel over gloo, or of fully_shard with --fsdp.

Rank 0 prints one line of JSON a step, {"step", "loss", "tokens_per_second"}, and last {"peak_rss_bytes", ...}, which is
the most that tensors had at a time if the device is a GPU.
"""
import argparse
import math
import os

import torch
import torch.nn.functional as F
from torch import nn

from torch_training import add_options, run


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


def make_model(args):
    return GPT2(args.vocab, args.context, args.layers, args.heads, args.embed, args.dropout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, {"vocab": 256, "context": 256, "layers": 6, "heads": 6, "embed": 384, "batch": 16, "micro": 8,
                         "steps": 12, "warmup": 3, "ranks": 1, "threads": os.cpu_count(), "port": 29511}, 1e-3)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--fused", action="store_true", help="the fused AdamW")
    run(parser, make_model)


if __name__ == "__main__":
    main()
