// Package grpclistener serves the gRPC API: it decodes calls, calls core.Interceptor
// and encodes the results. (It is not named grpc, to avoid a conflict with the
// library.) The API is in proto/delaybridge/v1/bridge.proto, its Go code in bridgev1.
//
// A result without an error means that a message is stored; so does the status OK of a
// Publish of one message. The ErrorInfo of a failed call has "stored" or "changed" in
// its metadata, with the value "false" or "unknown". Without a status from the bridge,
// or without ErrorInfo, the outcome is unknown; sending the same again with the same id
// is safe.
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
// The library itself refuses some requests, without details, and ends a stream at once:
// RESOURCE_EXHAUSTED for a request larger than the limit, also after gzip, and INTERNAL
// for an invalid protobuf message, such as a string that is not UTF-8, and for a
// ListRequest over 64 KiB. They are not stored.
//
// # Streams
//
// PublishStream makes one call of Accept at a time. Messages that arrive meanwhile, up
// to MaxBatch messages or MaxBatchBytes, are accepted together in the next call; beyond
// that the stream is not read, so that flow control stops the client. The bridge ends
// the stream after ConnectionAge and at shutdown, when every message that it has read
// is answered.
package grpclistener
