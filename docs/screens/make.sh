#!/bin/sh
# Makes the pictures in this folder, from a pipeline that answers prompts on two expert hosts
# until its gate is drained: needs bin/switchyard (make build), tmux and python3.
#
#     docs/screens/make.sh [FOLDER]
set -eu
cd "$(dirname "$0")/../.."
out=${1:-docs/screens} sw=bin/switchyard port=${PORT:-4622} work=$(mktemp -d)
SWITCHYARD_NATS=nats://127.0.0.1:$port SWITCHYARD_LOG_LEVEL=error
export SWITCHYARD_NATS SWITCHYARD_LOG_LEVEL
session="switchyard-screens-$port"
up="" asks=""
end() {
	tmux kill-session -t "$session-80" 2>/dev/null || true
	tmux kill-session -t "$session-160" 2>/dev/null || true
	for p in $asks $up; do kill "$p" 2>/dev/null || true; done
	wait
	rm -rf "$work"
}
trap end EXIT INT TERM
"$sw" up --listen "127.0.0.1:$port" --hosts 2 2>"$work/up" & up=$!
until grep -q '^ready' "$work/up"; do kill -0 "$up"; sleep 0.2; done
# Six who ask for one answer after the other.
for seed in 1 2 3 4 5 6; do
	(while "$sw" prompt --seed "$seed" --temperature 1 --max-tokens 400 "Once upon a time" >/dev/null 2>&1; do :; done) & asks="$asks $!"
done
for size in "80 24" "160 50"; do
	set -- $size
	tmux new-session -d -s "$session-$1" -x "$1" -y "$2" "SWITCHYARD_NATS=$SWITCHYARD_NATS $sw top"
done
sleep 6
for width in 80 160; do tmux capture-pane -p -t "$session-$width" >"$work/serving-$width"; done
"$sw" drain "$("$sw" top --json | sed 's/.*"id":"\(gate-[^"]*\)".*/\1/')" >/dev/null 2>&1 || true
sleep 4
tmux capture-pane -p -t "$session-80" | python3 docs/screens/screen.py 80 24 >"$work/80.svg"
tmux capture-pane -p -t "$session-160" | python3 docs/screens/screen.py 160 50 >"$work/160.svg"
grep -q 'NOT SERVING: missing gate' "$work/80.svg"
mv "$work/80.svg" "$out/top-80x24.svg"
python3 docs/screens/screen.py 160 50 <"$work/serving-160" >"$out/top-160x50-serving.svg"
mv "$work/160.svg" "$out/top-160x50.svg"
