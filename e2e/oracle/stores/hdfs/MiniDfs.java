import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;

/**
 * One name node and one data node on loopback. Usage: MiniDfs DATA_DIR; prints "hdfs://127.0.0.1:PORT". Then each line of standard input is an
 * order, answered by "ok" or what went wrong: restart (both nodes, with their data), stop and start (the data node), safe (safe mode on), unsafe
 * (off). It ends when standard input does.
 */
public class MiniDfs {
  public static void main(String[] a) throws Exception {
    Configuration c = new Configuration();
    c.set("dfs.permissions.enabled", "false");
    c.set("dfs.namenode.safemode.extension", "0");
    c.set("dfs.heartbeat.interval", "1");
    c.set("dfs.namenode.edits.noeditlogchannelflush", "true");
    MiniDFSCluster m = new MiniDFSCluster.Builder(c, new File(a[0])).numDataNodes(1).format(true).build();
    m.waitActive();
    System.out.println("hdfs://127.0.0.1:" + m.getNameNodePort());
    BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
    MiniDFSCluster.DataNodeProperties stopped = null;
    for (String order; (order = orders.readLine()) != null; ) {
      try {
        switch (order) {
          case "restart": m.restartNameNode(true); break;
          case "stop": stopped = m.stopDataNode(0); break;
          case "start": m.restartDataNode(stopped, true); m.waitActive(); break;
          case "safe": m.getFileSystem().setSafeMode(SafeModeAction.SAFEMODE_ENTER); break;
          case "unsafe": m.getFileSystem().setSafeMode(SafeModeAction.SAFEMODE_LEAVE); break;
          default: throw new IllegalArgumentException(order);
        }
        System.out.println("ok");
      } catch (Exception e) {
        System.out.println("failed: " + e);
      }
    }
    System.exit(0);
  }
}
