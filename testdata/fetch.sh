#!/usr/bin/env bash
# Copy the fixtures that the tests need out of a folder of recordings.
#
#   testdata/fetch.sh FOLDER        FOLDER has golden/*.zip and vectors/*
#
# The fixtures are committed: nobody needs this script to run the tests. It is
# how the selection below is brought in again after the recordings were remade
# (testdata/README.md says how each was made).
set -euo pipefail

from=${1:?usage: testdata/fetch.sh FOLDER}
here=$(cd "$(dirname "$0")" && pwd)

golden=(
  w015-v6-bloom
  w015-v6-bloom-nomdt
  w015-v6-nonpartitioned
  w015-v6-hive-style
  w015-v6-global-bloom-move
  w015-v6-default-payload
  w015-v6-failed-inflight
  w015-v6-failed-rollback
  w015-v6-failed-rollback-nomarkers
  w015-v6-compaction-pending
  w015-v6-compaction-clean
  w015-v6-compaction-clean-mdt
  w015-v6-bucket
  w015-v6-bucket-nomdt
  w015-v6-bucket-compaction
  w015-v6-cdc
  w015-v6-cdc-cow
  w015-v6-cdc-compaction
  w015-v6-clustering
  w015-v6-insert-overwrite
  w015-v6-savepoint-restore
  w015-v6-archive
  w120-v6-bucket
  w015-v6-cdc
  w015-v6-cdc-cow
  w120-v6-bloom
  w120-v8-bloom
  w120-v8-bucket
  w120-v9-archive
  w120-v9-bloom
  w120-v9-bloom-nomdt
  w120-v9-bucket
  w120-v9-bucket-compaction
  w120-v9-bucket-nomdt
  w120-v9-cdc
  w120-v9-cdc-compaction
  w120-v9-cdc-cow
  w120-v9-clustering
  w120-v9-compaction-clean
  w120-v9-compaction-pending
  w120-v9-failed-inflight
  w120-v9-failed-rollback
  w120-v9-failed-rollback-nomarkers
  w120-v9-global-bloom-move
  w120-v9-hive-style
  w120-v9-insert-overwrite
  w120-v9-nonpartitioned
  w120-v9-savepoint-restore
)

mkdir -p "$here/golden" "$here/vectors"
for name in "${golden[@]}"; do
  install -m 644 "$from/golden/$name.zip" "$here/golden/$name.zip"
done
for file in "$from"/vectors/*; do
  install -m 644 "$file" "$here/vectors/$(basename "$file")"
done
# Recordings may name the script that decoded them by its path; keep what it is, not where it lay.
sed -i -E 's# \((helpers|tools)/[A-Za-z0-9_./]+\)##g' "$here"/vectors/*.json
echo "fixtures: ${#golden[@]} golden tables, $(ls "$here/vectors" | grep -vc README.md) vectors"
