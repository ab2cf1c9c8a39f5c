//go:build unix

// Command brokers starts a Redis, a Kafka, a RocketMQ and a RabbitMQ on free
// loopback ports, prints a configuration of delaybridge that uses them, and ends
// them on Ctrl-C. Nothing of them is kept.
//
//	go run ./integration/cmd/brokers              all of them
//	go run ./integration/cmd/brokers redis kafka  these
//	go run ./integration/cmd/brokers -fetch       only download the jars
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"text/template"

	"github.com/delaybridge/delaybridge/integration/servers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "brokers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("brokers", flag.ContinueOnError)
	fetch := flags.Bool("fetch", false, "only download the jars of Kafka and RocketMQ into the cache")
	topic := flags.String("topic", "demo", "topic, or queue, to create in each broker")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *fetch {
		return servers.Fetch()
	}
	h, err := servers.NewHost("brokers", os.Stderr)
	if err != nil {
		return err
	}
	defer os.RemoveAll(h.Dir())
	defer h.Close()
	targets, err := start(h, *topic, flags.Args())
	if err != nil {
		return err
	}
	file, err := targets.write(h.TempDir())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\ndelaybridge serve --config %s\n\nEach broker has the topic or queue %s. Ctrl-C ends the brokers.\n", targets.text, file, targets.Topic)
	<-ctx.Done()
	return nil
}

// targets are the addresses of what runs; what does not is empty.
type targets struct {
	Topic  string
	Redis  string
	Kafka  []string
	Rocket []string
	Rabbit string

	text string
}

// start starts the servers side by side, as each takes seconds.
func start(h *servers.Host, topic string, names []string) (*targets, error) {
	found := &targets{Topic: topic}
	starters := map[string]func(servers.TB){
		"redis":    found.startRedis,
		"kafka":    found.startKafka,
		"rocketmq": found.startRocketMQ,
		"rabbitmq": found.startRabbitMQ,
	}
	if len(names) == 0 {
		for name := range starters {
			names = append(names, name)
		}
	}
	var group sync.WaitGroup
	for _, name := range names {
		start, ok := starters[name]
		if !ok {
			group.Wait()
			return nil, fmt.Errorf("no server is called %q: there are redis, kafka, rocketmq and rabbitmq", name)
		}
		group.Go(func() { start(h) })
	}
	group.Wait()
	return found, errors.Join(h.Failed(), h.Skipped())
}

func (f *targets) startRedis(t servers.TB) {
	f.Redis = servers.Redis(t, servers.RedisOptions{}).URL()
}

func (f *targets) startKafka(t servers.TB) {
	cluster := servers.Kafka(t, servers.KafkaOptions{Config: map[string]string{"auto.create.topics.enable": "true"}})
	cluster.CreateTopic(f.Topic, 4)
	f.Kafka = cluster.Addrs()
}

func (f *targets) startRocketMQ(t servers.TB) {
	cluster := servers.RocketMQ(t, servers.RocketMQOptions{Config: []string{"autoCreateTopicEnable=true"}})
	cluster.CreateTopic(f.Topic, 4)
	f.Rocket = cluster.NameServers()
}

func (f *targets) startRabbitMQ(t servers.TB) {
	server := servers.RabbitMQ(t)
	if err := declareQueue(server.URL(), f.Topic); err != nil {
		t.Fatalf("declare queue %s: %v", f.Topic, err)
	}
	f.Rabbit = server.URL()
}

var configuration = template.Must(template.New("configuration").Parse(`version: 1
{{- if .Redis}}
store:
  redis:
    url: {{printf "%q" .Redis}}
{{- end}}
sinks:
  console:
    type: console
{{- if .Kafka}}
  kafka:
    type: kafka
    config:
      brokers: [{{range $i, $a := .Kafka}}{{if $i}}, {{end}}{{printf "%q" $a}}{{end}}]
{{- end}}
{{- if .Rocket}}
  rocket:
    type: rocketmq
    config:
      name_servers: [{{range $i, $a := .Rocket}}{{if $i}}, {{end}}{{printf "%q" $a}}{{end}}]
{{- end}}
{{- if .Rabbit}}
  rabbit:
    type: amqp
    config:
      urls: [{{printf "%q" .Rabbit}}]
{{- end}}
`))

// write makes the configuration, in dir too, and returns the file's name.
func (f *targets) write(dir string) (string, error) {
	file, err := os.OpenFile(filepath.Join(dir, "delaybridge.yaml"), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	err = configuration.Execute(file, f)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("write the configuration: %w", err)
	}
	text, err := os.ReadFile(file.Name())
	f.text = string(text)
	return file.Name(), err
}
