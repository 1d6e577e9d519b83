#!/usr/bin/env python3
"""Run the recipes of this folder on tables that couch2hudi made, and check what they show.

    run.py [NAME...]     spark-incremental spark-streaming spark-layers
                         flink-incremental flink-time-travel flink-stream
                         hive-consume; all without names

What is right comes from `couch2hudi query` or from the documents themselves. The exit
code is not 0 when a recipe shows anything else. `make examples` installs what is
needed and runs it with these:

    ORACLE_DIR    where e2e/oracle/setup.sh put the engines (its venv's python runs this)
    COUCH2HUDI    the binary (bin/couch2hudi)
    COUCHFAKED    the stand-in for CouchDB, e2e/couchfaked
"""
import contextlib
import glob
import json
import os
import string
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PATIENCE = 180  # seconds that a stream may take to come to a state


class Wrong(Exception):
    """A recipe shows something else than it should."""


def expect(what, got, want):
    if got != want:
        raise Wrong(f"{what}: got {brief(got)}; want {brief(want)}")
    print(f"  ok  {what}: {len(want) if hasattr(want, '__len__') and not isinstance(want, str) else want}")


def brief(v):
    text = str(sorted(v, key=str) if isinstance(v, (set, frozenset)) else v)
    return text if len(text) < 400 else text[:400] + f"... ({len(v)})"


def eventually(what, read, want):
    """Read again until it is as wanted."""
    end = time.monotonic() + PATIENCE
    got = read()
    while got != want and time.monotonic() < end:
        time.sleep(0.3)
        got = read()
    expect(what, got, want)


# ---------------------------------------------------------------- tables

