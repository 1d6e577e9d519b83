#!/usr/bin/env bash
# A Docker engine of our own for the container test, apart from any other.
#
#   engine.sh start DIR     install (Debian, root) if missing, start, print DOCKER_HOST=…
#   engine.sh stop DIR      stop it and remove its state
#
# It lives in DIR alone: socket DIR/d.sock, log DIR/dockerd.log. Nothing is pulled:
# the images are built FROM scratch out of static binaries.
# Environment: DOCKER_STORAGE (storage driver, default vfs: works inside a container too).
set -euo pipefail

usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -eq 2 ] || usage
action=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
pidfile=$dir/dockerd.pid
socket=$dir/d.sock

running() { [ -S "$socket" ] && [ -f "$pidfile" ] && kill -0 "$(cat "$pidfile")" 2>/dev/null; }

install_engine() {
  command -v dockerd >/dev/null && command -v docker-compose >/dev/null && command -v docker >/dev/null && return 0
  local packages=(docker.io docker-compose)
  # From Debian 13 on, the command line client is a package of its own.
  apt-get -qq update >"$dir/apt.log" 2>&1 || true
  apt-cache show docker-cli >/dev/null 2>&1 && packages+=(docker-cli)
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}" >>"$dir/apt.log" 2>&1 || {
    tail -n 5 "$dir/apt.log" >&2
    echo "engine: cannot install ${packages[*]} (log: $dir/apt.log)" >&2
    exit 1
  }
}

start() {
  running && { echo "DOCKER_HOST=unix://$socket"; return 0; }
  install_engine
  rm -f "$pidfile"
  setsid dockerd -H "unix://$socket" --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$pidfile" \
    --storage-driver "${DOCKER_STORAGE:-vfs}" --ip6tables=false >"$dir/dockerd.log" 2>&1 </dev/null &
  for _ in $(seq 1 120); do
    docker -H "unix://$socket" version >/dev/null 2>&1 && { echo "DOCKER_HOST=unix://$socket"; return 0; }
    sleep 0.5
  done
  tail -n 20 "$dir/dockerd.log" >&2
  echo "engine: dockerd did not come up (log: $dir/dockerd.log)" >&2
  exit 1
}

stop() {
  if running; then
    local pid
    pid=$(cat "$pidfile")
    kill "$pid"
    for _ in $(seq 1 60); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.5
    done
    kill -0 "$pid" 2>/dev/null && { echo "engine: dockerd $pid does not stop" >&2; exit 1; }
  fi
  rm -rf "$dir/data" "$dir/exec" "$socket" "$pidfile"
}

case $action in
  start) start ;;
  stop) stop ;;
  *) usage ;;
esac
