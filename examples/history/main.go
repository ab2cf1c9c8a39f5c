// Command history copies events from a topic of Kafka into PostgreSQL, with psql. An
// event that comes again is left out, so what Kafka has is in the table once.
// docs/history.md describes it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
)

// The lines of a batch stand between the two. CSV with characters that JSON does not have
// takes each line as it is.
const (
	before = "BEGIN;\nCREATE TEMP TABLE batch (e jsonb) ON COMMIT DROP;\n" +
		`COPY batch FROM STDIN WITH (FORMAT csv, DELIMITER E'\x02', QUOTE E'\x01');` + "\n"
	after = `\.
INSERT INTO message_events
  SELECT e->>'event_id', (e->>'time')::timestamptz, e->>'id', e->>'event', e->>'sink', e->>'topic', (e->>'attempt')::int, e->>'reason', e
  FROM batch ON CONFLICT DO NOTHING;
COMMIT;
`
)

const (
	mostAtOnce = 500
	waitFor    = time.Second
)

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "of Kafka, separated by commas")
	topic := flag.String("topic", "delaybridge.events", "of the events")
	group := flag.String("group", "history", "of consumers, which share the partitions")
	database := flag.String("database", "", "as psql takes it, such as postgres://user@host/name (default: as PGHOST and others say)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: strings.Split(*brokers, ","), Topic: *topic, GroupID: *group,
		StartOffset: kafka.FirstOffset, MinBytes: 1, MaxBytes: 4 << 20})
	err := copyAll(ctx, reader, *database)
	if err := errors.Join(err, reader.Close()); err != nil {
		log.Fatal(err)
	}
}

// copyAll commits records only when PostgreSQL has committed them, until ctx ends.
func copyAll(ctx context.Context, reader *kafka.Reader, database string) error {
	for {
		batch, err := fetch(ctx, reader)
		if ctx.Err() != nil {
			return nil // what was not committed comes again
		}
		if err == nil && len(batch) > 0 {
			err = insert(ctx, database, batch)
		}
		if err == nil {
			err = reader.CommitMessages(ctx, batch...)
		}
		if err != nil {
			return fmt.Errorf("copy events: %w", err)
		}
	}
}

// fetch returns the records of a second, or as many as are copied at once.
func fetch(ctx context.Context, reader *kafka.Reader) (batch []kafka.Message, err error) {
	ctx, cancel := context.WithTimeout(ctx, waitFor)
	defer cancel()
	for len(batch) < mostAtOnce {
		m, err := reader.FetchMessage(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			return nil, err
		}
		batch = append(batch, m)
	}
	return batch, nil
}

func insert(ctx context.Context, database string, batch []kafka.Message) error {
	input := bytes.NewBufferString(before)
	for _, m := range batch {
		// PostgreSQL has no text with a zero byte.
		input.Write(bytes.ReplaceAll(m.Value, []byte(`\u0000`), []byte(`\ufffd`)))
		input.WriteByte('\n')
	}
	input.WriteString(after)
	psql := exec.CommandContext(ctx, "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname="+database)
	psql.Stdin, psql.Stderr = input, os.Stderr
	return psql.Run()
}
