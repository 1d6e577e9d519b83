"""Structured Streaming: a job that follows the table, and goes on from its checkpoint.

A batch holds what changed since the last one, each document once and in its newest
state, with tombstones; so foreachBatch with an upsert by _id keeps a copy that is
equal to the table after each batch. A batch that is repeated after a crash changes
nothing: the rows are states, not differences.
"""


def follow(spark, table, checkpoint, upsert):
    """Start the stream; upsert(frame, batch) is called for each batch."""
    return (spark.readStream.format("hudi")
            .option("hoodie.datasource.streaming.startOffset", "earliest")  # only where there is no checkpoint yet
            .load(table)
            .select("_id", "_rev", "_rev_order", "_deleted", "status", "total")
            .writeStream
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="1 second")
            .foreachBatch(upsert)
            .start())
