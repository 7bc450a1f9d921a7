#!/usr/bin/env python3
"""Trains models of transformers with Strata and with PyTorch, alternating, and prints the times of a step and their ratio.

    python3 tests/bench/models_against_torch.py [--models bert t5] [--compile] [--dtype bf16] [--rounds 3] [--device cuda]

Each row of MODELS is one model: the tables of its configuration here, and what makes the model and a batch there. Both
sides train with AdamW on random data of the same sizes on one rank, with two threads on a CPU. A time is the median of
the steps after --warmup. A ratio is the median of the rounds there over the median of the rounds here, above 1 where
Strata is faster. "compiled" is torch.compile; eager if it fails, which is said.

On a CPU, memory is measured as in against_torch.py. On a GPU it is the planned arena here and the most that tensors had
at a time there, a step is one micro-batch, and --scale makes the batches of the rows larger. --write makes the data and
the configurations only, FOLDER/MODEL/run.toml, for bin/bench/step_kernels.

Needs PyTorch and transformers (docs/performance.md).
"""
import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from against_torch import BF16, REPOSITORY, run_measured

RUN = """
[run]
steps = {steps}
output = "{folder}/run"
checkpoint_every = 0
[batch]
global = {batch}
micro = {micro}
[optimizer]
plugin = "adamw"
lr = 1e-4
weight_decay = 0.01
[device]
plugin = "{device}"
"""


def documents(row):
    return max(64, row["batch"])


def tokens(folder, name, row, length):
    """A raw file of documents that fill a sequence with the tokens around them. Each ends with token 1."""
    import random
    from array import array
    random.seed(3)
    values = array("H")
    for _ in range(documents(row)):
        values.extend(random.randrange(4, row["vocab"]) for _ in range(length))
        values.append(1)
    (folder / name).write_bytes(values.tobytes())


def bert_data(folder, row):
    tokens(folder, "tokens", row, row["length"] - 2)
    (folder / "labels").write_bytes(bytes(2 * documents(row)))


def bert_torch(row):
    import torch
    import transformers
    model = transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=row["vocab"], num_labels=2))
    ids = torch.randint(4, row["vocab"], (row["batch"], row["length"]))
    return model, dict(input_ids=ids, attention_mask=torch.ones_like(ids), labels=torch.zeros(row["batch"], dtype=torch.long))


def t5_data(folder, row):
    tokens(folder, "tokens", row, row["length"] - 1)
    tokens(folder, "targets", row, row["target_length"] - 1)


def t5_torch(row):
    import torch
    import transformers
    config = transformers.T5Config(vocab_size=row["vocab"], d_model=512, d_kv=64, d_ff=1024, num_layers=8, num_heads=6,
                                   feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0)
    ids = torch.randint(4, row["vocab"], (row["batch"], row["length"]))
    labels = torch.randint(4, row["vocab"], (row["batch"], row["target_length"]))
    return (transformers.T5ForConditionalGeneration(config),
            dict(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels))


def mixture_data(folder, row):
    tokens(folder, "tokens", row, row["length"])


def mixture_torch(row):
    import torch
    import transformers
    config = transformers.MixtralConfig(vocab_size=row["vocab"], hidden_size=512, intermediate_size=1024, num_hidden_layers=6,
                                        num_attention_heads=8, num_key_value_heads=8, num_local_experts=8,
                                        num_experts_per_tok=2, max_position_embeddings=row["length"], use_cache=False)
    ids = torch.randint(4, row["vocab"], (row["batch"], row["length"]))
    return transformers.MixtralForCausalLM(config), dict(input_ids=ids, labels=ids)


def vit_data(folder, row):
    """A folder of PNG files for each of two classes, with random pixels."""
    import os
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    side = row["image"]
    for index in range(documents(row)):
        place = folder / "images" / str(index % 2)
        place.mkdir(parents=True, exist_ok=True)
        pixels = b"".join(b"\0" + os.urandom(3 * side) for _ in range(side))
        (place / f"{index}.png").write_bytes(
            b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(pixels, 0)) + chunk(b"IEND", b""))


