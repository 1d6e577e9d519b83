"""Incremental reads with Spark: what changed between two instants of the timeline.

Begin is exclusive, end is inclusive: give the last instant that you have read as the
next begin. Tombstones come along, with _deleted = true and the document's last
revision; a document that changed twice in the range comes once, as it is at its end.
"""


def dataframe(spark, table, begin, end):
    """Changes by DataFrame options."""
    return (spark.read.format("hudi")
            .option("hoodie.datasource.query.type", "incremental")
            .option("hoodie.datasource.read.begin.instanttime", begin)
            .option("hoodie.datasource.read.end.instanttime", end)
            .load(table))


def one_partition(spark, table, begin, glob):
    """Changes in some partitions only: others' files are not opened."""
    return (spark.read.format("hudi")
            .option("hoodie.datasource.query.type", "incremental")
            .option("hoodie.datasource.read.begin.instanttime", begin)
            .option("hoodie.datasource.read.incr.path.glob", glob)
            .load(table))


def register(spark, table):
    """A name for the table, which SQL and Hudi's procedures ask for."""
    spark.sql("DROP TABLE IF EXISTS shop")
    spark.sql(f"CREATE TABLE shop USING hudi LOCATION '{table}'")


def sql(spark, begin, end):
    """Changes in SQL."""
    return spark.sql(f"SELECT * FROM hudi_table_changes('shop', 'latest_state', '{begin}', '{end}')")


def temp_view(spark, begin, end):
    """Changes as a view that several statements share."""
    spark.sql(f"""CALL copy_to_temp_view(table => 'shop', view_name => 'shop_changes', query_type => 'incremental',
                  begin_instance_time => '{begin}', end_instance_time => '{end}')""")
    return spark.sql("SELECT * FROM shop_changes")


def commits(spark):
    """The commits, the newest first."""
    return [r["commit_time"] for r in spark.sql("CALL show_commits(table => 'shop', limit => 100)").collect()]


def last_seq(spark, instant):
    """The position in the database's feed up to which a commit has it all."""
    rows = spark.sql(f"CALL show_commit_extra_metadata(table => 'shop', instant_time => '{instant}', metadata_key => 'last_seq')").collect()
    return rows[0]["metadata_value"]
