import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;
import org.apache.hadoop.minikdc.MiniKdc;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.kerby.kerberos.kerb.client.KrbClient;

/**
 * HDFS with one data node on loopback. Usage: MiniDfs DATA_DIR [ha | kerberos RPC_LEVEL DATA_LEVEL | kerberos RPC_LEVEL encrypt]; prints
 * "hdfs://HOST:PORT", with a comma and the second name node's address behind it if there are two. Levels are authentication, integrity and privacy.
 * Then each line of standard input is an order, answered by "ok" or what went wrong. It ends when standard input does.
 *
 * restart (all nodes, with their data), stop and start (the data node), safe (safe mode on), unsafe (off). With two name nodes: failover (the
 * active one stands by, the other one is active), kill (the active one ends, and the other one is active), revive (it stands by).
 *
 * With Kerberos DATA_DIR has krb5.conf, writer.keytab of the user writer, and reader.cache with a ticket of the user reader.
 */
public class MiniDfs {
  private static final String HOST = "127.0.0.1";

  public static void main(String[] a) throws Exception {
    Configuration c = new Configuration();
    c.set("dfs.permissions.enabled", "false");
    c.set("dfs.namenode.safemode.extension", "0");
    c.set("dfs.heartbeat.interval", "1");
    c.set("dfs.namenode.edits.noeditlogchannelflush", "true");
    File dir = new File(a[0]);
    boolean ha = a.length > 1 && a[1].equals("ha");
    MiniDFSCluster.Builder b = new MiniDFSCluster.Builder(c, dir).numDataNodes(1).format(true);
    String host = HOST;
    if (ha) {
      c.set("dfs.ha.tail-edits.period", "1");
      b.nnTopology(MiniDFSNNTopology.simpleHATopology());
    } else if (a.length > 1) {
      secure(c, dir, a[2], a[3]);
      b.checkDataNodeAddrConfig(true);
      host = "localhost"; // as the principals say
    }
    MiniDFSCluster m = b.build();
    if (ha) {
      m.transitionToActive(0);
    }
    m.waitActive();
    System.out.println("hdfs://" + host + ":" + m.getNameNodePort(0) + (ha ? "," + host + ":" + m.getNameNodePort(1) : ""));
    BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
    MiniDFSCluster.DataNodeProperties stopped = null;
    int active = 0;
    for (String order; (order = orders.readLine()) != null; ) {
      try {
        switch (order) {
          case "restart": m.restartNameNode(true); break;
          case "stop": stopped = m.stopDataNode(0); break;
          case "start": m.restartDataNode(stopped, true); m.waitActive(); break;
          case "safe": m.getFileSystem().setSafeMode(SafeModeAction.SAFEMODE_ENTER); break;
          case "unsafe": m.getFileSystem().setSafeMode(SafeModeAction.SAFEMODE_LEAVE); break;
          case "failover": m.transitionToStandby(active); m.transitionToActive(active = 1 - active); break;
          case "kill": m.shutdownNameNode(active); m.transitionToActive(active = 1 - active); break;
          case "revive": m.restartNameNode(1 - active, false); break;
          default: throw new IllegalArgumentException(order);
        }
        System.out.println("ok");
      } catch (Exception e) {
        System.out.println("failed: " + e);
      }
    }
    System.exit(0);
  }

  /** Starts a KDC and has c ask for its tickets. */
  private static void secure(Configuration c, File dir, String rpc, String data) throws Exception {
    Properties p = MiniKdc.createConf();
    MiniKdc kdc = new MiniKdc(p, new File(dir, "kdc"));
    kdc.start();
    File servers = new File(dir, "servers.keytab"), writer = new File(dir, "writer.keytab"), reader = new File(dir, "reader.keytab");
    kdc.createPrincipal(servers, "hdfs/localhost", "HTTP/localhost", "hive/localhost");
    kdc.createPrincipal(writer, "writer");
    kdc.createPrincipal(reader, "reader");
    java.nio.file.Files.copy(kdc.getKrb5conf().toPath(), new File(dir, "krb5.conf").toPath());
    KrbClient client = new KrbClient(kdc.getKrb5conf().getParentFile());
    client.init();
    client.storeTicket(client.requestTgt("reader@" + kdc.getRealm(), reader), new File(dir, "reader.cache"));

    String hdfs = "hdfs/localhost@" + kdc.getRealm();
    c.set("hadoop.security.authentication", "kerberos");
    c.set("hadoop.rpc.protection", rpc);
    for (String node : new String[] {"namenode", "datanode"}) {
      c.set("dfs." + node + ".kerberos.principal", hdfs);
      c.set("dfs." + node + ".keytab.file", servers.getPath());
    }
    c.set("dfs.web.authentication.kerberos.principal", "HTTP/localhost@" + kdc.getRealm());
    c.set("dfs.web.authentication.kerberos.keytab", servers.getPath());
    c.set("dfs.block.access.token.enable", "true");
    if (data.endsWith("-aes")) {
      c.set("dfs.encrypt.data.transfer.cipher.suites", "AES/CTR/NoPadding");
      data = data.substring(0, data.length() - 4);
    }
    if (data.equals("encrypt")) {
      c.set("dfs.encrypt.data.transfer", "true");
      data = "privacy";
    }
    c.set("dfs.data.transfer.protection", data);
    c.set("ignore.secure.ports.for.testing", "true");
    c.set("dfs.namenode.http-address", "localhost:0");
    c.set("dfs.datanode.address", "localhost:0");
    c.set("dfs.datanode.http.address", "localhost:0");
    c.set("dfs.datanode.ipc.address", "localhost:0");
    UserGroupInformation.setConfiguration(c);
    UserGroupInformation.loginUserFromKeytab(hdfs, servers.getPath());
  }
}
