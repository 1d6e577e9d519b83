#!/usr/bin/env bash
# Start an engine that setup.sh installed: it answers on stdout, line by line.
#
#   start.sh DIR flink|hive [--log FILE]
#
# What it answers is in the head of Serve.java. HEAP (1g) bounds its memory.
set -euo pipefail
dir=$1/$2 engine=$2
here=$(cd "$(dirname "$0")" && pwd)
log=/dev/null
[ "${3:-}" = --log ] && log=$4
[ -f "$dir/.installed" ] || { echo "start.sh: no $engine in $1: install it with setup.sh" >&2; exit 1; }
opens=()
for p in lang lang.reflect lang.invoke util util.concurrent util.concurrent.atomic util.concurrent.locks net io nio math time text; do
  opens+=("--add-opens=java.base/java.$p=ALL-UNNAMED")
done
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${opens[@]}" "-Xmx${HEAP:-1g}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
  -Djol.skipHotspotSAAttach=true -Djdk.attach.allowAttachSelf=true -Dderby.stream.error.file=/dev/null \
  -Dlog4j.configurationFile="$here/log4j2.properties" \
  -cp "$dir/classes:$dir/lib/*:$dir/last/*" "${engine^}" 2>>"$log"
