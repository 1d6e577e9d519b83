#!/usr/bin/env python3
"""Answer questions about Hudi tables, line by line, with a real engine.

    DIR/venv/bin/python        serve.py spark --hudi-version 0.15.0
    DIR/venv-hudirs/bin/python serve.py hudi-rs

Starting a JVM costs 10 to 20 s, so one process answers all questions of a test
run. Each line of stdin is a JSON object with "op"; each gives one line on
stdout. The first line says that the engine is ready. What engines print goes
to --log (or nowhere). End of input, or {"op": "quit"}, ends it.

Rows: {"columns": [[name, type]...], "rows": [[value...]...]}, in the order of
"columns", unsorted. Types are long, double, string, boolean, or the engine's
own word. Values are exact: nulls stay, longs are not floats, doubles are
shortest round-trip; NaN and the infinities are strings, bytes are Base64. With
"out": FILE the answer is written there and the line holds {"out": FILE}.
Failures are {"error": text}.

Questions (those below the line only for Spark):

    snapshot        table
    read-optimized  table
    time-travel     table, as_of
    incremental     table, begin, end?      begin exclusive, end inclusive
    increments      table, spans            [[begin, end]...]: {"answers": [rows...]}
    properties      table                   {"properties": {...}}
    count           table                   {"count": n}
    timeline        table                   {"timeline": [...]}
    ------------------------------------------------------------------
    sql             query                   tables by name; needs --metastore
    upsert          table, rows, operation? (upsert, insert, delete...), add? {column: type}, without? [column...]
    compact         table, only?            schedules and runs; "schedule" or "run" alone
    call            table, procedure, arguments?  {"result": [...]}: what CALL returns
    copy            table, to               the table's rows as a new table of Spark's own
    archived        table                   {"archived": [...]}: one a state, with "details" of completed instants
    validate        table                   {"findings": [...]}
    start           table, checkpoint, columns    a stream: {"id": ...}; see streams.py
    fetch           id                      rows that came since the last fetch, behind their "batch"
    stop            id

Everywhere: "options" (Hudi read or write options), "columns" (a choice of
them), "meta": "all" to keep file name and sequence number of a row.
"""
import argparse
import json
import os
import sys

VOLATILE = ("_hoodie_commit_seqno", "_hoodie_file_name")
DELETED = "_hoodie_is_deleted"  # a row that says it is deleted; not every table has the column
READS = ("snapshot", "read-optimized", "time-travel", "incremental", "sql")


class Refused(Exception):
    """A question that this engine cannot answer."""


