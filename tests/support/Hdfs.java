import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;

/**
 * HDFS with one data node until standard input ends.
 *
 * <p>Arguments: a directory for its blocks, then local directories that are copied to its root. Whoever has
 * no rights may list all but the directories named secret-0, and may write to /open, and to /full, which
 * takes nothing. A line with the port of WebHDFS says that it is ready.
 */
public class Hdfs {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.set("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", "10");
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings, new File(arguments[0])).build();
        cluster.waitActive();
        DistributedFileSystem files = cluster.getFileSystem();
        for (int i = 1; i < arguments.length; i++) {
            Path copy = new Path("/", new File(arguments[i]).getName());
            files.copyFromLocalFile(new Path(arguments[i]), copy);
            Path secret = new Path(copy, "secret-0");
            if (files.exists(secret)) {
                files.setPermission(secret, new FsPermission((short) 0700));
            }
        }
        for (String name : new String[] {"/open", "/full"}) {
            files.mkdirs(new Path(name));
            files.setPermission(new Path(name), new FsPermission((short) 0777));
        }
        files.setQuota(new Path("/full"), 1, HdfsConstants.QUOTA_DONT_SET);
        System.out.println("port " + cluster.getNameNode().getHttpAddress().getPort());
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
