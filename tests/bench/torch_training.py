"""How tests/bench/torch_gpt2.py and torch_llama.py train: batches, steps, ranks and what is printed."""
import json
import resource
import time

import torch
from torch import nn


def distributed(model, args):
    if args.ranks == 1:
        return model
    if not args.fsdp:
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def batches(args, rank, device):
    """Endless micro-batches of tokens and their successors; one token a byte of the file."""
    with open(args.data, "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(1 + rank)
    while True:
        starts = torch.randint(len(data) - args.context - 1, (args.micro,), generator=generator)
        window = torch.stack([data[start:start + args.context + 1] for start in starts]).long().to(device)
        yield window[:, :-1], window[:, 1:]


def train_step(model, optimizer, data, micro_batches, args):
    total = 0.0
    for number in range(micro_batches):
        if args.ranks > 1 and not args.fsdp:
            model.require_backward_grad_sync = number == micro_batches - 1
        with torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = model(*next(data)) / micro_batches
        loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    # Waits for a GPU.
    return float(total)


def make_optimizer(model, args):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                             lr=args.lr, betas=(0.9, 0.95), fused=args.fused)


def peak_bytes(args):
    if args.device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def worker(rank, args, make_model):
    torch.manual_seed(1337)
    torch.set_num_threads(args.threads)
    if args.ranks > 1:
        torch.distributed.init_process_group("nccl" if args.device == "cuda" else "gloo", rank=rank,
                                             init_method=f"tcp://127.0.0.1:{args.port}", world_size=args.ranks)
    device = torch.device("cuda", rank) if args.device == "cuda" else torch.device("cpu")
    model = distributed(make_model(args).to(device), args)
    optimizer = make_optimizer(model, args)
    if args.compile:
        model.compile()
    data = batches(args, rank, device)
    micro_batches = args.batch // args.ranks // args.micro
    for step in range(args.steps):
        begin = time.perf_counter()
        loss = train_step(model, optimizer, data, micro_batches, args)
        speed = args.batch * args.context / (time.perf_counter() - begin)
        if rank == 0:
            print(json.dumps({"step": step, "loss": loss, "tokens_per_second": speed}), flush=True)
    if rank == 0:
        print(json.dumps({"peak_rss_bytes": peak_bytes(args), "torch": torch.__version__,
                          "parameters": sum(p.numel() for p in model.parameters())}), flush=True)
    if args.ranks > 1:
        torch.distributed.destroy_process_group()


def add_options(parser, sizes, learning_rate):
    """`sizes`: names and defaults of the options that are integers."""
    parser.add_argument("--data", required=True)
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--lr", type=float, default=learning_rate)
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--fsdp", action="store_true", help="fully_shard instead of DistributedDataParallel")
    parser.add_argument("--compile", action="store_true", help="torch.compile")


def run(parser, make_model):
    """Trains the model that `make_model` makes of the options, in a process for each rank."""
    args = parser.parse_args()
    if args.batch % (args.ranks * args.micro):
        parser.error("--batch must be a multiple of --ranks * --micro")
    if args.ranks == 1:
        worker(0, args, make_model)
    else:
        torch.multiprocessing.spawn(worker, (args, make_model), nprocs=args.ranks)
