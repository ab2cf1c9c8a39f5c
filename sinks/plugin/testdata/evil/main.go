// Evil is a plugin that misbehaves as its first argument says.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

func main() {
	mode := os.Args[1]
	switch mode {
	case "exit":
		fmt.Fprintln(os.Stderr, "no \x1b[31mlicence\x1b[0m found")
		os.Exit(3)
	case "silent":
		select {}
	case "closes-stdout":
		os.Stdout.Close()
		time.Sleep(time.Hour)
	case "garbage":
		fmt.Println("Hello \x1b[2J World")
		time.Sleep(time.Hour)
	case "endless":
		for {
			fmt.Print(strings.Repeat("x", 1<<16))
		}
	case "version":
		fmt.Println("1|999|unix|/nowhere|grpc|")
		time.Sleep(time.Hour)
	case "core-version":
		fmt.Println("2|1|unix|/nowhere|grpc|")
		time.Sleep(time.Hour)
	case "netrpc":
		fmt.Println("1|1|unix|/nowhere|netrpc|")
		time.Sleep(time.Hour)
	case "elsewhere":
		fmt.Println("1|1|tcp|192.0.2.1:25|grpc|")
		time.Sleep(time.Hour)
	case "mute-server":
		listener := must(net.Listen("unix", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "mute")))
		fmt.Printf("1|1|unix|%s|grpc|\n", listener.Addr())
		time.Sleep(time.Hour)
	case "plain":
		must(0, os.Unsetenv("PLUGIN_CLIENT_CERT"))
	case "pretends-tls":
		listener := must(net.Listen("unix", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "plain")))
		fmt.Printf("1|1|unix|%s|grpc|%s\n", listener.Addr(), certificate)
		panic(grpc.NewServer().Serve(listener))
	case "ignores-term":
		signal.Ignore(syscall.SIGTERM)
	}
	serve(mode)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func serve(mode string) {
	cookie := "sink"
	if mode == "cookie" {
		cookie = "something else"
	}
	e := &evil{mode: mode}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "DELAYBRIDGE_PLUGIN", MagicCookieValue: cookie},
		VersionedPlugins: map[int]goplugin.PluginSet{1: {"sink": &plugin{evil: e}}},
		Logger:           hclog.New(&hclog.LoggerOptions{Output: os.Stderr, JSONFormat: true, Level: hclog.Debug}),
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(options, grpc.UnaryInterceptor(e.intercept))...)
		},
	})
}

type plugin struct {
	goplugin.NetRPCUnsupportedPlugin
	evil *evil
}

func (p *plugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	sinkv1.RegisterSinkServiceServer(s, p.evil)
	return nil
}

func (p *plugin) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

type evil struct {
	sinkv1.UnimplementedSinkServiceServer
	mode   string
	hangs  atomic.Bool
	config struct {
		// Record is a file to which what was delivered is appended.
		Record string `json:"record"`
		// Children is a file for the numbers of processes.
		Children string `json:"children"`
	}
}

func (e *evil) intercept(ctx context.Context, request any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	health := strings.HasPrefix(call.FullMethod, "/grpc.health.")
	if health && (e.mode == "no-health" || e.hangs.Load()) {
		select {}
	}
	if e.mode == "garbage-reply" && strings.HasSuffix(call.FullMethod, "/Deliver") {
		return wrapperspb.String("garbage"), nil
	}
	return next(ctx, request)
}

func (e *evil) Describe(context.Context, *sinkv1.DescribeRequest) (*sinkv1.DescribeResponse, error) {
	about := &sinkv1.DescribeResponse{Name: "evil", Version: "v0.6.6", TellsHealth: e.mode == "unhealthy", Checks: strings.Contains(e.mode, "check") || e.mode == "few-faults"}
	switch e.mode {
	case "env":
		about.Description = strings.Join(names(os.Environ()), " ")
	case "fds":
		for _, entry := range must(os.ReadDir("/proc/self/fd")) {
			target, _ := os.Readlink("/proc/self/fd/" + entry.Name())
			about.Description += entry.Name() + "=" + target + " "
		}
	case "path":
		self := must(filepath.EvalSymlinks(must(os.Executable())))
		_, err := os.Stat(filepath.Join(filepath.Dir(os.Args[0]), "neighbour"))
		about.Description = fmt.Sprintf("%s %v", self, err == nil)
	}
	return about, nil
}

func names(env []string) []string {
	for n, pair := range env {
		env[n], _, _ = strings.Cut(pair, "=")
	}
	return env
}

func (e *evil) Configure(_ context.Context, request *sinkv1.ConfigureRequest) (*sinkv1.ConfigureResponse, error) {
	if err := json.Unmarshal(request.ConfigJson, &e.config); err != nil {
		return nil, err
	}
	switch e.mode {
	case "faults":
		return &sinkv1.ConfigureResponse{Faults: []*sinkv1.Fault{
			{Field: "brokers[0]", Reason: "is no \x1b[31mhost"}, {Reason: "has nothing in it"}}}, nil
	case "dies-in-configure":
		os.Exit(4)
	case "fork":
		e.fork()
	case "flood":
		flood()
	case "prints":
		prints()
	case "leaks":
		leak()
	}
	return &sinkv1.ConfigureResponse{}, nil
}