def plain(v):
    """A value as JSON can hold it exactly."""
    import base64
    import datetime
    import decimal
    if isinstance(v, dict):
        return {str(k): plain(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    if isinstance(v, (bytes, bytearray)):
        return base64.b64encode(bytes(v)).decode()
    if isinstance(v, (datetime.datetime, datetime.date)):
        return v.isoformat()
    if isinstance(v, decimal.Decimal):
        return str(v)
    if isinstance(v, float) and (v != v or v in (float("inf"), float("-inf"))):
        return str(v)
    return v


def chosen(names, question):
    """The names of the columns to answer with."""
    if question.get("columns"):
        return [n for n in names if n in question["columns"]]
    return [n for n in names if question.get("meta") == "all" or n not in VOLATILE]


class Spark:
    TYPES = {"bigint": "long"}

    def __init__(self, args):
        from oracle import S3A, Oracle, find_jar
        from streams import Streams
        conf, jars = {}, []
        if args.metastore:
            conf = {"spark.sql.catalogImplementation": "hive", "spark.hadoop.hive.metastore.uris": args.metastore}
        if args.s3:
            jars = [find_jar(*jar) for jar in S3A]
            conf |= {"spark.hadoop.fs.s3a.endpoint": args.s3, "spark.hadoop.fs.s3a.path.style.access": "true"}
        self.oracle = Oracle(args.hudi_version, conf=conf, jars=jars, memory=args.memory, cores=args.cores, log=args.log)
        self.streams = Streams(self.oracle.spark)
        self.name = f"spark {self.oracle.spark.version}, hudi {args.hudi_version}"

    def close(self):
        self.oracle.close()

    def read(self, op, q):
        o, table, options = self.oracle, q.get("table"), q.get("options", {})
        if op == "sql":
            frame = o.spark.sql(q["query"])
        elif op == "snapshot":
            frame = o.snapshot(table, **options)
        elif op == "read-optimized":
            frame = o.read_optimized(table, **options)
        elif op == "time-travel":
            frame = o.time_travel(table, q["as_of"], **options)
        else:
            frame = o.incremental(table, q["begin"], q.get("end"), **options)
        names = chosen(frame.columns, q)
        frame = frame.select(*[f"`{n}`" for n in names])
        types = [self.TYPES.get(f.dataType.simpleString(), f.dataType.simpleString()) for f in frame.schema.fields]
        return {"columns": list(zip(names, types)),
                "rows": [[plain(v) for v in self.deep(row)] for row in frame.collect()]}

    def deep(self, v):
        """Rows inside a row as dicts; the row itself as a list."""
        from pyspark.sql import Row

        def inner(x):
            if isinstance(x, Row):
                return {k: inner(y) for k, y in x.asDict().items()}
            if isinstance(x, list):
                return [inner(y) for y in x]
            if isinstance(x, dict):
                return {k: inner(y) for k, y in x.items()}
            return x
        return [inner(x) for x in v]

    def count(self, q):
        return self.oracle.snapshot(q["table"], **q.get("options", {})).count()

    def properties(self, q):
        return self.oracle.properties(q["table"])

    def timeline(self, q):
        return self.oracle.timeline(q["table"])

    def upsert(self, q):
        """Write rows as a second writer would, with the table's own settings."""
        o, table = self.oracle, q["table"]
        frame = o.snapshot(table)
        frame.count()  # 1.2.0 cannot write to a metadata table that its JVM neither made nor read
        schema = frame.drop(*[c for c in frame.columns if c.startswith("_hoodie_") and c != DELETED]).schema
        named = {k for r in q["rows"] for k in r}
        if DELETED in named and DELETED not in schema.fieldNames():
            schema = schema.add(DELETED, "boolean")
        for name, kind in q.get("add", {}).items():
            schema = schema.add(name, kind)
        schema = type(schema)([f for f in schema.fields if f.name not in q.get("without", ())])
        wrong = sorted(named - set(schema.fieldNames()))
        if wrong:
            raise Refused(f"the table has no column {', '.join(wrong)}")
        doubles = {f.name for f in schema.fields if f.dataType.simpleString() == "double"}
        rows = [tuple(float(r[n]) if n in doubles and r.get(n) is not None else r.get(n) for n in schema.fieldNames())
                for r in q["rows"]]
        options = {**o.writer_options(table), **q.get("options", {})}
        o.write(o.spark.createDataFrame(rows, schema), table, q.get("operation", "upsert"), **options)
        return {"timeline": o.timeline(table)}

    def archived(self, q):
        return {"archived": self.oracle.archived(q["table"])}

    def copy(self, q):
        o, table = self.oracle, q["table"]
        frame = o.snapshot(table)
        frame = frame.drop(*[c for c in frame.columns if c.startswith("_hoodie_")])
        o.write(frame, q["to"], "upsert", **{**o.writer_options(table), **q.get("options", {})})
        return {"timeline": o.timeline(q["to"])}

    def compact(self, q):
        options = ",".join(f"{k}={v}" for k, v in q.get("options", {}).items())
        return {"result": self.oracle.compact(q["table"], q.get("only"), options=options or None)}

    def call(self, q):
        return {"result": [{k: plain(v) for k, v in r.items()} for r in self.oracle.call(q["procedure"], q["table"], **q.get("arguments", {}))]}

    def validate(self, q):
        return {"findings": self.oracle.validate(q["table"])}


class HudiRs:
    TYPES = {"int64": "long", "bool": "boolean", "large_string": "string", "string_view": "string"}

    def __init__(self, args):
        import hudirs
        from importlib.metadata import version
        self.hudirs = hudirs
        self.name = f"hudi-rs {version('hudi')}"
        self.store = {}
        if args.s3:
            keys = {k.lower(): v for k, v in os.environ.items() if k.startswith("AWS_")}
            self.store = {**keys, "aws_endpoint": args.s3, "aws_allow_http": "true"}

    def table(self, q, options=None):
        # What Hadoop calls s3a is s3 to others.
        return self.hudirs.table(q["table"].replace("s3a://", "s3://"), {**self.store, **(options or {})})

    def close(self):
        pass

    def read(self, op, q):
        options = dict(q.get("options", {}))
        if op == "read-optimized":
            options.update(self.hudirs.READ_OPTIMIZED)
        table = self.table(q, options)
        batches = self.hudirs.batches(table, op, q.get("as_of"), q.get("begin"), q.get("end"))
        if not batches:
            return {"columns": [], "rows": []}
        schema = batches[0].schema
        names = chosen(schema.names, q)
        types = [self.TYPES.get(str(schema.field(n).type), str(schema.field(n).type)) for n in names]
        rows = []
        for batch in batches:
            values = [batch.column(n).to_pylist() for n in names]
            rows += [[plain(v) for v in row] for row in zip(*values)]
        return {"columns": list(zip(names, types)), "rows": rows}

    def count(self, q):
        return len(self.read("snapshot", {**q, "columns": ["_hoodie_record_key"]})["rows"])

    def properties(self, q):
        return dict(self.table(q).hudi_options())

    def timeline(self, q):
        timeline = self.table(q).get_timeline()
        out = [{"requested": i.timestamp, "completed": getattr(i, "completion_timestamp", None), "action": i.action, "state": "COMPLETED"}
               for name in ("commits", "deltacommits", "replacecommits", "clustering_commits")
               for i in getattr(timeline, f"get_completed_{name}")()]
        return sorted(out, key=lambda i: (i["requested"], i["action"]))


def answer(engine, q):
    op = q.get("op")
    if op in ("start", "fetch", "stop") and hasattr(engine, "streams"):
        return getattr(engine.streams, op)(q)
    if op not in ("quit", "sql") and "://" not in q.get("table", "") and not os.path.isdir(os.path.join(q.get("table", ""), ".hoodie")):
        raise Refused(f"{q.get('table')}: no .hoodie folder, not a Hudi table")
    if op in READS:
        return engine.read(op, q)
    if op == "increments":
        return {"answers": [attempt(lambda: engine.read("incremental", {**q, "begin": b, "end": e}))
                            for b, e in q["spans"]]}
    if op in ("count", "properties", "timeline"):
        return {op: getattr(engine, op)(q)}
    if op in ("upsert", "call", "copy", "compact", "archived", "validate") and hasattr(engine, op):
        return getattr(engine, op)(q)
    raise Refused(f"{engine.name} does not know the question {op!r}")


def attempt(question):
    try:
        return question()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # hudi-rs panics are BaseExceptions
        return {"error": f"{type(e).__name__}: {first_line(e)}"}


def first_line(error):
    """What went wrong, in one line; of a failed Spark job, what failed in the task."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    text = java.toString() if java is not None else str(error)
    lines = [ln.split(" executor driver): ")[-1] for ln in text.splitlines() if ln.strip()]
    return lines[0] if lines else type(error).__name__


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("engine", choices=("spark", "hudi-rs"))
    p.add_argument("--hudi-version", default="1.2.0")
    p.add_argument("--memory", default="1g")
    p.add_argument("--s3", help="http://host:port of an S3 store for s3a:// tables; its keys are in the environment")
    p.add_argument("--metastore", help="thrift://host:port: tables by name, for sql")
    p.add_argument("--cores", type=int, default=1)
    p.add_argument("--log", default=os.devnull)
    args = p.parse_args()

    # The answers keep stdout to themselves; all else that prints goes to the log.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    log = os.open(args.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1), os.dup2(log, 2)

    def say(o):
        answers.write(json.dumps(o) + "\n")
        answers.flush()

    started = attempt(lambda: (Spark if args.engine == "spark" else HudiRs)(args))
    if isinstance(started, dict):
        say(started)
        return 1
    say({"ready": started.name})
    try:
        for line in sys.stdin:
            q = json.loads(line)
            if q.get("op") == "quit":
                break
            a = attempt(lambda: answer(started, q))
            if q.get("out") and "error" not in a:
                with open(q["out"], "w", encoding="utf-8") as f:
                    json.dump(a, f)
                a = {"out": q["out"]}
            say(a)
    finally:
        started.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
