#!/usr/bin/env python3
"""Trains GPT-2 124M in bf16 on one GPU with Strata and with compiled PyTorch, alternating, and prints a Markdown table.

    python3 tests/bench/gpu.py --data input.txt

The micro-batch is the largest power of two whose planned memory fits the GPU, or --micro; where PyTorch runs out of
memory with it, PyTorch adds up the same batch from smaller ones. A speed is the median of tokens/s over the steps after
--warmup, as each program prints them; a ratio is the median of the rounds here over the median of the rounds there,
above 1 where Strata is faster.

Peak memory is what nvidia-smi says that the GPU has in use, sampled twice a second, less what it had before: with the
driver's own and all that an allocator holds. Beside it stands what each program counts itself: the arena that Strata
plans and allocates once, and the most that PyTorch's tensors had at a time.

Model FLOPs utilisation is (6 * matrix parameters + 12 * layers * context * embed) * tokens/s over the bf16 matrix rate
that bin/bench/step_kernels measures on the same GPU, which also prints the time of every kernel of the step and its
share of the roofline.

Without a GPU it says so and ends with 0; without PyTorch, or a PyTorch that sees the GPU, it measures Strata alone.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import tomllib
from pathlib import Path

from against_torch import REPOSITORY, flops_per_token

PUBLISHED = {"gpt2-124m": {"layers": 12, "heads": 12, "embed": 768, "context": 1024, "vocab": 50257}}
LARGEST_MICRO = 512


def visible_gpu():
    return os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"


def query_gpu(field):
    """A number or text that nvidia-smi knows of the GPU; empty where there is none."""
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits", "-i", visible_gpu()]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def used_bytes():
    text = query_gpu("memory.used")
    return int(text) << 20 if text.isdigit() else 0


class Failure(Exception):
    """A program that ended with an error; its last words."""


def run(command):
    words = [str(word) for word in command]
    result = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if result.returncode:
        said = (result.stderr or result.stdout)[-4000:]
        raise Failure(f"{' '.join(words)}\nfailed with {result.returncode}:\n{said}")
    return result.stdout


def run_watched(command):
    """The standard output, and by how much the memory in use on the GPU grew."""
    before = peak = used_bytes()
    done = threading.Event()

    def watch():
        nonlocal peak
        while not done.wait(0.5):
            peak = max(peak, used_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        return run(command), peak - before
    finally:
        done.set()
        watcher.join()


class Strata:
    name = "Strata"

    def __init__(self, arguments):
        self.arguments = arguments
        self.micro = arguments.micro or self.largest_micro()

    def words(self, micro):
        words = [self.arguments.config]
        for setting in (f"data.path={self.arguments.data}", f"device.plugin={self.arguments.device}",
                        f"batch.micro={micro}", f"batch.global={micro * self.arguments.accumulate}",
                        "run.checkpoint_every=0", "run.eval_every=0", *self.arguments.set):
            words += ["--set", setting]
        return words

    def fits(self, micro):
        command = [str(word) for word in (self.arguments.strata, "check", *self.words(micro), "--json")]
        result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        if not result.stdout.startswith("{"):
            raise Failure(result.stderr)
        report = json.loads(result.stdout)
        # The device keeps from plans what comes after them (its option reserve_mb).
        if report["ok"]:
            return True
        if "its device has" not in report["error"]:
            raise Failure(report["error"])
        return False

    def largest_micro(self):
        micro = 1
        if not self.fits(micro):
            raise Failure("not even one sequence fits the GPU")
        while micro < LARGEST_MICRO and self.fits(2 * micro):
            micro *= 2
        return micro

    def measure(self, folder):
        log = Path(folder) / "log.jsonl"
        command = [self.arguments.strata, "train", *self.words(self.micro), "--steps", self.arguments.steps,
                   "--log-json", log, "--overwrite", "--set", f"run.output={folder}/run"]
        _, grown = run_watched(command)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        summary = next(line for line in lines if line.get("event") == "summary")
        return digest(lines, self.arguments.warmup, grown, max(summary["arena_peak_bytes"]))


class Torch:
    name = "PyTorch"

    def __init__(self, arguments, model, rate, micro):
        self.arguments, self.model, self.rate = arguments, model, rate
        self.batch = micro * arguments.accumulate
        self.micro = micro

    def measure(self, folder):
        while True:
            try:
                output, grown = run_watched(self.command())
                break
            except Failure as failure:
                if "out of memory" not in str(failure).lower() or self.micro == 1:
                    raise
                self.micro //= 2
                print(f"PyTorch is out of memory; its micro-batch is {self.micro} from here on", file=sys.stderr)
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return digest(lines, self.arguments.warmup, grown, lines[-1]["peak_rss_bytes"])

    def command(self):
        arguments = self.arguments
        command = [arguments.python, arguments.torch, "--data", arguments.data, "--steps", arguments.steps,
                   "--warmup", arguments.warmup, "--dtype", "bf16", "--device", arguments.torch_device,
                   "--lr", self.rate, "--batch", self.batch, "--micro", self.micro, "--compile", "--fused"]
        for key in ("vocab", "context", "layers", "heads", "embed", "dropout"):
            command += [f"--{key}", self.model[key]]
        return command


def digest(lines, warmup, grown, own):
    steps = [line for line in lines if "tokens_per_second" in line and "loss" in line]
    if len(steps) <= warmup:
        raise Failure(f"only {len(steps)} steps were logged: nothing is left after a warm-up of {warmup}")
    return {"tokens_per_second": statistics.median(line["tokens_per_second"] for line in steps[warmup:]),
            "first_loss": steps[0]["loss"], "last_loss": steps[-1]["loss"], "gpu_bytes": grown, "own_bytes": own}


def missing_torch(arguments):
    """Why PyTorch can't be measured; empty if it can."""
    if not arguments.torch.exists():
        return f"no file {arguments.torch}"
    probe = f"import torch; print({arguments.torch_device!r} == 'cpu' or torch.cuda.is_available())"
    result = subprocess.run([arguments.python, "-c", probe], capture_output=True, text=True, check=False)
    if result.returncode:
        return f"{arguments.python} has no torch"
    return "" if result.stdout.strip() == "True" else "torch sees no GPU"