def vit_torch(row):
    import torch
    import transformers
    config = transformers.ViTConfig(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536,
                                    image_size=row["image"], num_labels=2)
    images = torch.randn(row["batch"], 3, row["image"], row["image"])
    return (transformers.ViTForImageClassification(config),
            dict(pixel_values=images, labels=torch.randint(2, (row["batch"],))))


def resnet_data(folder, row):
    """Records of CIFAR-10 with random pixels."""
    import os
    pixels = 3 * row["image"] ** 2
    (folder / "images.bin").write_bytes(b"".join(bytes([index % 10]) + os.urandom(pixels) for index in range(2 * row["batch"])))


def resnet_torch(row):
    """ResNet-18 with the stem of small images: a convolution of 3 x 3 pixels, and no pooling."""
    import torch
    import transformers
    from transformers.models.resnet.modeling_resnet import ResNetConvLayer
    model = transformers.ResNetForImageClassification(transformers.ResNetConfig(
        layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], embedding_size=64, num_labels=10))
    stem = model.resnet.embedder
    stem.embedder, stem.pooler = ResNetConvLayer(3, 64, kernel_size=3), torch.nn.Identity()
    images = torch.randn(row["batch"], 3, row["image"], row["image"])
    return model, dict(pixel_values=images, labels=torch.randint(10, (row["batch"],)))


MODELS = {
    "bert": {"name": "BERT-base, two classes", "vocab": 30522, "length": 128, "batch": 8, "data": bert_data, "torch": bert_torch,
             "tables": '[model]\nplugin = "bert"\nsize = "bert-base"\nvocab = 30522\ncontext = {length}\nclasses = 2\n'
                       '[data]\nplugin = "sentences"\npath = "{folder}/tokens"\nlabels = "{folder}/labels"\ndocument_end = 1\n'
                       'first_token = 2\nlast_token = 3\nvalidation = 0.0\n'},
    "t5": {"name": "T5 1.1 small", "vocab": 32128, "length": 128, "target_length": 64, "batch": 8, "data": t5_data,
           "torch": t5_torch,
           "tables": '[model]\nplugin = "t5"\nsize = "t5-small"\ncontext = {length}\ntarget_context = {target_length}\n'
                     '[data]\nplugin = "pairs"\npath = "{folder}/tokens"\ntarget_path = "{folder}/targets"\ndocument_end = 1\n'
                     'validation = 0.0\n'},
    "mixture": {"name": "Mixtral of 114M, 8 experts", "vocab": 32000, "length": 256, "batch": 4, "data": mixture_data,
                "torch": mixture_torch,
                "tables": '[model]\nplugin = "mixture"\nlayers = 6\nheads = 8\nembed = 512\nffn = 1024\nexperts = 8\nchoices = 2\n'
                          'normalize = "yes"\nvocab = 32000\ncontext = {length}\n'
                          '[data]\nplugin = "tokens"\npath = "{folder}/tokens"\nvalidation = 0.0\n'},
    "vit": {"name": "ViT-S/16, 224 x 224", "image": 224, "batch": 8, "data": vit_data, "torch": vit_torch,
            "tables": '[model]\nplugin = "vit"\nsize = "vit-s-16"\nimage = {image}\n'
                      '[data]\nplugin = "images"\nformat = "folder"\npaths = ["{folder}/images"]\nclasses = 2\n'
                      'height = {image}\nwidth = {image}\n'},
    "resnet": {"name": "ResNet-18, 32 x 32", "image": 32, "batch": 32, "micro": 32, "data": resnet_data,
               "torch": resnet_torch,  # batch norms have the samples of one micro-batch
               "tables": '[model]\nplugin = "resnet"\nsize = "resnet-18"\nstem = "cifar"\nimage = {image}\n'
                         '[data]\nplugin = "images"\nformat = "cifar10"\npaths = ["{folder}/images.bin"]\n'},
}


def digest(seconds, warmup, peak):
    return {"seconds": statistics.median(seconds[warmup:]), "peak_bytes": peak}


