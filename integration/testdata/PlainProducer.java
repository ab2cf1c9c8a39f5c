import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

import static java.nio.charset.StandardCharsets.UTF_8;

// Sends messages as any program does that knows nothing of delaybridge. Its
// arguments are a name server and a topic; each line of its input is a message:
// name:value,name:value of the user properties, a tab, and the body.
public class PlainProducer {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("plain-producer");
        producer.setNamesrvAddr(args[0]);
        producer.setSendMsgTimeout(20000);
        producer.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", 2);
            Message message = new Message(args[1], "created", "order", parts[1].getBytes(UTF_8));
            for (String property : parts[0].split(",")) {
                String[] pair = property.split(":", 2);
                message.putUserProperty(pair[0], pair[1]);
            }
            System.out.println(producer.send(message).getSendStatus());
        }
        producer.shutdown();
    }
}
