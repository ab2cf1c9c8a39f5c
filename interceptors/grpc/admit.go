package grpclistener

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/delaybridge/delaybridge/internal/apierror"
)

// admit decides on a call before anything but its metadata has been read. It
// holds up the connection, so it asks nobody.
func (s *Server) admit(ctx context.Context, call *tap.Info) (context.Context, error) {
	size := 0
	for name, values := range call.Header {
		for _, value := range values {
			size += len(name) + len(value) + 32 // as HTTP/2 counts
		}
	}
	if size > s.config.MaxMetadataBytes {
		return nil, s.bridge.refuse(ctx, apierror.Error{Code: apierror.Headers,
			Detail: fmt.Sprintf("the metadata is larger than %d bytes", s.config.MaxMetadataBytes)}, nothingDone)
	}
	if open(call.FullMethodName) {
		return ctx, nil
	}
	if s.tokens.None() || s.hasToken(call) {
		return ctx, s.busy(ctx)
	}
	if s.flood.Spend(remoteOf(ctx), time.Now()) {
		return nil, s.bridge.refuse(ctx, apierror.Error{Code: apierror.Unauthorized,
			Detail: "send metadata authorization: Bearer <token> with a valid token"}, nothingDone)
	}
	return nil, s.bridge.refuse(ctx, apierror.Error{Code: apierror.TooMany,
		Detail: "too many calls without a valid token from this address"}, nothingDone)
}

// busy reports why no more is taken at present; nil: it is.
func (s *Server) busy(ctx context.Context) error {
	detail := "the limit of connections is reached"
	if p, ok := peer.FromContext(ctx); ok {
		info, _ := p.AuthInfo.(peerInfo)
		if info.conn == nil || info.conn.Admitted() {
			detail = "the unanswered requests together have reached the limit of their size"
			if !s.traffic.isSpent() {
				return nil
			}
		}
	}
	return s.bridge.refuse(ctx, apierror.Error{Code: apierror.Busy, Detail: detail}, nothingDone)
}

// open reports which methods need no token.
func open(method string) bool {
	return strings.HasPrefix(method, "/"+healthv1.Health_ServiceDesc.ServiceName+"/")
}

func (s *Server) hasToken(call *tap.Info) bool {
	values := call.Header.Get("authorization")
	if len(values) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	return strings.EqualFold(scheme, "Bearer") && s.tokens.Admit(token)
}

func remoteOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

// surviveUnary answers for a handler that panicked, and does not begin a call
// whose deadline has passed.
func (s *Server) surviveUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (response any, err error) {
	defer s.survive(info.FullMethod, &err)
	if ctx.Err() != nil {
		return nil, s.bridge.refuse(ctx, apierror.Error{Code: apierror.Timeout, Detail: "the call ended before it was handled"}, nothingDone)
	}
	return handle(ctx, request)
}

func (s *Server) surviveStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer s.survive(info.FullMethod, &err)
	return handle(server, stream)
}

func (s *Server) survive(method string, err *error) {
	cause := recover()
	if cause == nil {
		return
	}
	s.config.Log.Error("call failed with a panic", "method", method, "err", cause, "stack", string(debug.Stack()))
	*err = statusOf(apierror.Error{Code: apierror.Internal, Detail: "the bridge failed to handle this call; its log has the details"}, outcomeUnknown)
}
