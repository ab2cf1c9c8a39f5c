import static java.time.ZoneOffset.UTC;

import delaybridge.AcceptApi;
import delaybridge.ApiClient;
import delaybridge.ApiException;
import delaybridge.DeadApi;
import delaybridge.Header;
import delaybridge.Message;
import delaybridge.MessagesApi;
import delaybridge.Problem;
import delaybridge.Receipt;
import delaybridge.When;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/** Uses the client that openapi-generator has generated: UseHTTP URL. */
public final class UseHTTP {
    private final ApiClient bridge = new ApiClient();
    private final AcceptApi accept;
    private final MessagesApi messages;
    private final DeadApi dead;

    private UseHTTP(String url) {
        bridge.updateBaseUri(url); // before the others are made, which copy it
        accept = new AcceptApi(bridge);
        messages = new MessagesApi(bridge);
        dead = new DeadApi(bridge);
    }

    public static void main(String[] args) throws Exception {
        UseHTTP use = new UseHTTP(args[0]);
        use.send();
        use.batch();
        use.list();
        use.change();
        use.redrive();
        use.errors();
        use.additions();
    }

    private static Message message(String id, String topic) {
        return new Message().id(id).sink("console").topic(topic).delay("1h");
    }

    private void send() throws Exception {
        var at = Instant.now().truncatedTo(ChronoUnit.SECONDS).plus(1, ChronoUnit.HOURS);
        var message = message("order/42+1", "reminders").key("42").body(Map.of("order", 42))
            .addHeadersItem(new Header().name("trace").value("a1")).delay(null).deliverAt(at.atOffset(UTC));
        var receipt = accept.acceptMessage(message);
        Steps.expect("the receipt", List.of(receipt.getId(), receipt.getState()), List.of("order/42+1", "scheduled"));
        Steps.expect("a repeat", accept.acceptMessage(message).getDuplicate(), true);
        Steps.done("send");

        var entry = messages.getMessage("order/42+1", "console", "42", null);
        Steps.expect("the message", List.of(entry.getTopic(), entry.getKey(), entry.getBody(), entry.getAttempt()),
            List.of("reminders", "42", "{\"order\":42}", 0));
        Steps.expect("its headers", entry.getHeaders(), message.getHeaders());
        Steps.expect("its time", entry.getDue().toInstant(), at);
        Steps.done("get");
    }

    private void batch() throws Exception {
        var results = accept.acceptBatch(List.of(
            message("batch-0", "batch").bodyBase64(new byte[] {0, (byte) 0xff}), message("batch-1", "batch").delay("soon"),
            message("batch-2", "batch").body("text")));
        Steps.expect("the answers", results.stream().map(r -> r.getStatus()).toList(), List.of(201, 400, 201));
        Steps.expect("the receipt", results.get(2).getState(), "scheduled");
        Steps.expect("the refusal", List.of(results.get(1).getCode(), results.get(1).getField(), results.get(1).getStored()),
            List.of("invalid", "delay", false));
        var bytes = messages.getMessage("batch-0", null, null, null).getBodyBase64();
        Steps.expect("the bytes", List.of(bytes.length, bytes[1]), List.of(2, (byte) 0xff));
        Steps.expect("the text", messages.getMessage("batch-2", null, null, null).getBody(), "text");
        Steps.done("batch");
    }

    private void list() throws Exception {
        var sent = List.of("listed-0", "listed-1", "listed-2", "listed-3");
        accept.acceptBatch(sent.stream().map(id -> message(id, "list")).toList());
        var listed = new ArrayList<String>();
        String cursor = null;
        do {
            var page = messages.listMessages(List.of("console"), List.of("scheduled", "retrying"), "list", null, null, 1, cursor);
            page.getMessages().forEach(entry -> listed.add(entry.getId()));
            cursor = page.getNextCursor();
        } while (cursor != null);
        Steps.expect("the number of messages in the pages", listed.size(), sent.size());
        Steps.expect("the messages in the pages", List.copyOf(new TreeSet<>(listed)), sent);
        Steps.expect("a body that is not set", messages.getMessage("listed-0", null, null, null).getBody(), "");
        Steps.done("list in pages");
    }

