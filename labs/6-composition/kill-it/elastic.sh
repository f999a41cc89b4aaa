#!/bin/bash
# Four nodes on one machine, of which one goes: bash elastic.sh NOTEBOOK
# Each node is a torchrun of its own, with one rank. At step 7 the last one is killed, torchrun
# included. The others notice, wait a few seconds for somebody to come, and go on as three.

set -euo pipefail
lab=$(cd "$(dirname "$0")" && pwd)
notebook=${1:-$lab/kill-it.ipynb}
folder=$(mktemp -d)
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1    # each attempt has a store of its own

node() {    # is_host: the first one keeps the list of who is there, and must not go
  torchrun --nnodes 3:4 --nproc-per-node 1 --max-restarts 3 --monitor-interval 0.5 \
    --rdzv-backend c10d --rdzv-endpoint "localhost:${PORT:-29511}" --rdzv-id kill-it \
    --rdzv-conf "is_host=$1,last_call_timeout=5,keep_alive_interval=1,keep_alive_max_attempt=3" \
    "$lab/torchrun_lab.py" "$notebook" "$folder" node
}

node true &
host=$!
node false &
node false &
VICTIM=1 node false &
wait "$host"
wait
echo "checkpoints and losses: $folder"
