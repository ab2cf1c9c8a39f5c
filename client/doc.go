// Package client publishes and manages delayed messages over the HTTP API of
// delaybridge. It imports the standard library only.
//
//	bridge, err := client.New(client.Config{URL: "http://127.0.0.1:7420"})
//	receipt, err := bridge.Publish(ctx, client.Message{
//		Sink: "kafka", Topic: "reminders", Body: []byte("hello"), Delay: 10 * time.Minute,
//	})
//	_, err = bridge.Cancel(ctx, client.Ref{ID: receipt.ID, Sink: receipt.Sink})
//
// PublishBatch stores many messages in one call, and a Publisher in the background.
//
// # Repeats
//
// A call that gets no answer, or an answer that asks to try again later, is repeated
// with growing, jittered pauses until it gets a definite answer, its context ends, or
// Config.Patience is over. Repeats do not store a message twice: the client assigns
// every message an ID, and the bridge detects a repeated ID as long as the sink's
// dedupe_window (default 2 minutes) is longer than Patience and Timeout together.
//
// # Errors
//
// Calls and Results return an *Error, PublishBatch returns a BatchError of them. Test for these
// with errors.Is, in this order:
//
//	ErrUnknown      the change may have been made. Publish again with the
//	                Receipt's ID, which is safe; or check with Get
//	ErrUnavailable  nothing was changed; try again later
//	ErrConflict     the ID is used by a message with other content
//	ErrInvalid      the request is invalid, see Error.Field; do not repeat it
//	ErrNotFound     no message has this ID, or it was settled long ago
//	ErrTooLate      the state does not allow the change, see Error.State
//	ErrAmbiguous    the ID names two messages: give Ref.Sink and Ref.Key
//	ErrUnauthorized the token is missing or wrong
//
// The packages kafkadelay, amqpdelay and rocketmqdelay wrap producers of Kafka,
// RabbitMQ and RocketMQ, so that existing code delays messages with a header.
package client