def measure_kernels(arguments, strata, folder):
    """Prints the table of kernels. The matrix rate in FLOP/s."""
    report = Path(folder) / "kernels.json"
    program = arguments.strata.parent / "bench" / "step_kernels"
    print(run([program, *strata.words(strata.micro), "--json", report, *arguments.kernels.split()]), flush=True)
    return json.loads(report.read_text())["flops_per_second"]


def model_sizes(arguments):
    with open(arguments.config, "rb") as file:
        config = tomllib.load(file)
    model = {"dropout": 0.1, **PUBLISHED.get(config["model"].get("size"), {}), **config["model"]}
    for setting in arguments.set:
        path, _, value = setting.partition("=")
        if path.startswith("model."):
            model[path.removeprefix("model.")] = float(value) if "." in value else int(value)
    return model, config["optimizer"]["lr"]


def middle(rounds, key):
    return statistics.median(each[key] for each in rounds)


def most(rounds, key):
    return max(each[key] for each in rounds)


def print_table(sides, rounds, flops, rate):
    both = len(sides) == 2

    def row(title, cells, last=""):
        print("| " + " | ".join([title, *cells, *([last] if both else [])]) + " |")

    def ratio(values):
        return f"**{values[0] / values[1]:.2f}**" if both and all(values) else ""

    speeds = [middle(each, "tokens_per_second") for each in rounds]
    row("", [side.name for side in sides], "ratio")
    row("---", ["---"] * len(sides), "---")
    row("tokens/s", [f"{speed:.0f}" for speed in speeds], ratio(speeds))
    row("rounds", [", ".join(f"{each['tokens_per_second']:.0f}" for each in side) for side in rounds])
    row("model FLOPs utilisation", [f"{flops * speed / rate:.1%}" for speed in speeds])
    for title, key in (("peak memory of the GPU, MiB", "gpu_bytes"), ("by its own count, MiB", "own_bytes")):
        bytes_ = [most(side, key) for side in rounds]
        row(title, [f"{each / 2**20:.0f}" if each else "unknown" for each in bytes_], ratio(bytes_))
    row("micro-batch", [str(side.micro) for side in sides])
    row("loss, first and last step", [f"{side[-1]['first_loss']:.3f}, {side[-1]['last_loss']:.3f}" for side in rounds])


def measure(arguments, folder):
    model, learning_rate = model_sizes(arguments)
    sides = [Strata(arguments)]
    without = missing_torch(arguments)
    if without:
        print(f"PyTorch is not measured: {without}\n")
    else:
        sides.append(Torch(arguments, model, learning_rate, sides[0].micro))
    rate = measure_kernels(arguments, sides[0], folder)
    rounds = [[] for _ in sides]
    for number in range(arguments.rounds):
        for side, results in zip(sides, rounds):
            results.append(side.measure(folder))
            print(f"round {number + 1}: {side.name} {results[-1]['tokens_per_second']:.0f} tokens/s", file=sys.stderr)
    print(f"{query_gpu('name') or arguments.device}, bf16, batch {sides[0].micro * arguments.accumulate} x "
          f"{model['context']} tokens, {rate * 1e-12:.1f} TFLOP/s in bf16 matrix products\n")
    flops = flops_per_token(model)
    print_table(sides, rounds, flops, rate)
    return {"gpu": query_gpu("name"), "flops_per_token": flops, "matrix_flops_per_second": rate,
            "rounds": {side.name: results for side, results in zip(sides, rounds)}}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default=REPOSITORY / "build/release/bin/strata", type=Path)
    parser.add_argument("--config", default=REPOSITORY / "configs/gpt2-124m-cuda.toml", type=Path)
    parser.add_argument("--torch", default=REPOSITORY / "tests/bench/torch_gpt2.py", type=Path)
    parser.add_argument("--data", required=True, type=Path, help="a text, read as bytes")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has torch")
    parser.add_argument("--micro", type=int, help="sequences of a micro-batch, instead of the most that fit")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches of a step")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=5, help="steps left out of the median, on both sides")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="overrides a key of the configuration, sizes of the model on both sides")
    parser.add_argument("--json", type=Path, help="write all numbers here")
    parser.add_argument("--device", default="cuda", help="Strata's device plugin; another one is not asked for a GPU")
    parser.add_argument("--torch-device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--kernels", default="", metavar="OPTIONS", help="options of step_kernels, in one word")
    return parser.parse_args()


def find_files(arguments):
    for key in ("strata", "config", "data"):
        path = getattr(arguments, key).resolve()
        if not path.exists():
            sys.exit(f"--{key}: no file {path}")
        setattr(arguments, key, path)
    arguments.torch = arguments.torch.resolve()


def main():
    arguments = parse_arguments()
    if arguments.device == "cuda" and not query_gpu("name"):
        print("skipped: no GPU")
        return
    find_files(arguments)
    with tempfile.TemporaryDirectory() as folder:
        try:
            results = measure(arguments, folder)
        except Failure as failure:
            sys.exit(str(failure))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
