import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.hadoop.conf.Configurable;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hive.metastore.api.hive_metastoreConstants;
import org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe;
import org.apache.hadoop.hive.serde2.ColumnProjectionUtils;
import org.apache.hadoop.hive.serde2.objectinspector.ListObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspectorUtils;
import org.apache.hadoop.hive.serde2.objectinspector.StructField;
import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector;
import org.apache.hadoop.io.ArrayWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.InputFormat;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.TableSchemaResolver;
import org.apache.hudi.hadoop.HoodieParquetInputFormat;
import org.apache.hudi.hadoop.fs.HadoopFSUtils;
import org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat;

/**
 * What Hive reads of a Hudi table, through Hudi's input formats and Hive's
 * Parquet SerDe: "snapshot" is the real-time format, as of the _rt table;
 * "read-optimized" the other, as of the _ro table. See Serve for the rest. With
 * "options" a job's properties are set, such as hoodie.NAME.consume.mode.
 */
public final class Hive extends Serve {
  private static final Map<String, String> TYPES = Map.of("bigint", "long");
  private static final String COMMIT_TIME = "_hoodie_commit_time";

  public static void main(String[] args) throws Exception {
    new Hive().run();
  }

  @Override
  String name() {
    return "hive " + org.apache.hive.common.util.HiveVersionInfo.getVersion() + ", hudi " + org.apache.hudi.common.util.StringUtils.class.getPackage().getImplementationVersion();
  }

  @Override
  Rows read(String op, String table, JsonNode q) throws Exception {
    HoodieTableMetaClient meta = HoodieTableMetaClient.builder()
        .setConf(HadoopFSUtils.getStorageConf(new org.apache.hadoop.conf.Configuration())).setBasePath(table).build();
    Map<String, String> all = columns(meta);
    List<String> asked = chosen(new ArrayList<>(all.keySet()), q);
    List<String> picked = new ArrayList<>(asked);
    if (op.equals("incremental") && !picked.contains(COMMIT_TIME)) {
      picked.add(COMMIT_TIME);
    }
    JobConf job = job(table, all, picked);
    if (op.equals("incremental")) {
      // The name is that of hoodie.properties, whatever the metastore calls the table.
      String prefix = "hoodie." + meta.getTableConfig().getTableName() + ".consume.";
      job.set(prefix + "mode", "INCREMENTAL");
      job.set(prefix + "start.timestamp", q.get("begin").asText());
      job.set(prefix + "max.commits", String.valueOf(commits(meta, q)));
    } else if (op.equals("time-travel")) {
      throw new Refused("Hive's input formats have no time travel for Merge-On-Read tables");
    }
    options(q).forEach(job::set);
    Rows out = rows(op.equals("read-optimized") ? new HoodieParquetInputFormat() : new HoodieParquetRealtimeInputFormat(), job, all, picked);
    int time = picked.indexOf(COMMIT_TIME);
    if (op.equals("incremental")) {
      // The mode only chooses files: WHERE `_hoodie_commit_time` > begin is the query's part.
      out.rows.removeIf(r -> r.get(time).toString().compareTo(q.get("begin").asText()) <= 0);
      if (!asked.contains(COMMIT_TIME)) {
        out.columns.remove(time);
        out.rows.forEach(r -> r.remove(time));
      }
    }
    return out;
  }

  /** How many commits lie after begin, up to and with end: Hive knows no end, but a number. -1 is all. */
  private static long commits(HoodieTableMetaClient meta, JsonNode q) {
    if (!q.hasNonNull("end")) {
      return -1;
    }
    String begin = q.get("begin").asText(), end = q.get("end").asText();
    return meta.getActiveTimeline().getCommitsTimeline().filterCompletedInstants().getInstantsAsStream()
        .filter(i -> i.getTimestamp().compareTo(begin) > 0 && i.getTimestamp().compareTo(end) <= 0).count();
  }

  /** Hive's columns and their types, in the table's order. */
  private static Map<String, String> columns(HoodieTableMetaClient meta) throws Exception {
    Map<String, String> all = new LinkedHashMap<>();
    for (var f : new TableSchemaResolver(meta).getTableAvroSchema(true).getFields()) {
      all.put(f.name(), kind(f.schema()));
    }
    return all;
  }