    private void change() throws Exception {
        var receipt = messages.reschedule("order/42+1", new When().delay("2h"), null, "42", null);
        var due = messages.getMessage("order/42+1", null, "42", null).getDue();
        Steps.expect("the new time", due, receipt.getDeliverAt());
        Steps.expect("later", due.toInstant().isAfter(Instant.now().plus(90, ChronoUnit.MINUTES)), true);
        Steps.done("reschedule");

        receipt = messages.cancel("order/42+1", null, "42", null);
        Steps.expect("the receipt", List.of(receipt.getState(), receipt.getMayHaveBeenSent()), List.of("cancelled", false));
        Steps.done("cancel");
    }

    private void redrive() throws Exception {
        accept.acceptMessage(new Message().id("dead").sink("unreachable").topic("queue").delay("0s").ttl("1ms"));
        Steps.until("dead letter", () -> dead.listDead(null, null, "queue", null, null, null, null).getMessages()
            .stream().filter(entry -> entry.getId().equals("dead") && entry.getState().equals("expired")).findAny().orElse(null));
        Steps.expect("the state", dead.redrive("dead", "unreachable", null, null).getState(), "scheduled");
        Steps.expect("dead letters", dead.listDead(null, null, null, null, null, null, null).getMessages(), List.of());
        Steps.done("redrive");
    }

    private interface Call {
        void run() throws ApiException;
    }

    /** Expects that a call fails, with a problem in the generated type. */
    private Problem fails(int status, String code, Call call) throws Exception {
        try {
            call.run();
        } catch (ApiException e) {
            var problem = bridge.getObjectMapper().readValue(e.getResponseBody(), Problem.class);
            Steps.expect("the error", List.of(e.getCode(), problem.getStatus(), problem.getCode()), List.of(status, status, code));
            Steps.expect("has a detail", problem.getDetail().isEmpty(), false);
            Steps.done("error " + code);
            return problem;
        }
        throw new AssertionError("there was no error " + code);
    }

    private void errors() throws Exception {
        var problem = fails(400, "invalid", () -> accept.acceptMessage(message("x", null)));
        Steps.expect("what is invalid", List.of(problem.getField(), problem.getStored()), List.of("topic", false));
        fails(400, "bad_cursor", () -> messages.listMessages(null, null, null, null, null, 1, "other"));
        fails(404, "not_found", () -> messages.getMessage("nothing", null, null, null));
        fails(409, "conflict", () -> accept.acceptMessage(message("listed-0", "other")));
        problem = fails(409, "too_late", () -> messages.cancel("order/42+1", null, "42", null));
        Steps.expect("why", List.of(problem.getState(), problem.getChanged()), List.of("cancelled", false));
        fails(413, "too_large", () -> accept.acceptMessage(message(null, "large").body("x".repeat(2 << 20))));
        for (var key : List.of("1", "2")) {
            accept.acceptMessage(message("two", "two").key(key));
        }
        fails(409, "ambiguous", () -> messages.getMessage("two", null, null, null));
    }

    /** Members, states and codes that a newer bridge may add don't break the client. */
    private void additions() throws Exception {
        var receipt = bridge.getObjectMapper().readValue(
            "{\"id\":\"1\",\"sink\":\"s\",\"state\":\"new\",\"durability\":\"new\",\"new\":{\"a\":[1]}}", Receipt.class);
        Steps.expect("the state", receipt.getState(), "new");
        var problem = bridge.getObjectMapper().readValue(
            "{\"type\":\"/problems/new\",\"title\":\"t\",\"status\":400,\"code\":\"new\",\"detail\":\"d\",\"new\":1}", Problem.class);
        Steps.expect("the code", problem.getCode(), "new");
        Steps.done("additions");
    }
}
