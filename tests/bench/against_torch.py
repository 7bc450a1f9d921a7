#!/usr/bin/env python3
"""Trains the same model with Strata and with PyTorch, alternating, and prints both speeds, ratios and memory.

    python3 tests/bench/against_torch.py --data input.txt [--dtype bf16]
    python3 tests/bench/against_torch.py --data input.txt --model llama --compile

Three settings: one rank with two threads, and two ranks with one thread each, with DistributedDataParallel there and
the ddp strategy here, and with fully_shard there and zero stage 3 here. Sizes come from configs/bench.toml, or
configs/bench-llama.toml, in f32 or in bf16 (autocast there, the precision strategy here). A
speed is the median of tokens/s over the steps after --warmup, as each program prints them; a ratio is the median of the
rounds here over the median of the rounds there, above 1 where Strata is faster.

Peak memory is measured alike for both: the proportional set size (PSS) summed over the process tree, sampled every
quarter of a second, the largest of all rounds. It counts a page that several processes share once, and it includes
interpreters and libraries. What each program reports of itself goes into the JSON as well.

Model FLOPs utilisation is (6 * matrix parameters + 12 * layers * context * embed) * tokens/s over the matrix rate
that bin/bench/matmul_rate reaches in the same type with oneDNN on the same two threads.

Needs PyTorch (docs/performance.md).
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

REPOSITORY = Path(__file__).resolve().parents[2]
MODELS = {"gpt2": {"config": "configs/bench.toml", "torch": REPOSITORY / "tests/bench/torch_gpt2.py",
                   "sizes": ("layers", "heads", "embed", "context", "dropout")},
          "llama": {"config": "configs/bench-llama.toml", "torch": REPOSITORY / "tests/bench/torch_llama.py",
                    "sizes": ("layers", "heads", "kv_heads", "embed", "ffn", "context", "vocab")}}
SETTINGS = ({"name": "1 rank x 2 threads", "ranks": 1, "threads": 2, "strategy": ""},
            {"name": "2 ranks x 1 thread", "ranks": 2, "threads": 1,
             "strategy": '[[strategy]]\nplugin = "ddp"\nsize = 2\n'},
            {"name": "2 ranks, ZeRO-3", "ranks": 2, "threads": 1, "torch": ["--fsdp"],
             "strategy": '[[strategy]]\nplugin = "zero"\nsize = 2\nstage = 3\n'})
BF16 = '[[strategy]]\nplugin = "precision"\ncompute = "bf16"\n'


def process_tree(root):
    """The process and all its descendants that are alive."""
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    tree, pending = [], [root]
    while pending:
        process = pending.pop()
        tree.append(process)
        pending += children.get(process, [])
    return tree


def tree_pss(root):
    total = 0
    for process in process_tree(root):
        try:
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
        except OSError:
            pass
    return total


def run_measured(command, threads):
    """Runs a command; returns its standard output and the peak PSS of its process tree."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=errors)
        peak, done = 0, threading.Event()

        def watch():
            nonlocal peak
            while not done.wait(0.25):
                peak = max(peak, tree_pss(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        output, _ = process.communicate()
        done.set()
        watcher.join()
        if process.returncode:
            errors.seek(0)
            sys.exit(f"{' '.join(map(str, command))}\nfailed with {process.returncode}:\n{errors.read()[-4000:]}")
    return output, peak


def digest(lines, warmup, peak):
    """Median speed after the warm-up, last loss, and what the program said of its own memory."""
    steps = [line for line in lines if "tokens_per_second" in line and "loss" in line]
    if len(steps) <= warmup:
        sys.exit(f"only {len(steps)} steps were logged: nothing is left after a warm-up of {warmup}")
    return {"tokens_per_second": statistics.median(line["tokens_per_second"] for line in steps[warmup:]),
            "last_loss": steps[-1]["loss"], "peak_pss_bytes": peak,
            "own_peak_rss_bytes": lines[-1].get("peak_rss_bytes")}


def run_strata(args, setting, folder):
    log = Path(folder) / "log.jsonl"
    log.unlink(missing_ok=True)
    config = Path(folder) / "bench.toml"
    config.write_text("\n".join([args.config.read_text(), setting["strategy"],
                                 BF16 if args.dtype == "bf16" else ""]))
    # The ranks of 'local' are threads of one process.
    command = [args.strata, "train" if args.communicator == "local" or setting["ranks"] == 1 else "launch",
               config, "--steps", args.steps, "--log-json", log, "--overwrite",
               "--set", f"data.path={args.data}", "--set", f"run.output={folder}/run",
               "--set", f"device.threads={setting['threads']}"]
    if setting["ranks"] > 1:
        command += ["--set", f"communicator.plugin={args.communicator}"]
    _, peak = run_measured([str(word) for word in command], setting["threads"])
    return digest([json.loads(line) for line in log.read_text().splitlines()], args.warmup, peak)


def run_torch(args, setting, config):
    model, batch = config["model"], config["batch"]
    command = [args.python, args.torch, "--data", args.data, "--steps", args.steps, "--warmup", args.warmup,
               "--ranks", setting["ranks"], "--threads", setting["threads"], "--dtype", args.dtype,
               "--lr", config["optimizer"]["lr"],
               "--batch", batch["global"], "--micro", batch["micro"], *setting.get("torch", [])]
    for key in MODELS[args.model]["sizes"]:
        command += [f"--{key.replace('_', '-')}", model[key]]
    if args.compile:
        command.append("--compile")
    output, peak = run_measured([str(word) for word in command], setting["threads"])
    return digest([json.loads(line) for line in output.splitlines() if line.startswith("{")], args.warmup, peak)


def matmul_rate(args):
    program = Path(args.strata).parent / "bench" / "matmul_rate"
    output, _ = run_measured([str(program), "1", args.dtype], 2)
    return json.loads(output.splitlines()[-1])["best_flops_per_second"]


def flops_per_token(model):
    embed, layers = model["embed"], model["layers"]
    if model["plugin"] == "gpt2":
        block = 12 * embed ** 2
    else:
        block = 2 * embed ** 2 * (1 + model["kv_heads"] / model["heads"]) + 3 * embed * model["ffn"]
    matrices = layers * block + model.get("vocab", 256) * embed
    return 6 * matrices + 12 * layers * model["context"] * embed


def summarise(setting, rounds, flops, rate):
    speed = {side: statistics.median(r["tokens_per_second"] for r in rounds[side]) for side in rounds}
    memory = {side: max(r["peak_pss_bytes"] for r in rounds[side]) for side in rounds}
    return {"setting": setting["name"], "tokens_per_second": speed, "ratio": speed["strata"] / speed["torch"],
            "peak_pss_bytes": memory, "memory_ratio": memory["strata"] / memory["torch"],
            "model_flops_utilisation": {side: flops * speed[side] / rate for side in speed}, "rounds": rounds}


def print_table(results, rate, dtype):
    print(f"\n{'':20} {'side':8} {'tokens/s':>10} {'peak MiB':>10} {'FLOPs utilisation':>18}")
    for result in results:
        for side in ("strata", "torch"):
            print(f"{result['setting'] if side == 'strata' else '':20} {side:8} {result['tokens_per_second'][side]:10.0f}"
                  f" {result['peak_pss_bytes'][side] / 2**20:10.0f} {result['model_flops_utilisation'][side]:18.1%}")
        print(f"{'':20} {'ratio':8} {result['ratio']:10.3f} {result['memory_ratio']:10.3f}")
    print(f"\n{dtype} matrix rate of oneDNN on two threads: {rate / 1e9:.0f} GFLOP/s")
    print("peak memory: PSS over the process tree, sampled\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default=REPOSITORY / "build/release/bin/strata", type=Path)
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--torch", type=Path, help="the program there; it depends on --model")
    parser.add_argument("--compile", action="store_true", help="torch.compile there")
    parser.add_argument("--data", required=True, type=Path, help="a text, read as bytes")
    parser.add_argument("--config", type=Path, help="sizes, instead of those of configs/bench.toml or bench-llama.toml")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has torch")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--ranks", type=int, choices=(1, 2), help="this setting only; both without it")
    parser.add_argument("--communicator", default="local",
                        help="joins the ranks here; with another than local, each rank is a process, as there")
    parser.add_argument("--setting", choices=[setting["name"] for setting in SETTINGS], help="this setting only")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=3, help="steps left out of the median, on both sides")
    parser.add_argument("--json", type=Path, help="write the JSON here instead of to standard output")
    args = parser.parse_args()
    args.torch = args.torch or MODELS[args.model]["torch"]
    args.config = args.config or REPOSITORY / MODELS[args.model]["config"]
    for key in ("strata", "torch", "data", "config"):
        path = getattr(args, key).resolve()
        if not path.exists():
            parser.error(f"--{key}: no file {path}")
        setattr(args, key, path)

    config = tomllib.loads(args.config.read_text())
    rate = matmul_rate(args)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for setting in SETTINGS:
            if args.setting not in (None, setting["name"]) or args.ranks not in (None, setting["ranks"]):
                continue
            rounds = {"strata": [], "torch": []}
            for number in range(args.rounds):
                rounds["strata"].append(run_strata(args, setting, folder))
                rounds["torch"].append(run_torch(args, setting, config))
                speeds = ", ".join(f"{side} {rounds[side][-1]['tokens_per_second']:.0f}" for side in rounds)
                print(f"{setting['name']}, round {number + 1}: {speeds} tokens/s", file=sys.stderr)
            results.append(summarise(setting, rounds, flops_per_token(config["model"]), rate))

    print_table(results, rate, args.dtype)
    document = json.dumps({"model": args.model, "dtype": args.dtype, "compiled": args.compile, "matmul_flops_per_second": rate,
                           "steps": args.steps, "warmup": args.warmup, "results": results})
    if args.json:
        args.json.write_text(document + "\n")
    else:
        print(document)


if __name__ == "__main__":
    main()
