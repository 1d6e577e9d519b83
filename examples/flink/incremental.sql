-- What changed between two instants. Both ends are inclusive in Flink: begin is the
-- millisecond after the last instant that was read. Tombstones come along.
CREATE TABLE shop (
  _hoodie_commit_time STRING,
  _id STRING,
  _rev STRING,
  _rev_order BIGINT,
  _deleted BOOLEAN,
  pt STRING,
  status STRING,
  total DOUBLE,
  PRIMARY KEY (_id) NOT ENFORCED
) PARTITIONED BY (pt) WITH (
  'connector' = 'hudi',
  'path' = '${TABLE}',
  'table.type' = 'MERGE_ON_READ',
  'precombine.field' = '_rev_order',
  'hoodie.datasource.write.hive_style_partitioning' = 'true'
);

SELECT _id, _rev, _deleted, _hoodie_commit_time
FROM shop /*+ OPTIONS('hoodie.datasource.query.type' = 'incremental', 'read.start-commit' = '${AFTER_BEGIN}', 'read.end-commit' = '${END}') */;
