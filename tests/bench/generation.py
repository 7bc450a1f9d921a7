#!/usr/bin/env python3
"""Generates text with Strata and with transformers, alternating, and prints the time of a token and the ratio.

    python3 tests/bench/generation.py [--model gpt2|llama|t5] [--dtype f32|bf16] [--batch 1] [--rounds 5] [--whole]

Both have a model of the same size with random weights and a cache of keys and values, and choose the likeliest token of
each step on --threads threads. A round measures both, one after the other. The time of a token is the time of a long
text minus that of a text of one token, divided by the tokens between, so it leaves out loading and the prompt. The ratio
is the median of the rounds there over the median of the rounds here, above 1 where Strata is faster. With --whole, a
round also measures Strata without its cache.

Needs PyTorch and transformers (docs/performance.md).
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from array import array
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
VOCAB = 50304
MODELS = {
    "gpt2": 'plugin = "gpt2"\nlayers = 12\nheads = 12\nembed = 768\ncontext = 1024\nvocab = 50304\ndropout = 0.0\n',
    "llama": 'plugin = "llama"\nlayers = 12\nheads = 12\nkv_heads = 4\nembed = 768\nffn = 2048\ncontext = 1024\n'
             'vocab = 50304\ntied = "yes"\n',
    "t5": 'plugin = "t5"\nsize = "t5-small"\ncontext = 512\ntarget_context = 1024\nvocab = 50304\ndropout = 0.0\n',
}
# The plugin of the data, and its own options.
DATA = {
    "gpt2": 'plugin = "tokens"\n',
    "llama": 'plugin = "tokens"\n',
    "t5": 'plugin = "spans"\nsentinel = 50303\n',
}


def make_checkpoint(folder, model, threads):
    tokens = array("H", (random.randrange(VOCAB) for _ in range(4000)))
    (folder / "tokens.bin").write_bytes(tokens.tobytes())
    (folder / "run.toml").write_text(
        f'[run]\nsteps = 1\neval_every = 0\noutput = "{folder}/run"\n[model]\n{MODELS[model]}'
        f'[data]\n{DATA[model]}path = "{folder}/tokens.bin"\n[batch]\nglobal = 1\nmicro = 1\n'
        f'[optimizer]\nlr = 1e-5\n[device]\nplugin = "cpu"\nthreads = {threads}\n')
    subprocess.run([STRATA, "train", folder / "run.toml"], check=True, stdout=subprocess.DEVNULL)


def run_here(folder, prompts, tokens, dtype, *options):
    command = [STRATA, "generate", folder / "run", "--temperature", "0", "--tokens", str(tokens), "--batch",
               str(len(prompts)), "--ignore-eos", *options]
    for prompt in prompts:
        command += ["--prompt", " ".join(map(str, prompt))]
    if dtype == "bf16":
        command += ["--set", 'strategy=[{plugin="precision"}]']
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def make_there(model, dtype, threads):
    import torch
    import transformers

    torch.set_num_threads(threads)
    if model == "gpt2":
        config = transformers.GPT2Config(vocab_size=VOCAB)
    elif model == "t5":
        config = transformers.T5Config(vocab_size=VOCAB, d_model=512, d_kv=64, d_ff=1024, num_layers=8, num_heads=6,
                                       feed_forward_proj="gated-gelu", decoder_start_token_id=0)
    else:
        config = transformers.LlamaConfig(vocab_size=VOCAB, hidden_size=768, intermediate_size=2048,
                                          num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4,
                                          max_position_embeddings=1024, tie_word_embeddings=True)
    kind = transformers.AutoModelForSeq2SeqLM if model == "t5" else transformers.AutoModelForCausalLM
    network = kind.from_config(config).eval()
    if dtype == "bf16":
        network = network.to(torch.bfloat16)

    def run(prompts, tokens):
        ids = torch.tensor(prompts)
        begin = time.perf_counter()
        with torch.no_grad():
            network.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens,
                             min_new_tokens=tokens, pad_token_id=0, use_cache=True)
        return time.perf_counter() - begin

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=65)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--whole", action="store_true", help="measures Strata without its cache too")
    parser.add_argument("--strata", default=REPOSITORY / "build/release/bin/strata")
    arguments = parser.parse_args()
    global STRATA
    STRATA = arguments.strata
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    random.seed(1)
    prompts = [[random.randrange(VOCAB) for _ in range(arguments.prompt_tokens)] for _ in range(arguments.batch)]
    there = make_there(arguments.model, arguments.dtype, arguments.threads)
    here_seconds, there_seconds, whole_seconds = [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_checkpoint(folder, arguments.model, arguments.threads)
        steps = arguments.tokens - 1
        for _ in range(arguments.rounds):
            for seconds, *options in [(here_seconds,), (whole_seconds, "--no-cache")][:2 if arguments.whole else 1]:
                first = run_here(folder, prompts, 1, arguments.dtype, *options)
                last = run_here(folder, prompts, arguments.tokens, arguments.dtype, *options)
                seconds.append((last - first) / steps)
            first = there(prompts, 1)
            there_seconds.append((there(prompts, arguments.tokens) - first) / steps)
    here, other = statistics.median(here_seconds), statistics.median(there_seconds)
    print(json.dumps({"model": arguments.model, "dtype": arguments.dtype, "batch": arguments.batch,
                      "threads": arguments.threads, "strata_ms_per_token": round(here * 1e3, 2),
                      "transformers_ms_per_token": round(other * 1e3, 2), "ratio": round(other / here, 2),
                      "strata_rounds_ms": [round(each * 1e3, 1) for each in here_seconds],
                      "transformers_rounds_ms": [round(each * 1e3, 1) for each in there_seconds],
                      "strata_without_cache_rounds_ms": [round(each * 1e3, 1) for each in whole_seconds]}))


if __name__ == "__main__":
    main()
