"""Spark Structured Streaming over Hudi tables: what serve.py answers to "start", "fetch" and "stop"."""
import threading


class Streams:
    """The streams of one Spark session, by their ids."""

    def __init__(self, spark):
        self.spark = spark
        self.running = {}

    def start(self, q):
        """Follow a table from its beginning, or from where the checkpoint's last stream ended."""
        stream = Stream(self.spark, q)
        name = f"stream-{len(self.running)}"
        self.running[name] = stream
        return {"id": name}

    def fetch(self, q):
        """The rows that came since the last fetch, behind the number of the batch that brought them."""
        return self.running[q["id"]].fetch()

    def stop(self, q):
        self.running[q["id"]].stop()
        return {}


class Stream:
    """One stream, whose batches wait until they are fetched."""

    def __init__(self, spark, q):
        self.lock = threading.Lock()
        self.taking = threading.Lock()
        self.rows = []
        self.columns = q["columns"]
        options = {"hoodie.datasource.streaming.startOffset": "earliest", **q.get("options", {})}
        frame = spark.readStream.format("hudi").options(**options).load(q["table"])
        self.types = dict(frame.dtypes)
        self.query = (frame.select(*[f"`{c}`" for c in self.columns]).writeStream
                      .option("checkpointLocation", q["checkpoint"])
                      .trigger(processingTime="0 seconds")
                      .foreachBatch(self.take).start())

    def take(self, frame, batch):
        with self.taking:
            rows = [[batch, *row] for row in frame.collect()]
            with self.lock:
                self.rows += rows

    def fetch(self):
        if self.query.exception() is not None:
            raise self.query.exception()
        with self.lock:
            rows, self.rows = self.rows, []
        names = {"bigint": "long"}
        types = [[c, names.get(self.types[c], self.types[c])] for c in self.columns]
        return {"columns": [["batch", "long"], *types], "rows": rows, "state": "RUNNING" if self.query.isActive else "STOPPED"}

    def stop(self):
        """Stop it. Spark does not wait for the batch that is being taken; whoever fetches next wants its rows."""
        self.query.stop()
        with self.taking:
            pass
