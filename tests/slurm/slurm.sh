#!/usr/bin/env bash
# Runs under a real Slurm: tasks of srun are ranks, and the batch script of docs/running.md continues a run that is
# stopped, preempted and started again, bit for bit.
# Usage: bash slurm.sh SOURCE BUILD
set -euo pipefail
source=$1 build=$2
. "$source/tests/slurm/cluster.sh"

obstacle=$(cluster_obstacle)
if [[ -n $obstacle ]]; then
  echo "skipped: $obstacle"
  exit 77
fi

folder=$build/tests/slurm/cluster
export PATH=$build/bin:$PATH
work=$(mktemp -d)
trap 'stop_cluster "$folder"; rm -rf "$work"' EXIT
start_cluster "$folder"
cd "$work"

fail() {
  echo "FAILED: $*" >&2
  tail -n 20 "$work"/*.out "$folder"/*.log >&2
  exit 1
}
# await WHAT COMMAND...: until the command succeeds.
await() {
  local what=$1 deadline=$((SECONDS + 120))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || fail "waited 120 s for $what"
    sleep 0.1
  done
}
expect() { grep -qF -- "$2" "$1" || fail "'$2' is not in $1"; }

# configuration STEPS: a run that ends after these steps. Its other settings do not depend on their number.
configuration() {
  for i in {1..120}; do echo "line $((i * i % 97)) of the text"; done >text.txt
  cat >small.toml <<EOF
run = { steps = $1, seed = 11, output = "job", log_every = 1, checkpoint_every = 1000 }
model = { plugin = "gpt2", layers = 2, heads = 2, embed = 16, context = 8, dropout = 0.1 }
data = { path = "text.txt", validation = 0.1 }
batch = { global = 8, micro = 2 }
optimizer = { lr = 1e-3, clip = 0.5 }
device = { threads = 1 }
communicator = { plugin = "gloo", start_timeout = 60 }
strategy = [{ plugin = "ddp", size = 2 }]
EOF
}
# train NAME [WORDS]...: the words of a run with its own output and log.
train() { echo strata train small.toml --set "run.output=$1" --log-json "$1.jsonl" "${@:2}"; }
losses() { sed -nE 's/.*("step":[0-9]+,"loss":[^,]+,"grad_norm":[^,]+).*/\1/p' "$1.jsonl"; }
last_step() { sed -nE 's/^\{"step":([0-9]+),.*/\1/p' "$1.jsonl" | tail -n 1; }
has_step() { [[ $(last_step "$1") -ge $2 ]]; }
# Starts a requeued job at once. Slurm leaves it alone for two minutes, because a node refuses a job that starts in the
# second in which it was ended there.
start_again() { sleep 2 && scontrol update "JobId=$1" StartTime=now; }
job_has() { scontrol --oneliner show job "$1" | grep -qF " $2 "; }

is_idle() { [[ $(sinfo --noheader --format=%T --partition=all) == idle ]]; }
await "the node" is_idle
echo "== the batch script of docs/running.md, stopped, preempted, and started again"
sed -n '/^#!\/bin\/bash$/,/^```$/p' "$source/docs/running.md" | sed '/^```$/d; s/CONFIG/small.toml/; s/run\.jsonl/job.jsonl/' >job.sh
expect job.sh "--resume auto"
configuration 1000000
job=$(sbatch --parsable --ntasks=2 --output=job.out job.sh)
await "the first steps" has_step job 20
# Slurm asks like this for --signal, and users may.
scancel --signal=TERM "$job"
await "the requeued job" job_has "$job" Restarts=1
await "the requeued job" job_has "$job" JobState=PENDING
stopped=$(last_step job)
start_again "$job"
await "steps after the stop" has_step job $((stopped + 20))
expect job.out "resuming after step $stopped from"
urgent=$(sbatch --parsable --partition=urgent --ntasks=4 --output=urgent.out --wrap=true)
await "the preemption" job_has "$job" Restarts=2
await "the urgent job" job_has "$urgent" JobState=COMPLETED
[[ $(grep -cF "on SIGTERM; a checkpoint is written first" job.out) -eq 2 ]] || fail "the job was not stopped twice"
steps=$(($(last_step job) + 20))
configuration "$steps"
start_again "$job"
await "the end of the job" job_has "$job" JobState=COMPLETED
export STRATA_SECRET="the secret of this test"
srun --ntasks=2 $(train whole) >whole.out 2>&1 || fail "the undisturbed run ended with $?"
[[ $(losses whole | wc -l) -eq $steps ]] || fail "the log of the undisturbed run has not $steps steps"
diff <(losses whole) <(losses job) || fail "the losses differ from those of an undisturbed run"
cmp {whole,job}/"checkpoints/step-$(printf %08d "$steps")/rank-00000.safetensors" || fail "the checkpoints differ"

echo "== the end of the job's time"
code=0
srun --ntasks=2 --time=5 $(train refused --stop-before-job-end 5m) >refused.out 2>&1 || code=$?
[[ $code -eq 2 ]] || fail "exit code $code of a run whose job is never long enough"
expect refused.out "every start of the job would train one step"
configuration 1000000
code=0
srun --ntasks=2 --time=5 $(train deadline --resume auto --stop-before-job-end 4m50s) >deadline.out 2>&1 || code=$?
[[ $code -eq 75 ]] || fail "exit code $code of a run that stops before the end of its job"
expect deadline.out "on the coming end of the Slurm job"
configuration $(($(last_step deadline) + 5))
srun --ntasks=2 --time=60 $(train deadline --resume auto --stop-before-job-end 10m) >>deadline.out 2>&1 ||
  fail "exit code $? of a run whose job has time"

echo "== the variables of other ways to start tasks"
configuration 5
rows="none:gloo pmi2:gloo"
[[ ! -e $build/lib/strata/plugins/communicator_mpi.so ]] || rows="$rows pmix:mpi"
for row in $rows; do
  name=${row/:/-}
  srun --ntasks=2 --mpi="${row%:*}" $(train "$name" --set "communicator.plugin=${row#*:}") >"$name.out" 2>&1 ||
    fail "exit code $? with $row"
  diff <(losses whole | head -n 5) <(losses "$name") || fail "the losses of $row"
done
# Two steps of one job at once, each with half of its tasks.
salloc --quiet --ntasks=4 bash -c "srun --exact --ntasks=2 $(train left) >left.out 2>&1 & left=\$!
  srun --exact --ntasks=2 $(train right) >right.out 2>&1 && wait \$left" || fail "exit code $? of two steps at once"

echo "== a rank that is killed"
configuration 1000000
srun --kill-on-bad-exit=0 --ntasks=2 --job-name=killed $(train killed) >killed.out 2>&1 &
killed=$!
await "the first steps" has_step killed 5
step=$(squeue --noheader --name=killed --format=%i)
# Columns: process, job, step, its number on the node.
kill -KILL "$(scontrol listpids "$step.0" | awk '$4 == 1 { print $1 }')"
code=0
wait $killed || code=$?
[[ $code -eq 137 ]] || fail "exit code $code of a run with a killed rank"
expect killed.out "has ended without a word"
