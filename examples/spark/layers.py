"""ODS -> DWD -> DWS: two tables that couch2hudi keeps (orders, and customers as their
dimension), details joined from both, and sums for each city, each step incremental.

A detail is stale when its order changed or when its customer did: both count. What a
step writes has as its order the sum of the instants that it read up to, which only
grows: a later step wins, and one that is repeated changes nothing. The order's own
_rev_order would not do, for the detail depends on the customer as well.
"""
from pyspark.sql import functions as F

KEYS = {"hoodie.datasource.write.operation": "upsert", "hoodie.upsert.shuffle.parallelism": "2", "hoodie.metadata.enable": "false",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator"}


def snapshot(spark, table):
    return spark.read.format("hudi").load(table)


def changes(spark, table, begin):
    """Rows that commits after begin wrote; all of them at first."""
    return (spark.read.format("hudi").option("hoodie.datasource.query.type", "incremental")
            .option("hoodie.datasource.read.begin.instanttime", begin).load(table))


def newest(frame, begin):
    """The last instant that a read has seen: the next begin."""
    return frame.agg(F.max("_hoodie_commit_time")).first()[0] or begin


def write(frame, table, name, key, order):
    mode = "append" if frame.sparkSession._jvm.java.io.File(table, ".hoodie").exists() else "overwrite"
    (frame.write.format("hudi").options(**KEYS)
     .option("hoodie.table.name", name)
     .option("hoodie.datasource.write.recordkey.field", key)
     .option("hoodie.datasource.write.precombine.field", order)
     .mode(mode).save(table))


def details(spark, orders, customers, since):
    """The details that are stale, anew: of changed orders, and of orders of changed customers."""
    changed, moved = changes(spark, orders, since["orders"]), changes(spark, customers, since["customers"])
    upto = {"orders": newest(changed, since["orders"]), "customers": newest(moved, since["customers"])}
    stale = changed.select("_id").union(
        snapshot(spark, orders).join(moved.select(F.col("_id").alias("customer")), "customer").select("_id")).distinct()
    o = snapshot(spark, orders).join(stale, "_id").select("_id", "customer", "total", "_deleted")
    c = snapshot(spark, customers).select(F.col("_id").alias("customer"), "city")
    frame = (o.join(c, "customer", "left")
             .select("_id", "customer", "total", "city", version(upto), F.col("_deleted").alias("gone")))
    return frame, upto


def version(upto):
    return F.lit(sum(int(instant) for instant in upto.values())).cast("long").alias("version")


def step(spark, orders, customers, dwd, dws, since):
    """One run of the whole way; since is where the last one ended, and the answer where this one did."""
    frame, upto = details(spark, orders, customers, since)
    frame = frame.cache()
    before = snapshot(spark, dwd).join(frame.select("_id"), "_id").select("city") if since["orders"] != "000" else frame.select("city")
    cities = before.union(frame.select("city")).where("city IS NOT NULL").distinct().cache()
    cities.count()  # before the details change
    write(frame, dwd, "order_details", "_id", "version")
    all_details = snapshot(spark, dwd)
    sums = (cities.join(all_details.where("NOT gone"), "city", "left").groupBy("city")
            .agg(F.count("_id").alias("orders"), F.round(F.coalesce(F.sum("total"), F.lit(0.0)), 2).alias("revenue"))
            .select("*", version(upto)))
    write(sums, dws, "revenue_by_city", "city", "version")
    return upto
