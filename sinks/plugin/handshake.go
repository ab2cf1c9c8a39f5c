package plugin

import (
	"context"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// protocolVersion is the newest version of the protocol that both sides here
// speak; it is the number in the package of the .proto file.
const protocolVersion = 1

// handshake is what a program must know to be taken for a plugin. The cookie
// keeps people from running a plugin by mistake; it protects nothing.
func handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{
		ProtocolVersion:  protocolVersion,
		MagicCookieKey:   "DELAYBRIDGE_PLUGIN",
		MagicCookieValue: "sink",
	}
}

// service is the name of the only thing that a plugin serves.
const service = "sink"

// versions are what is spoken, by protocol version: the newest and the one
// before, once there is one.
func versions(server sinkv1.SinkServiceServer) map[int]goplugin.PluginSet {
	return map[int]goplugin.PluginSet{protocolVersion: {service: &sinkPlugin{server: server}}}
}

// sinkPlugin joins the protocol to the library. server is nil on the host's side.
type sinkPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
	server sinkv1.SinkServiceServer
}

var _ goplugin.GRPCPlugin = (*sinkPlugin)(nil)

// GRPCServer registers the sink with the plugin's server.
func (p *sinkPlugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	sinkv1.RegisterSinkServiceServer(s, p.server)
	return nil
}

// GRPCClient returns a sinkv1.SinkServiceClient.
func (p *sinkPlugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return sinkv1.NewSinkServiceClient(conn), nil
}
