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

nodes=() shop=
# Nodes are ended by SIGINT: at once, since nobody is to be sent elsewhere first. What bash has to say of each is not news.
end() {
    trap - EXIT INT TERM
    { kill -INT "${nodes[@]}"; kill "$shop"; wait; } 2>/dev/null || true
}
trap end EXIT
trap 'exit 0' INT TERM
"$load" origin --listen 127.0.0.1:3000 >state/shop.log 2>&1 &
shop=$!
for node in 1 2 3; do
    "$anteroom" run -c "node$node.yaml" >"state/node$node.log" 2>&1 &
    nodes+=($!)
done

status() { "$anteroom" cluster status -c node1.yaml 2>/dev/null; }
# All three are heard by the one that leads, and none of them is still on its way.
is_whole() {
    status >state/status
    [ "$(grep -c '^node .*  heard  ' state/status)" = 3 ] && ! grep -q 'does not answer\|not known' state/status
}
# A node that has ended, such as one whose port is taken, says why in its last lines.
ended() {
    for at in 0 1 2; do
        if ! kill -0 "${nodes[at]}" 2>/dev/null; then
            echo "node $((at + 1)) has ended:" >&2
            tail -n 3 "state/node$((at + 1)).log" >&2
            return 0
        fi
    done
    return 1
}
whole=false
for _ in $(seq 150); do
    if ended; then exit 1; fi
    if is_whole; then whole=true; break; fi
    # Refused once the fleet is founded, and while a controller is on its way up.
    if ! grep -q '^controller ' state/status; then "$anteroom" cluster init -c node1.yaml >state/init.log 2>&1 || true; fi
    sleep 0.2
done
if ! $whole; then
    echo "the fleet does not come together; see state/*.log in $(pwd):" >&2
    cat state/status state/init.log >&2 || true
    exit 1
fi

cat state/status
echo
echo "  The shop's doors: http://127.0.0.1:8081/ http://127.0.0.1:8082/ http://127.0.0.1:8083/"
echo "  It holds 5 visitors, one more a second; what the nodes say is in $(pwd)/state/node*.log"
echo "  Kill a node, and look again:  $anteroom cluster status -c $(pwd)/node2.yaml"
echo "  or by node1.yaml or node3.yaml: whichever runs answers for all."
echo
echo "  Ctrl-C ends the fleet."
# A node that was killed on purpose is not worth a line either.
{ wait; } 2>/dev/null
