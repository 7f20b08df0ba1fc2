#!/usr/bin/env bash
# Four processes on two machines, by Slurm: sbatch examples/cluster/slurm.sh
#
# The folder of the run is on a file system that the first machine can write. The data are read by the
# first process alone. Slurm sends SIGUSR1 two minutes before the time is up: the step ends, and a
# checkpoint is written, from which the same command goes on.
#SBATCH --job-name=mantissa
#SBATCH --nodes=2
#SBATCH --ntasks=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
set -euo pipefail

run=$HOME/runs/resnet20
resume=()
[[ -e $run/config.toml ]] && resume=(--resume)

# Open MPI of Debian is built with PMIx; `srun --mpi=list` says what a cluster has.
exec srun --mpi=pmix mantissa train --model resnet20 --data fashion-mnist --epochs 12 \
  --replicas 2 --accumulate 8 --threads "$SLURM_CPUS_PER_TASK" --out "$run" "${resume[@]}"