def write_config(args, row, folder):
    tables = row["tables"].format(folder=folder, **row)
    micro = row.get("micro", 1) if args.device == "cpu" else row["batch"]
    config = folder / "run.toml"
    config.write_text(tables + RUN.format(folder=folder, steps=args.steps, batch=row["batch"], micro=micro, device=args.device) +
                      ("threads = 2\n" if args.device == "cpu" else "") + (BF16 if args.dtype == "bf16" else ""))
    return config


def run_strata(args, row, folder):
    config, log = write_config(args, row, folder), folder / "log.jsonl"
    log.unlink(missing_ok=True)
    _, peak = run_measured([str(args.strata), "train", str(config), "--log-json", str(log), "--overwrite"], 2)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    if args.device != "cpu":
        peak = max(next(line for line in lines if line.get("event") == "summary")["arena_peak_bytes"])
    return digest([line["step_seconds"] for line in lines if "step_seconds" in line], args.warmup, peak)


def run_torch(args, key):
    command = [sys.executable, __file__, "--there", key, "--steps", args.steps, "--dtype", args.dtype,
               "--device", args.device, "--scale", args.scale]
    output, peak = run_measured([str(word) for word in command + ["--compile"] * args.compile], 2)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return digest([line["seconds"] for line in lines], args.warmup, lines[-1]["device_bytes"] or peak)


def train_there(args):
    """The side of PyTorch, in a process of its own. Prints a line for each step."""
    import torch
    torch.manual_seed(1)
    torch.set_num_threads(2)
    cuda = args.device == "cuda"
    model, batch = MODELS[args.there]["torch"](MODELS[args.there])
    if cuda:
        model, batch = model.cuda(), {name: tensor.cuda() for name, tensor in batch.items()}
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=cuda)
    if args.compile:
        model.compile()
    for _ in range(args.steps):
        begin = time.perf_counter()
        with torch.autocast("cuda" if cuda else "cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = float(loss.detach())  # waits for the GPU
        print(json.dumps({"loss": loss, "seconds": time.perf_counter() - begin,
                          "device_bytes": torch.cuda.max_memory_allocated() if cuda else 0}), flush=True)


def compare(args, key):
    row = MODELS[key]
    sides = {"strata": [], "torch": []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        row["data"](folder, row)
        for _ in range(args.rounds):
            sides["strata"].append(run_strata(args, row, folder))
            sides["torch"].append(run_torch(args, key))
    seconds = {side: statistics.median(each["seconds"] for each in rounds) for side, rounds in sides.items()}
    memory = {side: max(each["peak_bytes"] for each in rounds) for side, rounds in sides.items()}
    print(f"{row['name']:28} {args.dtype:5} {seconds['strata']:8.4f} s {seconds['torch']:8.4f} s "
          f"ratio {seconds['torch'] / seconds['strata']:.3f}  memory {memory['strata'] / 2**20:.0f} and "
          f"{memory['torch'] / 2**20:.0f} MiB, ratio {memory['strata'] / memory['torch']:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default=REPOSITORY / "build/release/bin/strata", type=Path)
    parser.add_argument("--models", nargs="+", choices=[*MODELS, "all"], default=["all"])
    parser.add_argument("--there", choices=MODELS, help=argparse.SUPPRESS)
    parser.add_argument("--device", default="cpu", help="Strata's device plugin; PyTorch uses the GPU if it is cuda")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write configurations and data, and measure nothing")
    parser.add_argument("--scale", type=int, default=1, help="factor of the batches")
    parser.add_argument("--compile", action="store_true", help="torch.compile there")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=2, help="steps left out of the median, on both sides")
    args = parser.parse_args()
    for row in MODELS.values():
        row["batch"] *= args.scale
    if args.there:
        train_there(args)
        return
    keys = MODELS if "all" in args.models else args.models
    if args.write:
        for key in keys:
            folder = args.write.resolve() / key
            folder.mkdir(parents=True)
            MODELS[key]["data"](folder, MODELS[key])
            print(write_config(args, MODELS[key], folder))
        return
    print(f"{'model':28} {'type':5} {'Strata':>10} {'PyTorch' + (', compiled' if args.compile else ''):>10}")
    for key in keys:
        compare(args, key)


if __name__ == "__main__":
    main()
