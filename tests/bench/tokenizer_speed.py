"""Compares the speed of `strata tokenize` with Hugging Face's tokenizers, on two threads.

Usage: tokenizer_speed.py STRATA TEXT [--rounds N] [--megabytes N] [--threads N]
  TEXT   a text file, such as tinyshakespeare; repeated, and mixed with other languages, code and emoji

Both encode the same documents with the same tokenizer, in alternating rounds. Of Hugging Face only encode_batch_fast()
is timed. Of Strata, the whole program is: it loads the tokenizer, reads JSON lines and writes the token file, too."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("strata")
parser.add_argument("text")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--megabytes", type=int, default=10)
parser.add_argument("--threads", type=int, default=2)
arguments = parser.parse_args()
os.environ["RAYON_NUM_THREADS"] = str(arguments.threads)
os.environ["TOKENIZERS_PARALLELISM"] = "true"
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tokenizers"))

import make_tokenizers
from make_texts import Texts
from tokenizers import Tokenizer

make_tokenizers.VOCABULARY = 16000


def documents():
    with open(arguments.text, encoding="utf-8") as file:
        paragraphs = file.read().split("\n\n")
    mixed = [Texts(seed).text(3000) for seed in range(300)]
    result, size = [], 0
    while size < arguments.megabytes * 1000000:
        number = len(result)
        begin = number * 10 % len(paragraphs)
        # Two thirds of the bytes are English.
        text = mixed[number // 2 % len(mixed)] if number % 3 == 0 else "\n\n".join(paragraphs[begin:begin + 10])
        result.append(text or "\n")
        size += len(result[-1].encode())
    return result, size


def seconds_of(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main():
    texts, size = documents()
    print(f"{len(texts)} documents, {size / 1e6:.1f} MB, {arguments.threads} threads, {arguments.rounds} rounds")
    lines = [line for text in texts[:900] for line in text.split("\n")]
    kinds = {"gpt2": make_tokenizers.gpt2, "llama3": make_tokenizers.llama3, "llama2": make_tokenizers.llama2,
             "unigram": make_tokenizers.unigram,
             "qwen2": lambda lines: make_tokenizers.byte_level(make_tokenizers.split(make_tokenizers.QWEN2), lines,
                                                              normalizer=make_tokenizers.normalizers.NFC())}
    with tempfile.TemporaryDirectory() as folder:
        path, tokenizer_path = os.path.join(folder, "texts.jsonl"), os.path.join(folder, "tokenizer.json")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
        command = [arguments.strata, "tokenize", tokenizer_path, path, "--output", os.path.join(folder, "out.bin"),
                   "--threads", str(arguments.threads), "--overwrite"]
        for name, make in kinds.items():
            make(lines).save(tokenizer_path)
            tokenizer = Tokenizer.from_file(tokenizer_path)
            strata, other = [], []
            for _ in range(arguments.rounds):
                strata.append(seconds_of(lambda: subprocess.run(command, check=True, capture_output=True)))
                other.append(seconds_of(lambda: tokenizer.encode_batch_fast(texts, add_special_tokens=False)))
            ratios = sorted(b / a for a, b in zip(strata, other))
            print(f"{name:8} Strata {size / 1e6 / statistics.median(strata):6.1f} MB/s, Hugging Face "
                  f"{size / 1e6 / statistics.median(other):6.1f} MB/s, ratio {statistics.median(ratios):.1f} "
                  f"(from {ratios[0]:.1f} to {ratios[-1]:.1f})", flush=True)


main()
