-- The table as it was at an instant. With 'read.end-commit' alone Flink reads that one
-- commit; from the earliest on up to it is the state at that time.
CREATE TABLE shop (
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

SELECT _id, _rev, _deleted
FROM shop /*+ OPTIONS('read.start-commit' = 'earliest', 'read.end-commit' = '${INSTANT}') */
WHERE NOT _deleted;
