"""The Spark session of the recipes. On a cluster the bundle comes with
--packages org.apache.hudi:hudi-spark3.5-bundle_2.12:0.15.0 and these settings with --conf."""
import os


def session():
    from pyspark.sql import SparkSession
    settings = {
        "spark.master": "local[2]",
        "spark.jars": os.environ["HUDI_SPARK_BUNDLE"],
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        # small tables: quick starts matter more than speed
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": os.path.join(os.environ.get("TMPDIR", "/tmp"), "spark-warehouse"),
    }
    builder = SparkSession.builder.appName("couch2hudi-examples")
    for k, v in settings.items():
        builder = builder.config(k, v)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