class World:
    """The demo's table, a stand-in for CouchDB, and tables that follow its databases."""

    def __init__(self, folder, stack):
        self.folder, self.stack = folder, stack
        self.binary = os.environ.get("COUCH2HUDI", os.path.join(ROOT, "bin", "couch2hudi"))
        self.demo = os.path.join(folder, "demo-table")
        self.couch2hudi("demo", "--table", self.demo, "--docs", "600")
        self.commits = instants(self.demo)
        faked = subprocess.Popen([os.environ["COUCHFAKED"], "-listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        stack.callback(faked.terminate)
        self.url = faked.stdout.readline().split()[-1]
        self.documents, self.revisions = {}, {}

    def couch2hudi(self, *args):
        env = {**os.environ, "XDG_CACHE_HOME": self.folder}
        done = subprocess.run([self.binary, *args], capture_output=True, text=True, env=env)
        if done.returncode != 0:
            raise Wrong(f"couch2hudi {' '.join(args)}: exit {done.returncode}\n{done.stderr}")
        return done.stdout

    def query(self, table, *args):
        """Rows by our own reader, tombstones too."""
        lines = self.couch2hudi("query", "--table", table, "--format", "jsonl", "--include-deleted", *args)
        return [json.loads(line) for line in lines.splitlines()]

    def create(self, database):
        self.send("PUT", "/" + database, None)

    def put(self, database, id, **fields):
        at = (database, id)
        body = {**fields, **({"_rev": self.revisions[at]} if at in self.revisions else {})}
        self.revisions[at] = self.send("PUT", f"/{database}/{id}", body)["rev"]
        self.documents[at] = fields

    def delete(self, database, id):
        self.send("DELETE", f"/{database}/{id}?rev={self.revisions.pop((database, id))}", None)
        del self.documents[database, id]

    def send(self, method, path, body):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        return json.load(urllib.request.urlopen(request))

    def follow(self, database, *args):
        """Bring the table of a database up to now."""
        table = os.path.join(self.folder, database)
        self.couch2hudi("run", "--once", "--source", f"{self.url}/{database}", "--table", table, *args)
        return table


def instants(table):
    return sorted(os.path.basename(p).split(".")[0] for p in glob.glob(os.path.join(table, ".hoodie", "*.deltacommit")))


def states(rows):
    """What recipes are compared by: which documents, in which revision."""
    return {(r["_id"], r["_rev"]) for r in rows}


# ---------------------------------------------------------------- engines

class Engine:
    """A program of e2e/oracle/jvm that answers line by line."""

    def __init__(self, name, stack):
        self.name = name
        log = os.path.join(os.environ["ORACLE_DIR"], f"examples-{name}.log")
        self.process = subprocess.Popen([os.path.join(ROOT, "e2e/oracle/jvm/start.sh"), os.environ["ORACLE_DIR"], name, "--log", log],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(self.process.kill)
        self.process.stdout.readline()

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise Wrong(f"{self.name}: {answer['error']}")
        return answer

    def rows(self, **question):
        answer = self.ask(**question)
        names = [c[0] for c in answer["columns"]]
        return [dict(zip(names, row)) for row in answer["rows"]]


def statements(file, **values):
    """The statements of an SQL file, with its ${NAMES} filled in."""
    with open(os.path.join(HERE, file)) as f:
        lines = [line for line in f if not line.lstrip().startswith("--")]
    return [s.strip() for s in string.Template("".join(lines)).substitute(values).split(";\n") if s.strip()]


class Engines:
    """Each engine, started once, when a recipe needs it."""

    def __init__(self, stack):
        self.stack, self.started = stack, {}

    def get(self, name):
        if name not in self.started:
            self.started[name] = self.spark() if name == "spark" else Engine(name, self.stack)
        return self.started[name]

    def spark(self):
        repository = os.environ.get("MAVEN_REPO_LOCAL") or os.path.expanduser("~/.m2/repository")
        os.environ.setdefault("HUDI_SPARK_BUNDLE", os.path.join(
            repository, "org/apache/hudi/hudi-spark3.5-bundle_2.12/0.15.0/hudi-spark3.5-bundle_2.12-0.15.0.jar"))
        from spark.session import session
        spark = session()
        self.stack.callback(spark.stop)
        return spark


# ---------------------------------------------------------------- recipes and what they must show

def spark_incremental(world, engines):
    from spark import incremental
    spark, table, (first, second) = engines.get("spark"), world.demo, world.commits
    want = states(world.query(table, "--since", first, "--until", second))
    shown = lambda frame: states(r.asDict() for r in frame.select("_id", "_rev").collect())
    expect("DataFrame, (first commit, second]", shown(incremental.dataframe(spark, table, first, second)), want)
    expect("DataFrame, the first full run", shown(incremental.dataframe(spark, table, "000", first)),
           states(world.query(table, "--since", "earliest", "--until", first)))
    day = {(r["_id"], r["_rev"]) for r in world.query(table, "--since", first) if r["pt"] == "20240102"}
    expect("one partition by glob", shown(incremental.one_partition(spark, table, first, "/pt=20240102/*")), day)
    incremental.register(spark, table)
    expect("SQL, hudi_table_changes", shown(incremental.sql(spark, first, second)), want)
    expect("SQL, copy_to_temp_view", shown(incremental.temp_view(spark, first, second)), want)
    expect("show_commits", incremental.commits(spark), [second, first])
    timeline = json.loads("[" + ",".join(world.couch2hudi("timeline", "--table", table, "--format", "jsonl").splitlines()) + "]")
    positions = {t["instant"]: t["last_seq"] for t in timeline if t.get("last_seq")}
    expect("last_seq of the second commit", incremental.last_seq(spark, second), positions[second])


def orders(world, database):
    """A database of orders and the table that follows it."""
    world.create(database)
    for i in range(40):
        world.put(database, f"order-{i}", status="new", total=i + 0.5, createdAt=f"2024-01-0{1 + i % 3}", customer=f"customer-{i % 5}")
    return world.follow(database, "--partition-field", "createdAt")


def more_orders(world, database):
    """Changes, a deletion, a move to another partition, a new order."""
    world.put(database, "order-1", status="paid", total=7.25, createdAt="2024-01-02", customer="customer-1")
    world.put(database, "order-2", status="sent", total=8.25, createdAt="2024-01-01", customer="customer-4")
    world.put(database, "order-40", status="new", total=1.25, createdAt="2024-01-01", customer="customer-0")
    world.delete(database, "order-3")
    world.follow(database, "--partition-field", "createdAt")


def spark_streaming(world, engines):
    from spark import streaming
    spark, table = engines.get("spark"), orders(world, "streamed")
    checkpoint, copy, arrived = os.path.join(world.folder, "checkpoint"), {}, []

    def upsert(frame, batch):
        for r in frame.collect():
            copy[r["_id"]] = r["_rev"]
            arrived.append((r["_id"], r["_rev"]))

    for n in range(2):
        query = streaming.follow(spark, table, checkpoint, upsert)
        if n == 1:
            more_orders(world, "streamed")
        eventually("the copy equals the table" + (", after a start from the checkpoint" if n else ""),
                   lambda: set(copy.items()), states(world.query(table)))
        query.processAllAvailable()  # a batch whose end is not in the checkpoint comes again
        query.stop()
    expect("each state came once", len(arrived), len(set(arrived)))
    expect("states that came", len(arrived), 44)


def spark_layers(world, engines):
    from spark import layers
    spark, table = engines.get("spark"), orders(world, "orders")
    world.create("customers")
    for i in range(5):
        world.put("customers", f"customer-{i}", city=["Porto", "Lyon"][i % 2])
    customers = world.follow("customers")
    dwd, dws = os.path.join(world.folder, "dwd"), os.path.join(world.folder, "dws")
    since = {"orders": "000", "customers": "000"}
    for n in range(2):
        if n == 1:
            more_orders(world, "orders")
            world.put("customers", "customer-1", city="Oslo")  # its orders did not change
            world.follow("customers")
        since = layers.step(spark, table, customers, dwd, dws, since)
        want = {}
        for (database, id), d in world.documents.items():
            if database == "orders":
                city = world.documents["customers", d["customer"]]["city"]
                count, revenue = want.get(city, (0, 0))
                want[city] = (count + 1, revenue + d["total"])
        got = {r["city"]: (r["orders"], r["revenue"]) for r in layers.snapshot(spark, dws).collect()}
        expect("orders and revenue by city" + (", after orders and a customer changed" if n else ""), got, want)


def flink_incremental(world, engines):
    first, second = world.commits
    rows = engines.get("flink").rows(op="sql", statements=statements(
        "flink/incremental.sql", TABLE=world.demo, AFTER_BEGIN=int(first) + 1, END=second))
    expect("SQL, (first commit, second]", states(rows), states(world.query(world.demo, "--since", first, "--until", second)))
    expect("deleted documents among them", sum(r["_deleted"] for r in rows), 1)


def flink_time_travel(world, engines):
    first, _ = world.commits
    rows = engines.get("flink").rows(op="sql", statements=statements("flink/time_travel.sql", TABLE=world.demo, INSTANT=first))
    want = [r for r in world.query(world.demo, "--as-of", first) if not r["_deleted"]]
    expect("SQL, as of the first commit", states(rows), states(want))


def flink_stream(world, engines):
    flink, table = engines.get("flink"), orders(world, "copied")
    jdbc = f"jdbc:derby:{world.folder}/copy;create=true"
    flink.ask(op="jdbc", url=jdbc, statements=[
        "CREATE TABLE orders (id VARCHAR(100) PRIMARY KEY, rev VARCHAR(100), deleted BOOLEAN, status VARCHAR(20), total DOUBLE)"])
    stream = flink.ask(op="start", statements=statements("flink/stream.sql", TABLE=table, JDBC=jdbc))["id"]

    def copy():
        flink.ask(op="fetch", id=stream)  # fails when the job has
        return {(r["ID"], r["REV"], r["TOTAL"]) for r in flink.rows(op="jdbc", url=jdbc, statements=["SELECT id, rev, total FROM orders"])}

    def want():
        return {(r["_id"], r["_rev"], r["total"]) for r in world.query(table)}

    eventually("the copy in a database equals the table", copy, want())
    more_orders(world, "copied")
    eventually("and again after more commits", copy, want())
    flink.ask(op="stop", id=stream)


def hive_consume(world, engines):
    hive, table = engines.get("hive"), orders(world, "consumed")
    for n in range(3):
        world.put("consumed", "order-5", status="paid", total=n, createdAt="2024-01-03", customer="customer-0")
        world.put("consumed", f"order-{n + 6}", status="paid", total=n, createdAt="2024-01-03", customer="customer-0")
        world.follow("consumed", "--partition-field", "createdAt")
    commits, columns = instants(table), ["_id", "_rev", "_hoodie_commit_time"]
    expect("the real-time name", states(hive.rows(op="snapshot", table=table, columns=columns)), states(world.query(table)))
    expect("the read-optimized name", states(hive.rows(op="read-optimized", table=table, columns=columns)),
           states(world.query(table, "--read-optimized")))
    consume = "hoodie.consumed.consume."
    for count in (1, 2, -1):
        options = {consume + "mode": "INCREMENTAL", consume + "start.timestamp": commits[0], consume + "max.commits": str(count)}
        rows = hive.rows(op="snapshot", table=table, columns=columns, options=options)
        rows = [r for r in rows if r["_hoodie_commit_time"] > commits[0]]  # the query's WHERE
        want = states(world.query(table, "--since", commits[0], "--until", commits[count if count > 0 else -1]))
        expect(f"consume.start.timestamp with max.commits {count}", states(rows), want)
    expect("tables in the SQL text", [s.split()[3] for s in statements("hive/consume.sql", TABLE=table, BEGIN=commits[0], COMMITS=1)
                                      if s.startswith("CREATE")], ["shop_ro", "shop_rt"])


RECIPES = {f.__name__.replace("_", "-"): f for f in (
    spark_incremental, spark_streaming, spark_layers, flink_incremental, flink_time_travel, flink_stream, hive_consume)}


def main():
    names = sys.argv[1:] or list(RECIPES)
    unknown = [n for n in names if n not in RECIPES]
    if unknown:
        sys.exit(f"run.py: no recipe {', '.join(unknown)}; there are {', '.join(RECIPES)}")
    sys.path.insert(0, HERE)
    failed = []
    with tempfile.TemporaryDirectory(prefix="examples-") as folder, contextlib.ExitStack() as stack:
        world, engines = World(folder, stack), Engines(stack)
        for name in names:
            print(name, flush=True)
            began = time.monotonic()
            try:
                RECIPES[name](world, engines)
            except Exception as e:  # the others are run all the same
                failed.append(name)
                print(f"  FAIL  {type(e).__name__}: {e}")
            print(f"  {time.monotonic() - began:.0f} s", flush=True)
    print(f"{len(names) - len(failed)} passed, {len(failed)} failed{': ' + ', '.join(failed) if failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
