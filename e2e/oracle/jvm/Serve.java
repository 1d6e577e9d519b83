import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Answers questions about Hudi tables, line by line, as ../serve.py does for
 * Spark and hudi-rs: each line of stdin is a JSON object with "op", each gives
 * one line on stdout, and the first line says that the engine is ready. What an
 * engine knows:
 *
 * <pre>
 *   snapshot, read-optimized   table
 *   time-travel                table, as_of                  (Flink)
 *   incremental                table, begin, end?            begin exclusive, end inclusive
 *   increments                 table, spans                  {"answers": [rows...]}
 *   count                      table                         {"count": n}
 *   sql                        statements, tables?           rows of the last statement (Flink)
 *   start                      statements, tables?           {"id": ...}: a stream, by its last statement (Flink)
 *   fetch                      id                            {"columns", "rows", "state"}: what came since the last fetch
 *   stop                       id
 *   jdbc                       url, statements               rows of the last statement (Flink)
 * </pre>
 *
 * "options" and "columns" are as in serve.py. Rows are {"columns": [[name,
 * type]...], "rows": [[value...]...]} with exact values; a stream's rows have
 * their kind (+I, -U, +U, -D) in the column "op". Failures are {"error": text}.
 */
abstract class Serve {
  static final ObjectMapper JSON = new ObjectMapper();

  /** Rows of an answer, with the names and types of their columns. */
  static final class Rows {
    final List<String[]> columns = new ArrayList<>();
    final List<List<Object>> rows = new ArrayList<>();

    ObjectNode json() {
      ObjectNode out = JSON.createObjectNode();
      ArrayNode names = out.putArray("columns");
      columns.forEach(c -> names.addArray().add(c[0]).add(c[1]));
      ArrayNode lines = out.putArray("rows");
      for (List<Object> row : rows) {
        ArrayNode line = lines.addArray();
        row.forEach(v -> line.add(value(v)));
      }
      return out;
    }
  }

  /** A question that the engine cannot answer. */
  static final class Refused extends Exception {
    Refused(String why) {
      super(why);
    }
  }

  /** The engine's name and release. */
  abstract String name();

  abstract Rows read(String op, String table, JsonNode q) throws Exception;

  /** Questions that only this engine knows; null for those that it does not know. */
  ObjectNode more(String op, JsonNode q) throws Exception {
    return null;
  }

  final void run() throws IOException {
    // The answers keep stdout to themselves; all else that prints goes to the log.
    PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    System.setOut(System.err);
    answers.println(JSON.createObjectNode().put("ready", name()));
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonNode q = JSON.readTree(line);
      if (q.path("op").asText().equals("quit")) {
        break;
      }
      answers.println(attempt(q));
    }
    Runtime.getRuntime().halt(0); // embedded clusters do not wait to be asked again
  }

  private ObjectNode attempt(JsonNode q) throws JsonProcessingException {
    try {
      return answer(q);
    } catch (Throwable e) {
      e.printStackTrace();
      Throwable cause = e;
      while (cause.getCause() != null && cause.getCause() != cause) {
        cause = cause.getCause();
      }
      return JSON.createObjectNode().put("error", cause.getClass().getSimpleName() + ": " + cause.getMessage());
    }
  }

  private ObjectNode answer(JsonNode q) throws Exception {
    String op = q.path("op").asText();
    ObjectNode own = more(op, q);
    if (own != null) {
      return own;
    }
    String table = q.path("table").asText();
    if (!new File(table, ".hoodie").isDirectory()) {
      throw new Refused(table + ": no .hoodie folder, not a Hudi table");
    }
    String uri = new File(table).getCanonicalFile().toURI().toString();
    switch (op) {
      case "snapshot": case "read-optimized": case "time-travel": case "incremental":
        return read(op, uri, q).json();
      case "increments": {
        ObjectNode out = JSON.createObjectNode();
        ArrayNode all = out.putArray("answers");
        for (Rows one : increments(uri, q)) {
          all.add(one.json());
        }
        return out;
      }
      case "count":
        return JSON.createObjectNode().put("count", read("snapshot", uri, q).rows.size());
      default:
        throw new Refused(name() + " does not know the question " + op);
    }
  }

  /** The rows of each of the question's "spans". */
  List<Rows> increments(String table, JsonNode q) throws Exception {
    List<Rows> out = new ArrayList<>();
    for (JsonNode span : q.get("spans")) {
      ObjectNode one = q.deepCopy();
      one.set("begin", span.get(0));
      one.set("end", span.get(1));
      out.add(read("incremental", table, one));
    }
    return out;
  }

  static Map<String, String> options(JsonNode q) {
    Map<String, String> out = new LinkedHashMap<>();
    q.path("options").fields().forEachRemaining(e -> out.put(e.getKey(), e.getValue().asText()));
    return out;
  }

  /** The columns to answer with: those asked for, or all but Hudi's volatile ones. */
  static List<String> chosen(List<String> names, JsonNode q) {
    List<String> out = new ArrayList<>();
    for (String n : names) {
      boolean asked = q.path("columns").isEmpty()
          ? !n.equals("_hoodie_commit_seqno") && !n.equals("_hoodie_file_name")
          : contains(q.get("columns"), n);
      if (asked) {
        out.add(n);
      }
    }
    return out;
  }

  private static boolean contains(JsonNode list, String name) {
    for (JsonNode n : list) {
      if (n.asText().equals(name)) {
        return true;
      }
    }
    return false;
  }

  static JsonNode value(Object v) {
    if (v instanceof Double && !Double.isFinite((Double) v)) {
      return JSON.getNodeFactory().textNode(v.toString());
    }
    if (v instanceof byte[]) {
      return JSON.getNodeFactory().textNode(Base64.getEncoder().encodeToString((byte[]) v));
    }
    if (v instanceof Map) {
      ObjectNode out = JSON.createObjectNode();
      ((Map<?, ?>) v).forEach((k, of) -> out.set(k.toString(), value(of)));
      return out;
    }
    if (v instanceof List) {
      ArrayNode out = JSON.createArrayNode();
      ((List<?>) v).forEach(of -> out.add(value(of)));
      return out;
    }
    if (v == null || v instanceof Boolean || v instanceof Number && !(v instanceof BigDecimal)) {
      return JSON.valueToTree(v);
    }
    return JSON.getNodeFactory().textNode(v.toString());
  }
}
