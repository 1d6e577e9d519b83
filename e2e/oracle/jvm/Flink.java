import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.utils.TypeConversions;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;
import org.apache.hudi.common.table.HoodieTableConfig;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.TableSchemaResolver;
import org.apache.hudi.util.AvroSchemaConverter;

/** Flink with Hudi's connector, on a cluster of its own in this process. See Serve for what it answers. */
public final class Flink extends Serve {
  private static final Map<String, String> TYPES = Map.of("BIGINT", "long", "DOUBLE", "double", "STRING", "string", "BOOLEAN", "boolean");
  private final Map<String, Stream> streams = new LinkedHashMap<>();

  public static void main(String[] args) throws Exception {
    new Flink().run();
  }

  @Override
  String name() {
    return "flink " + org.apache.flink.runtime.util.EnvironmentInformation.getVersion() + ", hudi " + org.apache.hudi.common.util.StringUtils.class.getPackage().getImplementationVersion();
  }

  @Override
  Rows read(String op, String table, JsonNode q) throws Exception {
    Map<String, String> o = new LinkedHashMap<>();
    switch (op) {
      case "read-optimized":
        o.put("hoodie.datasource.query.type", "read_optimized");
        break;
      case "time-travel": // an end alone would be that one commit
        o.put("read.start-commit", "earliest");
        o.put("read.end-commit", q.get("as_of").asText());
        break;
      case "incremental":
        o.put("hoodie.datasource.query.type", "incremental");
        o.put("read.start-commit", after(q.get("begin").asText()));
        if (q.hasNonNull("end")) {
          o.put("read.end-commit", q.get("end").asText());
        }
        break;
      default:
    }
    o.putAll(options(q));
    StreamTableEnvironment t = environment(false);
    t.createTemporaryTable("t", describe(table, o));
    return collect(t.executeSql("SELECT " + names(t, "t", q) + " FROM t"));
  }

  /** All spans in one job, since starting one takes longer than reading a small table. */
  @Override
  List<Rows> increments(String table, JsonNode q) throws Exception {
    StreamTableEnvironment t = environment(false);
    List<String> parts = new ArrayList<>();
    for (JsonNode span : q.get("spans")) {
      String name = "t" + parts.size();
      Map<String, String> o = new LinkedHashMap<>();
      o.put("hoodie.datasource.query.type", "incremental");
      o.put("read.start-commit", after(span.get(0).asText()));
      o.put("read.end-commit", span.get(1).asText());
      o.putAll(options(q));
      t.createTemporaryTable(name, describe(table, o));
      parts.add("SELECT " + parts.size() + " AS span, " + names(t, name, q) + " FROM " + name);
    }
    Rows all = collect(t.executeSql(String.join(" UNION ALL ", parts)));
    List<Rows> out = new ArrayList<>();
    parts.forEach(p -> {
      Rows one = new Rows();
      one.columns.addAll(all.columns.subList(1, all.columns.size()));
      out.add(one);
    });
    all.rows.forEach(r -> out.get((Integer) r.get(0)).rows.add(r.subList(1, r.size())));
    return out;
  }

  private static String names(StreamTableEnvironment t, String table, JsonNode q) {
    List<String> names = new ArrayList<>();
    for (String n : chosen(t.from(table).getResolvedSchema().getColumnNames(), q)) {
      names.add("`" + n + "`");
    }
    return String.join(", ", names);
  }

  /** Flink includes the first commit: the instant after begin. */
  private static String after(String begin) {
    return begin.length() < 17 ? "earliest" : String.valueOf(Long.parseLong(begin) + 1);
  }

  @Override
  ObjectNode more(String op, JsonNode q) throws Exception {
    switch (op) {
      case "sql":
        return collect(execute(q, false)).json();
      case "start": {
        String id = "stream-" + streams.size();
        streams.put(id, new Stream(execute(q, true)));
        return JSON.createObjectNode().put("id", id);
      }
      case "fetch":
        return streams.get(q.get("id").asText()).fetch();
      case "stop":
        streams.get(q.get("id").asText()).stop();
        return JSON.createObjectNode();
      case "jdbc":
        return jdbc(q).json();
      default:
        return null;
    }
  }

