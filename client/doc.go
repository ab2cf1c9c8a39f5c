// Package client sends messages to a delaybridge and looks after them, over its
// HTTP API. It imports the standard library only.
//
//	bridge, err := client.New(client.Config{URL: "http://127.0.0.1:7420"})
//	receipt, err := bridge.Publish(ctx, client.Message{
//		Sink: "kafka", Topic: "reminders", Body: []byte("hello"), Delay: 10 * time.Minute,
//	})
//	_, err = bridge.Cancel(ctx, client.Ref{ID: receipt.ID, Sink: receipt.Sink})
//
// # Repeats
//
// A call that fails for want of an answer, or with one that says "later", is
// repeated with growing, jittered pauses until it has a clear answer, its
// context ends, or Config.Patience is spent. That sends nothing twice: every
// message has an ID from the start, and the bridge takes a repeat of the same ID
// for what it is, as long as the sink's dedupe_window (2 minutes unless
// configured otherwise) is longer than Patience and Timeout together.
//
// # Errors
//
// Errors of calls are *Error; those of PublishBatch are a BatchError of them.
// What to do about one, errors.Is tells; ask in this order:
//
//	ErrUnknown      it may have been done or not. Publish again with the
//	                Receipt's ID, which is safe; look with Get
//	ErrUnavailable  it was not done; try again later
//	ErrConflict     the ID is taken by other content
//	ErrInvalid      a rule is broken, see Error.Field; the same fails again
//	ErrNotFound     no message has this ID, or it was settled long ago
//	ErrTooLate      Error.State says where the message is instead
//	ErrAmbiguous    the ID names two messages: give Ref.Sink and Ref.Key
//	ErrUnauthorized the token is missing or wrong
//
// The packages below wrap producers of Kafka, RabbitMQ and RocketMQ, so that
// code which uses those delays messages by a header.
package client
