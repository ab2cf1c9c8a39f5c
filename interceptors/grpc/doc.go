// Package grpclistener is the way in over gRPC: it decodes calls, calls
// core.Interceptor and encodes what that answers. (It is not named grpc, so
// that it can stand beside the library.) The API is in
// proto/delaybridge/v1/bridge.proto, its Go code in bridgev1.
//
// A result without an error means that a message is stored; so does the status
// OK of a Publish of one message. What a call that failed has left behind is
// told by "stored" or "changed" in the metadata of the status's ErrorInfo:
// "false" or "unknown". No status from the bridge, or one without ErrorInfo,
// leaves it open; sending the same again with the same id is safe.
//
// # Statuses
//
// The reason of ErrorInfo is a code of package failure, as in HTTP:
//
//	INVALID_ARGUMENT     invalid, bad_cursor
//	UNAUTHENTICATED      unauthorized
//	NOT_FOUND            not_found
//	ALREADY_EXISTS       conflict
//	FAILED_PRECONDITION  too_late, ambiguous
//	RESOURCE_EXHAUSTED   too_large, headers_too_large, store_full, too_many_requests, busy
//	UNIMPLEMENTED        not_supported
//	UNAVAILABLE          unavailable, also at shutdown
//	DEADLINE_EXCEEDED    request_timeout
//	UNKNOWN              outcome_unknown
//	INTERNAL             internal
//
// Two requests are refused by the library before this package is asked, without
// details, and end a stream at once: RESOURCE_EXHAUSTED for one that is larger
// than the limit, also after gzip, and INTERNAL for what is not the protobuf that
// is asked for, such as a string that is not UTF-8, and for a ListRequest over
// 64 KiB. They are not stored.
//
// # Streams
//
// PublishStream has at most one call of Accept under way. What arrives meanwhile
// waits, up to MaxBatch messages or MaxBatchBytes, and goes into the next one
// together; then the stream is no longer read, so that flow control stops the
// client. It ends by itself after ConnectionAge and at shutdown, when all that
// was read has been answered.
package grpclistener
