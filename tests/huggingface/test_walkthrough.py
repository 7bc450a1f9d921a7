"""Follows "Fine-tune a Hugging Face model" in the README: its commands and files, on a small model in place of SmolLM2."""

import re
import shlex
import sys
import tempfile
from pathlib import Path

# It sets what transformers reads when it is imported.
from small_models import *

import tokenizers
import torch
import transformers

README = Path(__file__).resolve().parents[2] / "README.md"
CONTEXT = 32
TEXT = "Once upon a time there was a ship. It sailed over the sea, and it came back.\n" * 200


def blocks_of_section():
    text = README.read_text()
    section = text[text.index("## Fine-tune a Hugging Face model\n"):].split("\n## ")[0]
    return re.findall(r"```(\w+)\n(.*?)```", section, re.S)


def make_tokenizer():
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>"],
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([TEXT], trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")


def make_model(folder):
    config = transformers.LlamaConfig(
        vocab_size=300, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=3, max_position_embeddings=64, tie_word_embeddings=True, eos_token_id=0)
    random_model(transformers.LlamaForCausalLM, config).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)


def shortened(toml):
    """A run that takes seconds, in which the small model learns to write words."""
    for pattern, replacement in ((r"steps = \d+", "steps = 40"), (r"context = \d+", f"context = {CONTEXT}"),
                                 (r"eval_every = \d+", "eval_every = 20"), (r"lr = \S+", "lr = 0.02")):
        toml, count = re.subn(pattern, replacement, toml)
        check(count == 1, f"README: {count} lines {pattern}")
    return toml


def write_files(folder, lora, strategies):
    make_model(folder / "SmolLM2-135M")
    (folder / "my.txt").write_text(TEXT)
    (folder / "lora.toml").write_text(shortened(lora))
    full = lora[:lora.index("[[strategy]]")].replace("runs/lora", "runs/full") + strategies
    (folder / "full.toml").write_text(shortened(full))


def main(folder):
    blocks = blocks_of_section()
    check([language for language, _ in blocks] == ["sh", "toml", "toml", "python"], "README: other blocks")
    (_, commands), (_, lora), (_, strategies), (_, program) = blocks
    os.chdir(folder)
    write_files(folder, lora, strategies)
    for line in commands.splitlines():
        words = shlex.split(line, comments=True)
        print("$", *words, flush=True)
        print(strata(*words[1:]), flush=True)
    names = {}
    exec(program, names)
    # What transformers loads is what Strata generates with.
    text = strata("generate", "runs/lora", "--prompt", "Once upon a time", "--tokens", 8, "--temperature", 0)
    tokens = names["tokenizer"]("Once upon a time", return_tensors="pt")
    with torch.no_grad():
        expected = names["model"].generate(**tokens, max_new_tokens=8, do_sample=False)
    expected = names["tokenizer"].decode(expected[0])
    check(text.strip().startswith(expected.strip()), f"Strata writes {text!r}, transformers {expected!r}")


with tempfile.TemporaryDirectory() as temporary:
    main(Path(temporary))
sys.exit(1 if failures else 0)