  private static StreamTableEnvironment environment(boolean streaming) {
    Configuration conf = new Configuration();
    conf.setString("taskmanager.numberOfTaskSlots", "4");
    conf.setString("rest.port", "0");
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1, conf);
    env.setRuntimeMode(streaming ? RuntimeExecutionMode.STREAMING : RuntimeExecutionMode.BATCH);
    if (streaming) {
      env.enableCheckpointing(500);
    }
    return StreamTableEnvironment.create(env);
  }

  /** Runs statements and gives what the last one gives. "tables" are declared before them, from what is in their folders. */
  private static TableResult execute(JsonNode q, boolean streaming) throws Exception {
    StreamTableEnvironment t = environment(streaming);
    var tables = q.path("tables").fields();
    while (tables.hasNext()) {
      var e = tables.next();
      Map<String, String> o = new LinkedHashMap<>();
      e.getValue().path("options").fields().forEachRemaining(x -> o.put(x.getKey(), x.getValue().asText()));
      String path = e.getValue().get("path").asText();
      t.createTemporaryTable(e.getKey(), describe(new java.io.File(path).getCanonicalFile().toURI().toString(), o));
    }
    TableResult last = null;
    for (JsonNode s : q.get("statements")) {
      last = t.executeSql(s.asText());
    }
    return last;
  }

  private static Rows collect(TableResult r) throws Exception {
    Rows out = new Rows();
    heads(r, out);
    try (CloseableIterator<Row> it = r.collect()) {
      while (it.hasNext()) {
        out.rows.add(cells(it.next()));
      }
    }
    return out;
  }

  private static void heads(TableResult r, Rows out) {
    var schema = r.getResolvedSchema();
    for (int i = 0; i < schema.getColumnCount(); i++) {
      String type = schema.getColumnDataTypes().get(i).getLogicalType().copy(true).asSummaryString();
      out.columns.add(new String[] {schema.getColumnNames().get(i), TYPES.getOrDefault(type, type)});
    }
  }

  private static List<Object> cells(Row row) {
    List<Object> out = new ArrayList<>();
    for (int i = 0; i < row.getArity(); i++) {
      out.add(nested(row.getField(i)));
    }
    return out;
  }

  /** Rows in rows by their names, arrays as lists. */
  private static Object nested(Object v) {
    if (v instanceof Row) {
      Map<String, Object> out = new LinkedHashMap<>();
      ((Row) v).getFieldNames(true).forEach(n -> out.put(n, nested(((Row) v).getField(n))));
      return out;
    }
    if (v instanceof Object[]) {
      List<Object> out = new ArrayList<>();
      for (Object of : (Object[]) v) {
        out.add(nested(of));
      }
      return out;
    }
    return v;
  }

  /** A streaming job: of a SELECT the rows that came, of an INSERT only its state. */
  private static final class Stream {
    private final TableResult result;
    private final JobClient job;
    private final Rows fresh = new Rows();
    private Throwable failed;

    Stream(TableResult result) {
      this.result = result;
      this.job = result.getJobClient().get();
      if (result.getResultKind() != org.apache.flink.table.api.ResultKind.SUCCESS_WITH_CONTENT || isInsert(result)) {
        return;
      }
      fresh.columns.add(new String[] {"op", "string"});
      heads(result, fresh);
      Thread pump = new Thread(this::pump);
      pump.setDaemon(true);
      pump.start();
    }

    /** An INSERT's result has one column, which says how many rows went where: -1 for a stream. */
    private static boolean isInsert(TableResult r) {
      return r.getResolvedSchema().getColumnCount() == 1 && r.getResolvedSchema().getColumnNames().get(0).startsWith("default_catalog.");
    }

    private void pump() {
      try (CloseableIterator<Row> it = result.collect()) {
        while (it.hasNext()) {
          Row row = it.next();
          List<Object> line = new ArrayList<>(List.of(row.getKind().shortString()));
          line.addAll(cells(row));
          synchronized (fresh) {
            fresh.rows.add(line);
          }
        }
      } catch (Throwable e) {
        synchronized (fresh) {
          failed = e;
        }
      }
    }

    ObjectNode fetch() throws Exception {
      JobStatus state = job.getJobStatus().get();
      if (state == JobStatus.FAILED) {
        job.getJobExecutionResult().get(); // throws what went wrong
      }
      synchronized (fresh) {
        if (failed != null) {
          throw new Exception(failed);
        }
        ObjectNode out = fresh.json();
        fresh.rows.clear();
        return out.put("state", state.toString());
      }
    }

    void stop() throws Exception {
      job.cancel().get();
      try {
        job.getJobExecutionResult().get(); // until its tasks have let go of their files
      } catch (ExecutionException cancelled) {
        // what a cancelled job ends with
      }
    }
  }

  private static Rows jdbc(JsonNode q) throws Exception {
    Rows out = new Rows();
    try (Connection c = DriverManager.getConnection(q.get("url").asText()); Statement s = c.createStatement()) {
      for (JsonNode text : q.get("statements")) {
        out = new Rows();
        if (!s.execute(text.asText())) {
          continue;
        }
        try (ResultSet r = s.getResultSet()) {
          int n = r.getMetaData().getColumnCount();
          for (int i = 1; i <= n; i++) {
            String type = r.getMetaData().getColumnTypeName(i);
            type = type.startsWith("VARCHAR") || type.equals("CLOB") ? "STRING" : type;
            out.columns.add(new String[] {r.getMetaData().getColumnName(i), TYPES.getOrDefault(type, type)});
          }
          while (r.next()) {
            List<Object> line = new ArrayList<>();
            for (int i = 1; i <= n; i++) {
              line.add(r.getObject(i));
            }
            out.rows.add(line);
          }
        }
      }
    }
    return out;
  }

  /** The table as its folder describes it, so that no column has to be declared. */
  private static TableDescriptor describe(String uri, Map<String, String> extra) throws Exception {
    HoodieTableMetaClient meta = HoodieTableMetaClient.builder()
        .setConf(new org.apache.hadoop.conf.Configuration()).setBasePath(uri).build();
    HoodieTableConfig config = meta.getTableConfig();
    DataType type = AvroSchemaConverter.convertToDataType(new TableSchemaResolver(meta).getTableAvroSchema(true));
    String[] key = config.getRecordKeyFields().orElse(new String[0]);
    Schema.Builder columns = Schema.newBuilder();
    for (RowType.RowField f : ((RowType) type.getLogicalType()).getFields()) {
      DataType d = TypeConversions.fromLogicalToDataType(f.getType());
      columns.column(f.getName(), Arrays.asList(key).contains(f.getName()) ? d.notNull() : d);
    }
    TableDescriptor.Builder b = TableDescriptor.forConnector("hudi").schema(columns.primaryKey(key).build())
        .option("path", uri).option("table.type", meta.getTableType().name())
        .option("precombine.field", config.getPreCombineField())
        .option("hoodie.datasource.write.hive_style_partitioning", config.getHiveStylePartitioningEnable())
        .option("metadata.enabled", "false");
    String[] partition = config.getPartitionFields().orElse(new String[0]);
    if (partition.length > 0) {
      b.partitionedBy(partition);
    }
    extra.forEach(b::option);
    return b.build();
  }
}
