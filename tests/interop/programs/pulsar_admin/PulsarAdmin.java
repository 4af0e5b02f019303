import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.util.Base64;
import java.util.Properties;
import org.apache.pulsar.admin.cli.PulsarAdminTool;

/**
 * Runs commands of pulsar-admin in one JVM, because starting one takes seconds.
 *
 * <p>Each line of input has the words of a command, separated by tabs. The answer is a line: whether the command
 * succeeded, then in base64 what it wrote to System.out and to System.err.
 */
public final class PulsarAdmin {
    private static String inBase64(ByteArrayOutputStream printed) {
        return Base64.getEncoder().encodeToString(printed.toByteArray());
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.setProperty("webServiceUrl", System.getenv("INTEROP_HTTP_URL"));
        settings.setProperty("authPlugin", "org.apache.pulsar.client.impl.auth.AuthenticationToken");
        settings.setProperty("authParams", "token:" + System.getenv("INTEROP_ROOT_TOKEN"));
        Method run = PulsarAdminTool.class.getDeclaredMethod("run", String[].class);
        run.setAccessible(true);
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true)); // a new one, because some commands close it
            System.setErr(new PrintStream(err, true));
            Object succeeded = run.invoke(new PulsarAdminTool(settings), (Object) line.split("\t"));
            answers.println(succeeded + " " + inBase64(out) + " " + inBase64(err));
            answers.flush();
        }
        System.exit(0);
    }
}
