//go:build unix

package plugintest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

const byHand, asHost = "by-hand", "as-host"

func TestMain(m *testing.M) {
	main := Main(m, reporting)
	switch {
	case len(os.Args) > 1 && os.Args[1] == byHand:
		os.Args = append(os.Args[:1], os.Args[2:]...)
		plugin.Serve(reporting)
	case len(os.Args) > 2 && os.Args[1] == asHost:
		hostForEver(os.Args[2])
	}
	os.Exit(main.Run())
}

// reporting is a sink that tells a test what befalls it, over a connection that
// ends with its process.
var reporting = plugin.Definition{Name: "reporting", Version: "v0.1.0", Description: "Tells a test.", Open: openReporter,
	Settings: []plugin.Setting{{Name: "report_to", Description: "host:port", Required: true}}}

type reporter struct{ conn net.Conn }

func openReporter(ctx context.Context, config json.RawMessage) (core.Sink, error) {
	var c struct {
		ReportTo string `json:"report_to"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, core.Invalidf("config", "%v", err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.ReportTo)
	if err != nil {
		return nil, core.Invalidf("report_to", "%v", err)
	}
	fmt.Fprintln(conn, "open", os.Getpid())
	return &reporter{conn}, nil
}

func (r *reporter) Deliver(_ context.Context, batch []*core.Message) error {
	slog.Default().Warn("delivering", "id", batch[0].ID)
	fmt.Println("printed by the plugin")
	fmt.Fprintln(r.conn, "deliver", batch[0].ID)
	return nil
}

func (r *reporter) Close() error {
	fmt.Fprintln(r.conn, "close")
	return nil
}

// reports is what one reporter tells; it ends with "gone" when the process has.
type reports struct {
	t     *testing.T
	addr  string
	lines chan string
}

func listen(t *testing.T) *reports {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	r := &reports{t: t, addr: listener.Addr().String(), lines: make(chan string, 10)}
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for scanner := bufio.NewScanner(conn); scanner.Scan(); {
			r.lines <- scanner.Text()
		}
		r.lines <- "gone"
	}()
	return r
}

func (r *reports) want(prefix string) string {
	r.t.Helper()
	select {
	case line := <-r.lines:
		rest, ok := strings.CutPrefix(line, prefix)
		if !ok {
			r.t.Fatalf("the plugin reports %q, want %q", line, prefix)
		}
		return strings.TrimSpace(rest)
	case <-time.After(20 * time.Second):
		r.t.Fatalf("the plugin does not report %q", prefix)
	}
	return ""
}

// hostLog is what the host hears of the plugin: a line each.
type hostLog struct{ lines chan string }

func (l *hostLog) Write(p []byte) (int, error) {
	select {
	case l.lines <- string(p):
	default:
	}
	return len(p), nil
}

// start starts this test binary as a plugin as a plain host would.
func start(mtls bool, log io.Writer) (*goplugin.Client, sinkv1.SinkServiceClient, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(path, reporting.Name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: "DELAYBRIDGE_PLUGIN", MagicCookieValue: "sink"},
		VersionedPlugins: map[int]goplugin.PluginSet{1: {"sink": dispenser{}}},
		Cmd:              cmd, AutoMTLS: mtls, AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		Logger:     hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Debug}),
		SyncStdout: log,
		GRPCDialOptions: []grpc.DialOption{grpc.WithKeepaliveParams(
			keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 2 * time.Second, PermitWithoutStream: true})},
	})
	protocol, err := client.Client()
	if err != nil {
		return client, nil, err
	}
	sink, err := protocol.Dispense("sink")
	if err != nil {
		return client, nil, err
	}
	return client, sink.(sinkv1.SinkServiceClient), protocol.Ping()
}

type dispenser struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (dispenser) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("this is the host")
}

func (dispenser) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return sinkv1.NewSinkServiceClient(conn), nil
}

// configured starts a plugin and has it report to r.
func configured(r *reports, mtls bool, log io.Writer) (*goplugin.Client, sinkv1.SinkServiceClient) {
	r.t.Helper()
	client, sink, err := start(mtls, log)
	r.t.Cleanup(client.Kill)
	if err != nil {
		r.t.Fatal(err)
	}
	configure(r.t, sink, r.addr)
	r.want("open")
	return client, sink
}

func configure(t testing.TB, sink sinkv1.SinkServiceClient, addr string) {
	t.Helper()
	answer, err := sink.Configure(t.Context(), &sinkv1.ConfigureRequest{ConfigJson: fmt.Appendf(nil, `{"report_to":%q}`, addr)})
	if err != nil || len(answer.Faults) > 0 {
		t.Fatalf("Configure = %v, %v", answer, err)
	}
}

func TestServesAHost(t *testing.T) {
	for _, mtls := range []bool{true, false} {
		t.Run(fmt.Sprintf("mtls %t", mtls), func(t *testing.T) {
			r, log := listen(t), &hostLog{lines: make(chan string, 1000)}
			client, sink := configured(r, mtls, log)
			described, err := sink.Describe(t.Context(), &sinkv1.DescribeRequest{})
			if err != nil || described.Name != "reporting" || described.Settings[0].Name != "report_to" {
				t.Errorf("Describe = %v, %v", described, err)
			}
			answer, err := sink.Deliver(t.Context(), &sinkv1.DeliverRequest{Messages: []*sinkv1.Message{{Id: "m1"}}})
			if err != nil || answer.Results[0].Outcome != sinkv1.Outcome_OUTCOME_CONFIRMED {
				t.Errorf("Deliver = %v, %v", answer, err)
			}
			r.want("deliver m1")
			log.want(t, "[WARN]", "delivering", "id=m1")
			if _, err := sink.Close(t.Context(), &sinkv1.CloseRequest{}); err != nil {
				t.Errorf("Close: %v", err)
			}
			r.want("close")
			client.Kill()
			r.want("gone")
		})
	}
}

// want waits for a line with all the parts.
func (l *hostLog) want(t *testing.T, parts ...string) {
	t.Helper()
	for timeout := time.After(20 * time.Second); ; {
		select {
		case line := <-l.lines:
			missing := false
			for _, part := range parts {
				missing = missing || !strings.Contains(line, part)
			}
			if !missing {
				return
			}
		case <-timeout:
			t.Fatalf("no line of the log has %q", parts)
		}
	}
}

func TestSignals(t *testing.T) {
	r := listen(t)
	client, sink := configured(r, true, io.Discard)
	process, err := os.FindProcess(client.ReattachConfig().Pid)
	if err != nil {
		t.Fatal(err)
	}
	process.Signal(syscall.SIGINT)
	for range 20 { // it would have time to die
		if _, err := sink.Deliver(t.Context(), &sinkv1.DeliverRequest{Messages: []*sinkv1.Message{{Id: "m"}}}); err != nil {
			t.Fatalf("Deliver after SIGINT: %v", err)
		}
		r.want("deliver m")
	}
	process.Signal(syscall.SIGTERM)
	r.want("close")
	r.want("gone")
}

// hostForEver starts a plugin that reports to addr, and waits to be killed.
func hostForEver(addr string) {
	_, sink, err := start(true, io.Discard)
	if err == nil {
		_, err = sink.Configure(context.Background(), &sinkv1.ConfigureRequest{ConfigJson: fmt.Appendf(nil, `{"report_to":%q}`, addr)})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

func TestEndsWithoutItsHost(t *testing.T) {
	r := listen(t)
	host := exec.Command(os.Args[0], asHost, r.addr)
	host.Stderr = os.Stderr
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	r.want("open")
	host.Process.Kill()
	host.Wait()
	r.want("close")
	r.want("gone")
}

func TestRunByHand(t *testing.T) {
	run := func(args ...string) (stdout, stderr string, code int) {
		cmd := exec.Command(os.Args[0], append([]string{byHand}, args...)...)
		var out, errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
	}
	stdout, stderr, code := run()
	if code != 2 || stdout != "" || !strings.HasPrefix(stderr, "reporting v0.1.0 is a sink for delaybridge: Tells a test.\n") {
		t.Errorf("by hand: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	stdout, stderr, code = run("--describe")
	if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "{\n  \"name\": \"reporting\",\n") {
		t.Errorf("--describe: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
