import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.protobuf.Timestamp;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import io.github.delaybridge.v1.BridgeServiceGrpc;
import io.github.delaybridge.v1.BridgeServiceGrpc.BridgeServiceBlockingStub;
import io.github.delaybridge.v1.CancelRequest;
import io.github.delaybridge.v1.Entry;
import io.github.delaybridge.v1.GetRequest;
import io.github.delaybridge.v1.Header;
import io.github.delaybridge.v1.ListRequest;
import io.github.delaybridge.v1.Message;
import io.github.delaybridge.v1.PublishRequest;
import io.github.delaybridge.v1.PublishResult;
import io.github.delaybridge.v1.RedriveRequest;
import io.github.delaybridge.v1.Ref;
import io.github.delaybridge.v1.RescheduleRequest;
import io.github.delaybridge.v1.State;
import io.github.delaybridge.v1.StatsRequest;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Uses the stub that protoc-gen-grpc-java has generated: UseGRPC ADDRESS. */
public final class UseGRPC {
    private static final Duration HOUR = Duration.newBuilder().setSeconds(3600).build();
    private static final Ref ONE = ref("one").toBuilder().setSink("console").setKey(bytes("42")).build();

    private final BridgeServiceBlockingStub bridge;

    private UseGRPC(BridgeServiceBlockingStub bridge) {
        this.bridge = bridge;
    }

    public static void main(String[] args) throws Exception {
        var channel = Grpc.newChannelBuilder(args[0], InsecureChannelCredentials.create()).build();
        try {
            UseGRPC use = new UseGRPC(BridgeServiceGrpc.newBlockingStub(channel));
            use.publish();
            use.batch();
            use.list();
            use.change();
            use.redrive();
            use.stats();
            use.errors();
        } finally {
            channel.shutdownNow();
        }
    }

    private static ByteString bytes(String text) {
        return ByteString.copyFromUtf8(text);
    }

    private static Ref ref(String id) {
        return Ref.newBuilder().setId(id).build();
    }

    private static Message.Builder message(String id, String topic) {
        return Message.newBuilder().setId(id).setSink("console").setTopic(topic).setDelay(HOUR);
    }

    private List<PublishResult> publish(Message.Builder... messages) {
        var request = PublishRequest.newBuilder();
        Stream.of(messages).forEach(request::addMessages);
        return bridge.publish(request.build()).getResultsList();
    }

    private Entry get(Ref ref) {
        return bridge.get(GetRequest.newBuilder().setRef(ref).build()).getEntry();
    }

    private List<Entry> expired() {
        return bridge.list(ListRequest.newBuilder().addStates(State.STATE_EXPIRED).build()).getEntriesList();
    }

    private void publish() {
        var at = Timestamp.newBuilder().setSeconds(Instant.now().getEpochSecond() + 3600).build();
        var message = message("one", "reminders").setKey(bytes("42")).setBody(bytes("pay")).clearDelay().setDeliverAt(at)
            .addHeaders(Header.newBuilder().setName("trace").setValue(bytes("a1")));
        var result = publish(message).get(0);
        Steps.expect("the result", List.of(result.getId(), result.getState(), result.getDuplicate()),
            List.of("one", State.STATE_SCHEDULED, false));
        Steps.expect("a repeat", publish(message).get(0).getDuplicate(), true);
        Steps.done("publish");

        Steps.expect("the message", get(ONE).getMessage(), message.build());
        Steps.expect("its time", get(ONE).getDue(), at);
        Steps.done("get");
    }

    private void batch() {
        var results = publish(message("", "batch").setBody(bytes("0")), message("", "batch").clearDelay(),
            message("", "batch").setBody(bytes("2")));
        Steps.expect("errors", results.stream().map(PublishResult::hasError).toList(), List.of(false, true, false));
        var error = results.get(1).getError();
        Steps.expect("the refusal", List.of(error.getCode(), error.getField()), List.of("invalid", "deliver_at"));
        Steps.expect("the body", get(ref(results.get(2).getId())).getMessage().getBody(), bytes("2"));
        Steps.done("batch");
    }

    private void list() {
        var sent = List.of("listed-0", "listed-1", "listed-2", "listed-3");
        publish(sent.stream().map(id -> message(id, "list")).toArray(Message.Builder[]::new));
        var listed = new ArrayList<String>();
        var query = ListRequest.newBuilder().setTopic("list").setPageSize(1);
        do {
            var page = bridge.list(query.build());
            page.getEntriesList().forEach(entry -> listed.add(entry.getMessage().getId()));
            query.setPageToken(page.getNextPageToken());
        } while (!query.getPageToken().isEmpty());
        Steps.expect("the number of messages in the pages", listed.size(), sent.size());
        Steps.expect("the messages in the pages", List.copyOf(new TreeSet<>(listed)), sent);
        Steps.done("list in pages");
    }

