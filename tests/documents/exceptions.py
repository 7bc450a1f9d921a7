"""What the test of the pages replaces, and what it leaves out. Each row must match something in a page."""

# Words that stand for the reader's own: (pattern, what replaces it).
PLACEHOLDERS = (
    (r"import +FOLDER CHECKPOINT\b", "import llama-folder imported"),
    (r"import-config +FILE CONFIG\b", "import-config tests/foreign/samples/megatron-arguments.txt imported.toml"),
    (r"export +CHECKPOINT FOLDER\b", "export imported exported"),
    (r"plot +RUN\b", "plot runs/a"),
    (r"report +RUN OUT\.html\b", "report runs/a a.html"),
    (r"new KIND NAME\b", "new strategy mine"),
    (r"(launch|MASTER_PORT.* train) CONFIG\b", r"\1 gloo.toml"),
    (r"(mpirun -n) 4 strata train CONFIG\b", r"\1 2 strata train mpi.toml"),
    (r"strata (simulate|plan) +CONFIG\b", r"strata \1 config.toml --cluster two-core"),
    (r"\b(CONFIG|mine\.toml)(?!\w)", "config.toml"),
    (r"MASTER_PORT=29500", 'MASTER_PORT="$FREE_PORT"'),
    (r"step-0000\d+", "step-00000001"),
    (r"ops squared\b", "ops linear"),
    (r"build/lib/strata/plugins/strategy_my_strategy\.so", "build/release/lib/strata/plugins/strategy_ddp.so"),
    (r"\bCHECKPOINT\b", "runs/quickstart"),
    (r"\bTOKENIZER INPUT --output FILE\b", "llama-folder my.txt --output out.bin"),
    (r"(show) NAME\b", r"\1 ddp"),
    (r" \[NAME\]", ""),
    (r"\bcheck FILE\b", "check build/release/lib/strata/plugins/strategy_ddp.so"),
)

# Work that is shortened: (pattern, what replaces it).
SHORTER = (
    (r"overlap\.py (.*)--steps \d+", r'overlap.py --strata "$PROGRAM" \1--steps 2 --config a.toml'),
    (r"expert_against_ddp\.py (.*)--steps \d+", r'expert_against_ddp.py --strata "$PROGRAM" \1--steps 2 --warmup 1 --ffn 8'),
    (r"muon_share\.py .*", r'muon_share.py --strata "$PROGRAM" --steps 2 --ranks 1 2 --context 16 --config tiny-gpt2.toml'),
    (r"lora_base\.py", r'lora_base.py --strata "$PROGRAM" --steps 2 --rounds 2 --config tiny-llama.toml'),
    (r"plugins +check (\S+)", r"plugins check \1 --only P06"),
    (r"--ranks-per-process 4", "--ranks-per-process 2"),
    (r"(step_kernels .*)", r"\1 --set model.layers=1 --set model.heads=2 --set model.embed=32 --set model.context=16 --set batch.micro=1 "
                           r"--set batch.global=1 --repetitions 1 --seconds 0 --rotate 1 --matrix-size 32 --copy 65536"),
    (r"mpi_all_reduce 2 25", "mpi_all_reduce 2 1"),
    (r"gloo_all_reduce (\S+) 2 15", r"gloo_all_reduce \1 2 1"),
    (r"strata_matrix (.*)--count \d+", r"strata_matrix \1--count 1"),
    (r"plan configs/planning/\S+ --cluster \S+( --nodes \d+)?( --vocab \d+)?", "plan config.toml --cluster two-core"),
    (r"published_steps (\S+ \S+)$", r"published_steps \1 22B"),
    (r"calibrate (node\.toml)(?=\s|$)", r"calibrate \1 --seconds 1"),
    (r"strata_chaos (.*)--faults \d+", r"strata_chaos \1--faults 1"),
)

# Commands that do not run: (pattern, reason).
LEFT_OUT = (
    (r"(quickstart|install-dependencies|carry-dependencies|build-deb|build-rpm|packaging/test)\.sh|build/carried", "installs packages"),
    (r"python/environment\.sh", "installs PyTorch; ctest python_environment"),
    (r"tests/run\.sh|\.ci/run|cmake --(preset|build)|ctest --preset", "builds or tests everything"),
    (r"\bsrun |#SBATCH|scontrol|code=|exit \$code", "needs Slurm; ctest slurm"),
    (r"torchrun", "needs PyTorch"),
    (r"--hosts", "needs other machines; ctest restart"),
    (r"mpirun.*-genv", "needs MPICH"),
    (r"against_torch\.py|validation_against_torch|generation\.py|tokenizer_speed\.py", "needs Python's libraries; ctest bench_torch"),
    (r"nvcc|cuobjdump|gpu\.sh|test_cuda|nccl", "needs CUDA or a GPU"),
    (r"tensorboard --logdir", "serves until it is stopped"),
    (r"strata diagnose", "needs a run that failed; ctest diagnosis"),
    (r"ulimit|(calibrated_steps|plan_choice)\.py|step_kernels models", "measures"),
    (r"^cmake -S|^STRATA_PLUGIN_PATH=", "the reader's own plugin; ctest sdk"),
    (r"pkg-config", "needs an installed Strata; ctest external"),
    (r"sdk/abi/", "builds; ctest symbols"),
)
# Pages whose commands another test runs: (page, its ctest).
ELSEWHERE = (("docs/sdk/first-strategy.md", "sdk"),)
# Fragments that are not checked: (page, pattern, reason).
FRAGMENTS_LEFT_OUT = (
    ("docs/cuda.md", 'plugin = "cuda"', "needs a GPU"),
    ("docs/nccl.md", 'plugin = "cuda"', "needs a GPU"),
    ("docs/data.md", 'plugin = "images"', "the model of the page's fragments reads tokens"),
    ("docs/models.md", 'size = "mixtral-8x7b"', "needs 755 GB"),
    ("docs/sdk/ops.md", 'plugin = "squared"', "the reader's own plugin"),
    ("docs/sdk/strategies.md", 'plugin = "my_strategy"', "the reader's own plugin"),
)