  /** The Hive type of an Avro schema, which may be null beside it, as Hudi's own sync makes it. */
  private static String kind(Schema s) {
    if (s.getType() == Schema.Type.UNION) {
      return kind(s.getTypes().get(s.getTypes().get(0).getType() == Schema.Type.NULL ? 1 : 0));
    }
    String logical = s.getLogicalType() == null ? "" : s.getLogicalType().getName();
    if (logical.startsWith("timestamp")) {
      return "timestamp";
    } else if (logical.equals("decimal")) {
      LogicalTypes.Decimal d = (LogicalTypes.Decimal) s.getLogicalType();
      return "decimal(" + d.getPrecision() + "," + d.getScale() + ")";
    } else if (!logical.isEmpty()) {
      return logical;
    }
    switch (s.getType()) {
      case LONG:
        return "bigint";
      case STRING:
      case DOUBLE:
      case BOOLEAN:
        return s.getType().getName();
      case ARRAY:
        return "array<" + kind(s.getElementType()) + ">";
      case RECORD:
        return s.getFields().stream().map(f -> f.name() + ":" + kind(f.schema())).collect(Collectors.joining(",", "struct<", ">"));
      default:
        throw new IllegalArgumentException("no Hive type for " + s);
    }
  }

  /** A job that reads the columns picked, which are told by their places among all. */
  private static JobConf job(String table, Map<String, String> columns, List<String> picked) throws Exception {
    JobConf job = new JobConf();
    List<String> ids = new ArrayList<>();
    List<String> order = new ArrayList<>(columns.keySet());
    picked.forEach(n -> ids.add(String.valueOf(order.indexOf(n))));
    String names = String.join(",", order);
    job.set(hive_metastoreConstants.META_TABLE_COLUMNS, names);
    job.set("columns", names);
    job.set("columns.types", String.join(":", columns.values()));
    job.set(ColumnProjectionUtils.READ_COLUMN_NAMES_CONF_STR, String.join(",", picked));
    job.set(ColumnProjectionUtils.READ_COLUMN_IDS_CONF_STR, String.join(",", ids));
    job.setBoolean(ColumnProjectionUtils.READ_ALL_COLUMNS, false);
    job.set("hoodie.memory.spillable.map.path", System.getProperty("java.io.tmpdir"));

    // Hive takes the partitions from its metastore; here they are the folders with Hudi's mark.
    FileSystem fs = new Path(table).getFileSystem(job);
    TreeSet<String> partitions = new TreeSet<>();
    RemoteIterator<LocatedFileStatus> files = fs.listFiles(new Path(table), true);
    while (files.hasNext()) {
      Path p = files.next().getPath();
      if (p.getName().startsWith(".hoodie_partition_metadata") && !p.toString().contains("/.hoodie/")) {
        partitions.add(p.getParent().toString());
      }
    }
    FileInputFormat.setInputPaths(job, partitions.stream().map(Path::new).toArray(Path[]::new));
    return job;
  }

  private static Rows rows(Configurable format, JobConf job, Map<String, String> columns, List<String> picked) throws Exception {
    format.setConf(job);
    @SuppressWarnings("unchecked")
    InputFormat<NullWritable, ArrayWritable> in = (InputFormat<NullWritable, ArrayWritable>) format;
    ParquetHiveSerDe serde = new ParquetHiveSerDe();
    Properties p = new Properties();
    p.setProperty("columns", job.get("columns"));
    p.setProperty("columns.types", job.get("columns.types"));
    serde.initialize(job, p);
    StructObjectInspector row = (StructObjectInspector) serde.getObjectInspector();
    Rows out = new Rows();
    picked.forEach(n -> out.columns.add(new String[] {n, TYPES.getOrDefault(columns.get(n), columns.get(n))}));
    for (InputSplit split : in.getSplits(job, 1)) {
      RecordReader<NullWritable, ArrayWritable> r = in.getRecordReader(split, job, Reporter.NULL);
      NullWritable k = r.createKey();
      ArrayWritable v = r.createValue();
      while (r.next(k, v)) {
        Object o = serde.deserialize(v);
        List<Object> line = new ArrayList<>();
        for (String n : picked) {
          StructField f = row.getStructFieldRef(n);
          line.add(plain(row.getStructFieldData(o, f), f.getFieldObjectInspector()));
        }
        out.rows.add(line);
      }
      r.close();
    }
    return out;
  }

  /** A value as Java has it: structs by the names of their fields, arrays as lists. */
  private static Object plain(Object v, ObjectInspector how) {
    if (v == null) {
      return null;
    }
    if (how instanceof StructObjectInspector) {
      StructObjectInspector in = (StructObjectInspector) how;
      Map<String, Object> out = new LinkedHashMap<>();
      in.getAllStructFieldRefs().forEach(f -> out.put(f.getFieldName(), plain(in.getStructFieldData(v, f), f.getFieldObjectInspector())));
      return out;
    }
    if (how instanceof ListObjectInspector) {
      ListObjectInspector in = (ListObjectInspector) how;
      List<Object> out = new ArrayList<>();
      for (int i = 0; i < in.getListLength(v); i++) {
        out.add(plain(in.getListElement(v, i), in.getListElementObjectInspector()));
      }
      return out;
    }
    return ObjectInspectorUtils.copyToStandardJavaObject(v, how);
  }
}
