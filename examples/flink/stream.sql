-- A stream into a database, by primary key: the copy stays equal to the table.
--
-- The job runs with parallelism 1 (SET 'parallelism.default' = '1' in the SQL client):
-- a document that moves to another partition must not overtake itself.
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
  'hoodie.datasource.write.hive_style_partitioning' = 'true',
  'read.streaming.enabled' = 'true',
  'read.streaming.check-interval' = '1',
  'read.start-commit' = 'earliest'
);

-- Derby stands for MySQL: the same with 'url' = 'jdbc:mysql://host/db' and its driver.
CREATE TABLE orders (
  id STRING,
  rev STRING,
  deleted BOOLEAN,
  status STRING,
  total DOUBLE,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'jdbc',
  'url' = '${JDBC}',
  'table-name' = 'orders',
  'sink.buffer-flush.interval' = '1s'
);

-- A delete message of a table with tombstones says that a document left a partition,
-- and has the key alone: without the condition it could take the row away that came for
-- the new partition. Deleted documents come as rows, with _deleted = true.
INSERT INTO orders
SELECT _id, _rev, _deleted, status, total FROM shop WHERE _rev IS NOT NULL;
