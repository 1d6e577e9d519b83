-- Hive reads a Merge-On-Read table under two names: shop_ro, base files alone, and
-- shop_rt, base files with their logs.
--
-- The incremental mode is set for the name in hoodie.properties (hoodie.table.name),
-- whatever the metastore calls the table: another name is ignored, and all rows come.
CREATE EXTERNAL TABLE shop_ro (
  `_hoodie_commit_time` string, `_hoodie_commit_seqno` string, `_hoodie_record_key` string,
  `_hoodie_partition_path` string, `_hoodie_file_name` string,
  `_id` string, `_rev` string, `_rev_order` bigint, `_deleted` boolean, status string, total double)
PARTITIONED BY (pt string)
ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe'
STORED AS INPUTFORMAT 'org.apache.hudi.hadoop.HoodieParquetInputFormat'
OUTPUTFORMAT 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat'
LOCATION '${TABLE}';

CREATE EXTERNAL TABLE shop_rt (
  `_hoodie_commit_time` string, `_hoodie_commit_seqno` string, `_hoodie_record_key` string,
  `_hoodie_partition_path` string, `_hoodie_file_name` string,
  `_id` string, `_rev` string, `_rev_order` bigint, `_deleted` boolean, status string, total double)
PARTITIONED BY (pt string)
ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe'
STORED AS INPUTFORMAT 'org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat'
OUTPUTFORMAT 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat'
LOCATION '${TABLE}';

-- Everything, without tombstones.
SELECT `_id`, `_rev` FROM shop_rt WHERE NOT `_deleted`;

-- What the next commits after an instant wrote. The mode chooses files; the condition
-- chooses rows, for a base file that is written again brings its old rows along.
SET hoodie.shop.consume.mode=INCREMENTAL;
SET hoodie.shop.consume.start.timestamp=${BEGIN};
SET hoodie.shop.consume.max.commits=${COMMITS};
SELECT `_id`, `_rev`, `_deleted` FROM shop_rt WHERE `_hoodie_commit_time` > '${BEGIN}';
SET hoodie.shop.consume.mode=SNAPSHOT;
