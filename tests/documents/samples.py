"""The files that the pages speak of, small: a clone of the repository with texts, token files, a model and runs."""
import array
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TEXT = "".join(f"line {number * number % 97} of the text, once upon a time\n" for number in range(1500))
# A run that trains in a fraction of a second, with the plugins of configs/quickstart.toml.
SMALL = """[run]
steps = 2
output = "{output}"
checkpoint_every = 1
eval_every = 2
[log]
norm_groups = "layer"
[model]
{model}
[data]
{data}
validation = 0.1
[batch]
global = 4
micro = 1
[optimizer]
lr = 1e-3
"""
GPT2 = 'plugin = "gpt2"\nlayers = 2\nheads = 2\nembed = 16\ncontext = 16'
LLAMA = ('plugin = "llama"\nlayers = 2\nheads = 6\nkv_heads = 3\nembed = 48\nffn = 96\ncontext = 64\nvocab = 300\n'
         'tied = "yes"')


class Samples:
    """A folder as the pages expect it. `strata` is the program under test, of the build folder `build`."""

    def __init__(self, folder, source, build):
        self.folder, self.source, self.build = folder, source, build
        self.strata = build / "bin/strata"
        folder.mkdir()
        for name in ("CMakeLists.txt", "README.md", "configs", "docs", "models", "packaging", "plugins", "sdk", "tests"):
            (folder / name).symlink_to(source / name)
        self.make_build()
        self.make_data()
        self.make_runs()

    def make_build(self):
        """The build folder, in which the program shortens what it is asked to do (shortened.py)."""
        release = self.folder / "build/release"
        (release / "bin").mkdir(parents=True)
        for name in ("bin/bench", "bin/tests", "lib"):
            (release / name).symlink_to(self.build / name)
        program = release / "bin/strata"
        program.write_text(f"#!{sys.executable} -IS\nimport sys\nsys.path.insert(0, {str(HERE)!r})\n"
                           f"import shortened\nshortened.run({str(self.strata)!r}, sys.argv[1:])\n")
        program.chmod(0o755)

    def make_data(self):
        for name in ("my.txt", "input.txt", "big.txt", "other.txt", "books.txt", "tinyshakespeare.txt"):
            (self.folder / name).write_text(TEXT)
        (self.folder / "prompts.txt").write_text("ROMEO:\nJULIET:\n")
        (self.folder / "web.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in TEXT.split("\n")))
        numbers = random.Random(1)
        for name in ("train.bin", "val.bin", "web.bin", "books.bin", "tokens.bin", "my-tokens.bin"):
            tokens = array.array("H", (numbers.choice((7, numbers.randrange(250))) for _ in range(120000)))
            (self.folder / name).write_bytes(tokens.tobytes())
        pictures = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
        for name in pictures:
            (self.folder / name).write_bytes(bytes(number % 10 for number in range(3073 * 20)))
        # Megatron-LM's index: version 1, uint16, two documents of 10,000 tokens each.
        (self.folder / "corpus.bin").write_bytes((self.folder / "train.bin").read_bytes())
        (self.folder / "corpus.idx").write_bytes(b"MMIDIDX\0\0" + struct.pack(
            "<QBQQ2i2q3q", 1, 8, 2, 3, 10000, 10000, 0, 20000, 0, 1, 2))

    def make_runs(self):
        text = 'plugin = "text"\npath = "my.txt"'
        # The vocabulary is that of the tokenizer, whose tokens are bytes.
        tokens = 'plugin = "tokens"\npath = "train.bin"'
        for name, model, data in (("a", GPT2, text), ("tiny-llama", LLAMA, tokens)):
            config = self.folder / f"{name}.toml"
            config.write_text(SMALL.format(output=f"runs/{name}", model=model, data=data))
            self.run("train", config, "--log-json", f"runs/{name}/log.jsonl")
        # What programs of tests/bench train in place of large models.
        tiny = GPT2 + "\nvocab = 50257"
        (self.folder / "tiny-gpt2.toml").write_text(SMALL.format(output="runs/tiny", model=tiny, data=tokens))
        for name in ("b", "other", "full", "quickstart"):
            shutil.copytree(self.folder / "runs/a", self.folder / "runs" / name)
        shutil.copy(self.folder / "runs/a/log.jsonl", self.folder / "a.jsonl")
        shutil.copy(self.folder / "runs/a/log.jsonl", self.folder / "b.jsonl")
        shutil.copy(self.folder / "runs/a/log.jsonl", self.folder / "run.jsonl")
        self.make_published()
        config = self.folder / "config.toml"
        config.write_text(SMALL.format(output="runs/quickstart", model=GPT2, data=text))
        self.make_processes()

    def make_processes(self):
        """Configurations of two ranks, which are processes."""
        for name in ("gloo", "mpi"):
            text = (self.folder / "config.toml").read_text().replace("runs/quickstart", f"runs/{name}")
            (self.folder / f"{name}.toml").write_text(
                f'{text}[communicator]\nplugin = "{name}"\n[[strategy]]\nplugin = "ddp"\nsize = 2\n')

    def make_published(self):
        """A folder as Hugging Face has them, in place of SmolLM2-135M, and what is made of it."""
        self.run("export", "runs/tiny-llama", "SmolLM2-135M")
        self.write_tokenizer(self.folder / "SmolLM2-135M")
        shutil.copytree(self.folder / "SmolLM2-135M", self.folder / "llama-folder")
        self.run("import", "SmolLM2-135M", "smollm2")
        adapted = SMALL.format(output="runs/lora", model='from = "smollm2"', data='plugin = "tokens"\npath = "train.bin"')
        (self.folder / "adapt.toml").write_text(adapted + '[[strategy]]\nplugin = "lora"\nrank = 2\n')
        self.run("train", "adapt.toml")
        self.run("export", "runs/lora", "my-adapters", "--adapters")
        # The pages make this folder.
        shutil.rmtree(self.folder / "smollm2")

    @staticmethod
    def write_tokenizer(folder):
        """Byte-level pairs without merges: each byte is a token, and one ends a text."""
        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in plain]
        letters = [chr(byte) for byte in plain] + [chr(256 + place) for place in range(len(others))]
        end = {"id": 256, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
               "normalized": False, "special": True}
        (folder / "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "post_processor": None, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "vocab": {letter: number for number, letter in enumerate(letters)}, "merges": []}}))
        (folder / "tokenizer_config.json").write_text(json.dumps({
            "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}))

    def run(self, *words):
        result = subprocess.run([self.strata, *map(str, words)], cwd=self.folder, capture_output=True, text=True)
        assert result.returncode == 0, f"{words}: {result.stderr}"

    @staticmethod
    def free_port():
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            return str(listener.getsockname()[1])

    def environment(self):
        """Programs are found as an installed Strata is. Open MPI starts as root, and more ranks than cores."""
        return {**os.environ, "PATH": f"{self.folder / 'build/release/bin'}:{os.environ['PATH']}",
                "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "OMPI_MCA_rmaps_base_oversubscribe": "1", "STRATA_SECRET": "0" * 64, "OMP_NUM_THREADS": "1",
                "PYTHONDONTWRITEBYTECODE": "1", "FREE_PORT": self.free_port(), "PROGRAM": str(self.strata)}

    def copy(self, folder):
        shutil.copytree(self.folder, folder, symlinks=True)
        return folder