    private void change() {
        var moved = bridge.reschedule(RescheduleRequest.newBuilder().setRef(ONE)
            .setDelay(Duration.newBuilder().setSeconds(7200)).build()).getReceipt();
        Steps.expect("the state", moved.getState(), State.STATE_SCHEDULED);
        Steps.expect("the new time", get(ONE).getDue(), moved.getDeliverAt());
        Steps.expect("later", moved.getDeliverAt().getSeconds() > Instant.now().getEpochSecond() + 5400, true);
        Steps.done("reschedule");

        var receipt = bridge.cancel(CancelRequest.newBuilder().setRef(ONE).build()).getReceipt();
        Steps.expect("the receipt", List.of(receipt.getState(), receipt.getMayHaveBeenSent()), List.of(State.STATE_CANCELLED, false));
        Steps.done("cancel");
    }

    private void redrive() throws Exception {
        publish(message("dead", "queue").setSink("unreachable").setDelay(Duration.getDefaultInstance())
            .setTtl(Duration.newBuilder().setNanos(1_000_000)));
        Steps.until("dead letter", () -> expired().stream()
            .filter(entry -> entry.getMessage().getId().equals("dead")).findAny().orElse(null));
        var receipt = bridge.redrive(RedriveRequest.newBuilder()
            .setRef(ref("dead").toBuilder().setSink("unreachable")).build()).getReceipt();
        Steps.expect("the state", receipt.getState(), State.STATE_SCHEDULED);
        Steps.expect("dead letters", expired(), List.of());
        Steps.done("redrive");
    }

    private void stats() {
        var sinks = bridge.stats(StatsRequest.getDefaultInstance()).getSinksList().stream()
            .collect(Collectors.toMap(sink -> sink.getSink(), sink -> sink));
        Steps.expect("the sinks", new TreeSet<>(sinks.keySet()), new TreeSet<>(List.of("console", "unreachable")));
        var console = sinks.get("console");
        Steps.expect("the counts", console.getScheduled() >= 6 && console.getSinceStart().getAccepted() >= 7, true);
        Steps.done("stats");
    }

    private record Failure(Map<String, String> metadata, String path) {}

    /** Expects that a call fails, with the details of the standard types. */
    private static Failure fails(Status.Code code, String reason, Runnable call) throws Exception {
        try {
            call.run();
        } catch (StatusRuntimeException e) {
            var info = ErrorInfo.getDefaultInstance();
            String path = "";
            for (var detail : StatusProto.fromThrowable(e).getDetailsList()) {
                if (detail.is(ErrorInfo.class)) {
                    info = detail.unpack(ErrorInfo.class);
                } else if (detail.is(BadRequest.class)) {
                    path = detail.unpack(BadRequest.class).getFieldViolations(0).getField();
                }
            }
            Steps.expect("the error", List.of(e.getStatus().getCode(), info.getDomain(), info.getReason()),
                List.of(code, "delaybridge", reason));
            Steps.done("error " + reason);
            return new Failure(info.getMetadataMap(), path);
        }
        throw new AssertionError("there was no error " + reason);
    }

    private void errors() throws Exception {
        Steps.expect("what is invalid", fails(Status.Code.INVALID_ARGUMENT, "invalid", () -> publish(message("", ""))),
            new Failure(Map.of("field", "messages[0].topic", "stored", "false"), "messages[0].topic"));
        var failure = fails(Status.Code.INVALID_ARGUMENT, "invalid", () -> get(ref("not an id")));
        Steps.expect("what is invalid", List.of(failure.metadata.get("field"), failure.path), List.of("ref.id", "ref.id"));
        fails(Status.Code.INVALID_ARGUMENT, "bad_cursor", () -> bridge.list(ListRequest.newBuilder().setPageToken("other").build()));
        fails(Status.Code.NOT_FOUND, "not_found", () -> get(ref("nothing")));
        fails(Status.Code.ALREADY_EXISTS, "conflict", () -> publish(message("listed-0", "other")));
        failure = fails(Status.Code.FAILED_PRECONDITION, "too_late",
            () -> bridge.cancel(CancelRequest.newBuilder().setRef(ONE).build()));
        Steps.expect("why", failure.metadata.get("state"), "cancelled");
        fails(Status.Code.RESOURCE_EXHAUSTED, "too_large", () -> publish(message("", "large").setBody(bytes("x".repeat(2 << 20)))));
        publish(message("two", "two").setKey(bytes("1")), message("two", "two").setKey(bytes("2")));
        fails(Status.Code.FAILED_PRECONDITION, "ambiguous", () -> get(ref("two")));
    }
}
