#!/usr/bin/env bash
# Three nodes of a fleet and a shop behind them on this machine, until Ctrl-C. Everything that it makes is in state/.
# Usage: run.sh ANTEROOM ANTEROOM_LOAD, the two programs.
set -euo pipefail
anteroom=$(realpath "$1")
load=$(realpath "$2")
cd "$(dirname "$0")"

mkdir -p -m 0700 state
if [ ! -e state/ca ]; then "$anteroom" certs ca --out state/ca >/dev/null; fi
if [ ! -e state/admin.token ]; then (umask 077; head -c 24 /dev/urandom | base64 >state/admin.token); fi
for node in 1 2 3; do
    if [ ! -e "state/tls$node" ]; then
        "$anteroom" certs node --ca state/ca --id "$node" --out "state/tls$node" >/dev/null
    fi
done

started=()
trap 'kill "${started[@]}" 2>/dev/null || true; wait' EXIT
"$load" origin --listen 127.0.0.1:3000 >state/shop.log 2>&1 &
started+=($!)
for node in 1 2 3; do
    "$anteroom" run -c "node$node.yaml" >"state/node$node.log" 2>&1 &
    started+=($!)
done

status() { "$anteroom" cluster status -c node1.yaml 2>/dev/null; }
founded=false
for _ in $(seq 100); do
    if status | grep -q ' leads '; then founded=true; break; fi
    # Refused once the fleet is founded, and while a controller is on its way up.
    "$anteroom" cluster init -c node1.yaml >state/init.log 2>&1 || true
    sleep 0.2
done
if ! $founded; then
    echo "the fleet is not founded; see state/*.log in $(pwd):" >&2
    cat state/init.log >&2
    exit 1
fi

status
echo
echo "  The shop's doors: http://127.0.0.1:8081/ http://127.0.0.1:8082/ http://127.0.0.1:8083/"
echo "  It holds 5 visitors, one more a second; what the nodes say is in $(pwd)/state/node*.log"
echo "  Kill a node, and look again:  $anteroom cluster status -c $(pwd)/node2.yaml"
echo
echo "  Ctrl-C ends the fleet."
wait
