#!/usr/bin/env bash
# Two hosts on one machine: network namespaces with a cable of limited bandwidth between them. MPI
# speaks TCP over it. The bits are the same as in one process, and a cut cable ends the run.
#
#   MANTISSA=build/dev/mantissa tests/two_hosts_test.sh
#
# Skips if there is no Open MPI, or if namespaces may not be made.
# shellcheck source=tests/cli/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/cli/common.sh"

skip() {
  echo "skipped: $1"
  exit 77
}
command -v mpirun >/dev/null && [[ -e $(dirname "$MANTISSA")/libmantissa-mpi.so ]] ||
  skip "there is no Open MPI"
MANTISSA=$(realpath "$MANTISSA")
here=mantissa-a-$$ there=mantissa-b-$$
command -v ip >/dev/null && ip netns add $here 2>/dev/null || skip "no network namespaces"
trap 'ip netns pids $there | xargs -r kill -9 2>/dev/null; ip netns delete $here; ip netns delete $there 2>/dev/null; rm -rf "$folder"' EXIT
cable() {
  ip netns add $there && ip -n $here link add cable type veth peer name cable netns $there &&
    ip -n $here address add 10.77.0.1/24 dev cable && ip -n $there address add 10.77.0.2/24 dev cable &&
    for host in $here $there; do
      ip -n $host link set lo up && ip -n $host link set cable up || return
    done
}
cable 2>/dev/null || skip "no cable between namespaces"
# 200 Mbit/s, if the kernel can limit it.
if command -v tc >/dev/null; then
  for host in $here $there; do
    ip netns exec $host tc qdisc add dev cable root tbf rate 200mbit burst 64kb latency 50ms \
      2>/dev/null || echo "note: the bandwidth is not limited"
  done
fi

# The program that mpirun calls in place of ssh.
cat >"$folder/agent" <<EOF
#!/bin/sh
shift # the host's name: there is one
exec ip netns exec $there unshare --uts sh -c "hostname there; \$*"
EOF
chmod +x "$folder/agent"
printf '10.77.0.1 slots=1\n10.77.0.2 slots=1\n' >"$folder/hosts"
# Open MPI 4 and 5 have names of their own for the same settings of mpirun.
export OMPI_MCA_plm_rsh_agent=$folder/agent OMPI_MCA_oob_tcp_if_include=10.77.0.0/24 \
  PRTE_MCA_plm_ssh_agent=$folder/agent PRTE_MCA_prte_if_include=10.77.0.0/24 \
  PMIX_MCA_ptl_tcp_if_include=10.77.0.0/24 \
  OMPI_MCA_btl_tcp_if_include=10.77.0.0/24 OMPI_MCA_btl=tcp,self

settings=(--data "$data" --model resnet8 --width 0.5 --batch-size 16 --accumulate 4)
launch=(ip netns exec $here "$MANTISSA" launch -n 2 --hosts "$folder/hosts" --deadline 5 -- train)

accepts "one process" "test accuracy" train "${settings[@]}" --steps 24 --out "$folder/one"
status=0
timeout 120 "${launch[@]}" "${settings[@]}" --steps 24 --out "$folder/two" \
  >"$folder/stdout" 2>"$folder/stderr" || status=$?
holds "a stage on each host" test $status = 0
state() {
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["state_sha256"])' \
    "$1/summary.json"
}
holds "the same state" test "$(state "$folder/two")" = "$(state "$folder/one")"

# Asynchronously: the bits of two stages that are threads. They differ from those of a flush.
async=(--pipeline async --drain-every 12)
accepts "two threads, asynchronously" "test accuracy" train "${settings[@]}" --stages 2 \
  "${async[@]}" --steps 24 --out "$folder/async-threads"
status=0
timeout 120 "${launch[@]}" "${settings[@]}" "${async[@]}" --steps 24 --out "$folder/async" \
  >"$folder/stdout" 2>"$folder/stderr" || status=$?
holds "a stage on each host, asynchronously" test $status = 0
holds "the same state as in threads" \
  test "$(state "$folder/async")" = "$(state "$folder/async-threads")"
holds "another one than that of a flush" \
  test "$(state "$folder/async")" != "$(state "$folder/one")"

"${launch[@]}" "${settings[@]}" --steps 100000 --checkpoint-every 4 --out "$folder/cut" \
  >"$folder/stdout" 2>"$folder/stderr" &
launched=$!
for ((i = 0; i < 300; ++i)); do
  compgen -G "$folder/cut/checkpoint-*.safetensors" >/dev/null && break
  sleep 0.1
done
sleep 1
ip -n $there link set cable down
begin=$SECONDS status=0
wait $launched || status=$?
# The deadline and a grace of ten seconds.
holds "the cable is cut: the run ends" eval '((status == 1 && SECONDS - begin <= 15))'
holds "the message names the other process" \
  grep -qE "process 1 \(stage 2\) in step.*not been heard of" "$folder/stderr"
for ((i = 0; i < 150; ++i)); do
  pgrep -f -- "--out $folder/cut" >/dev/null || break
  sleep 0.1
done
# (Open MPI's own daemon on the other host waits for TCP to give up.)
holds "no process is left on either host" eval '! pgrep -f -- "--out $folder/cut" >/dev/null'
holds "its checkpoint is whole" test -e "$(find "$folder/cut" -name 'checkpoint-*' | head -1)"

finish
