# A Slurm of one node: munged, slurmctld and slurmd, with their configuration, ports, state and logs in one folder.
# Source this file, then call start_cluster FOLDER, and stop_cluster FOLDER at the end.

# Why Slurm cannot run here. Nothing if it can.
cluster_obstacle() {
  local command
  [[ $(id -u) -eq 0 ]] || { echo "its daemons need root"; return; }
  for command in munged slurmctld slurmd srun sbatch; do
    PATH=$PATH:/usr/sbin type -P "$command" >/dev/null || { echo "$command is not installed"; return; }
  done
}

# A port of this machine on which nobody listens.
free_port() {
  local port
  while :; do
    port=$((10000 + RANDOM % 10000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
}

# No cgroups and no accounting, so that it runs in containers. The number of the first job is random, because the ports
# of runs derive from it, and other clusters may be tested on this machine.
write_configuration() {
  local folder=$1 host
  host=${HOSTNAME%%.*}
  cat >"$folder/slurm.conf" <<EOF
ClusterName=strata
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$(cat "$folder/socket")
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
FirstJobId=$((1 + RANDOM))
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=localhost NodeHostname=$host NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES PriorityTier=1 MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=ALL PriorityTier=10 MaxTime=INFINITE State=UP
EOF
}

start_cluster() {
  local folder=$1 sockets
  # Daemons that an interrupted test has left.
  [[ -d $folder ]] && stop_cluster "$folder"
  mkdir -p "$folder/state" "$folder/spool"
  # The path of a socket has at most 107 bytes.
  sockets=$(mktemp -d) && chmod 755 "$sockets" && echo "$sockets/munge" >"$folder/socket"
  write_configuration "$folder"
  export SLURM_CONF=$folder/slurm.conf PATH=$PATH:/usr/sbin
  (umask 077 && head -c 128 /dev/urandom >"$folder/munge.key")
  # --force: folders above may be writable for others.
  munged --force --key-file "$folder/munge.key" --socket "$sockets/munge" --pid-file "$folder/munged.pid" \
    --log-file "$folder/munged.log" --seed-file "$folder/munge.seed" 2>"$folder/munged.warnings"
  slurmctld -f "$SLURM_CONF"
  slurmd -f "$SLURM_CONF"
}

# Ends a daemon by its file of the process number, and waits for its end.
end_daemon() {
  local id
  id=$(cat "$1" 2>/dev/null) || return 0
  # The number may belong to another program by now.
  [[ $(cat "/proc/$id/comm" 2>/dev/null) == "$(basename "$1" .pid)" ]] || return 0
  kill "$id"
  for _ in {1..100}; do
    [[ -d /proc/$id ]] || return 0
    sleep 0.1
  done
  kill -KILL "$id"
}

stop_cluster() {
  local folder=$1 sockets
  if [[ -e $folder/slurmctld.pid ]]; then
    # Steps outlive the daemons.
    SLURM_CONF=$folder/slurm.conf timeout 10 scancel --user=root --full --signal=KILL || true
    SLURM_CONF=$folder/slurm.conf timeout 10 scancel --user=root || true
    for _ in {1..50}; do
      [[ -n $(SLURM_CONF=$folder/slurm.conf timeout 10 squeue --noheader) ]] || break
      sleep 0.1
    done
  fi
  for daemon in slurmd slurmctld munged; do end_daemon "$folder/$daemon.pid"; done
  sockets=$(dirname "$(cat "$folder/socket" 2>/dev/null || echo /none/none)")
  [[ $sockets == */tmp.* ]] && rm -rf "$sockets"
  rm -rf "$folder"
}