// fork leaves children behind that hold our stdout and stderr.
func (e *evil) fork() {
	file := must(os.OpenFile(e.config.Children, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	for range 3 {
		child := exec.Command("sleep", "1000")
		child.Stdout, child.Stderr = os.NewFile(1, "stdout"), os.NewFile(2, "stderr")
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Fprintln(file, child.Process.Pid)
	}
}

func flood() {
	lines := []byte(strings.Repeat("\x1b[31mred\x1b[0m \x07 and more of it, with a carriage return\r\n", 2000))
	for _, fd := range []uintptr{1, 2} {
		go func() {
			f := os.NewFile(fd, "")
			for range time.Tick(10 * time.Millisecond) {
				must(f.Write(lines))
			}
		}()
	}
}

func prints() {
	fmt.Println("from fmt")
	out := os.NewFile(2, "stderr")
	must(out.WriteString(`{"@level":"warn","@message":"broker \u001b[31mslow","@module":"x","time":"now","n":3}` + "\n"))
	must(out.WriteString("[ERROR] plain\r\n"))
	must(out.WriteString(strings.Repeat("y", 1<<20) + "\n"))
	must(out.WriteString("panic: at the disco\n\tgoroutine 1\n"))
	must(out.WriteString(`{"level":"info"}` + "\n"))
}

func leak() {
	var files []*os.File
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		files = append(files, f)
	}
	go func() { time.Sleep(time.Hour); runtime.KeepAlive(files) }()
}

func (e *evil) Check(ctx context.Context, request *sinkv1.CheckRequest) (*sinkv1.CheckResponse, error) {
	e.note(fmt.Sprintf("check %d\n", len(request.Messages)))
	switch e.mode {
	case "slow-check":
		time.Sleep(30 * time.Millisecond)
	case "mute-check":
		time.Sleep(time.Hour)
	case "crash-in-check":
		os.Exit(9)
	case "few-faults":
		return &sinkv1.CheckResponse{}, nil
	}
	response := &sinkv1.CheckResponse{}
	for _, m := range request.Messages {
		fault := &sinkv1.Fault{}
		if m.Topic == "big" {
			fault = &sinkv1.Fault{Field: "body", Reason: "is too large", TooLarge: true}
		}
		response.Faults = append(response.Faults, fault)
	}
	return response, nil
}

func (e *evil) Health(context.Context, *sinkv1.HealthRequest) (*sinkv1.HealthResponse, error) {
	return &sinkv1.HealthResponse{Error: "broker \x07is down"}, nil
}

func (e *evil) Deliver(ctx context.Context, request *sinkv1.DeliverRequest) (*sinkv1.DeliverResponse, error) {
	switch e.mode {
	case "crash":
		e.record(request.Messages[:len(request.Messages)/2])
		must(os.NewFile(2, "").WriteString("out of luck\n"))
		os.Exit(7)
	case "hang":
		e.hangs.Store(true)
		select {}
	case "mute":
		<-ctx.Done()
		time.Sleep(time.Hour)
	case "crash-on-poison":
		for _, m := range request.Messages {
			if m.Topic == "poison" {
				os.Exit(8)
			}
		}
	}
	e.record(request.Messages)
	if e.mode == "slow" {
		time.Sleep(5 * time.Millisecond)
	}
	return e.respond(request.Messages), nil
}

func (e *evil) respond(messages []*sinkv1.Message) *sinkv1.DeliverResponse {
	response := &sinkv1.DeliverResponse{}
	for _, m := range messages {
		response.Results = append(response.Results, &sinkv1.Result{Id: m.Id, Outcome: sinkv1.Outcome_OUTCOME_CONFIRMED})
	}
	last := response.Results[len(messages)-1]
	switch e.mode {
	case "long-text":
		last.Outcome, last.Error = sinkv1.Outcome_OUTCOME_TOPIC_BLOCKED, strings.Repeat("z", 10<<20)
	case "oversized":
		last.Error = strings.Repeat("z", 64<<20)
	case "other-messages":
		last.Id = "somebody-else's"
	case "too-few":
		response.Results = response.Results[1:]
	case "odd-outcome":
		last.Outcome, last.Error = 77, "odd"
	}
	return response
}

// record says what has reached the broker.
func (e *evil) record(messages []*sinkv1.Message) {
	var lines strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&lines, "%s %d\n", m.Id, m.Attempt)
	}
	e.note(lines.String())
}

func (e *evil) note(lines string) {
	if e.config.Record == "" {
		return
	}
	file := must(os.OpenFile(e.config.Record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	defer file.Close()
	must(file.WriteString(lines))
}

func (e *evil) Close(context.Context, *sinkv1.CloseRequest) (*sinkv1.CloseResponse, error) {
	if e.mode == "ignores-term" {
		select {}
	}
	return &sinkv1.CloseResponse{}, nil
}
