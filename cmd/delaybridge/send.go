package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/core"
)

// sendFlags are the message as the command line gives it.
type sendFlags struct {
	message           client.Message
	due               dueFlags
	ttl, key          string
	body, bodyFile    string
	headers, options  []string
	hasKey, hasInline bool
	file, results     string
}

func (a *app) sendCommand() *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send (--topic TOPIC (--delay DURATION | --deliver-at TIME) | --file FILE)",
		Short: "Send a message, or a file of messages",
		Long: `Send one message to a running bridge. The body comes from --body or --body-file, or
else from standard input.

If there is no answer, the message may or may not be stored. The error names its id:
it is safe to run the command again with that --id, because a stored message is then a
duplicate.

--file sends many messages: each line is a message in the JSON of the HTTP API. A line
without an id gets one. What became of each line is printed, or written to the file that
--results names. After an interruption, run the same command with that file again: lines
that are stored are not sent again, and others are sent with the same ids. Requests that fail
are repeated for the time of --timeout.`,
		Example: `  delaybridge send --topic hello --delay 10s --body hi
  delaybridge send --sink orders --topic created --key 42 --id order-42 --deliver-at 2030-01-31T09:00:00+01:00 --body-file order.json
  date | delaybridge send --topic hello --delay 1h30m --header content-type=text/plain
  delaybridge send -f messages.ndjson --results sent.ndjson`,
		Args: cobra.NoArgs,
	}
	f.add(cmd)
	return a.clientCommand(cmd, func(ctx context.Context, s *session, _ []string) error {
		if f.file != "" {
			return a.sendFile(ctx, s, f.file, f.results)
		}
		if f.results != "" {
			return usageError("--results needs --file")
		}
		f.hasKey, f.hasInline = cmd.Flags().Changed("key"), cmd.Flags().Changed("body")
		if err := f.complete(a.stdin); err != nil {
			return err
		}
		receipt, err := s.Publish(ctx, f.message)
		if errors.Is(err, client.ErrUnknown) {
			return explain(err, "; to be sure, send it again with --id "+receipt.ID)
		}
		if err != nil {
			return err
		}
		return s.receipt(receipt)
	})
}

func (f *sendFlags) add(cmd *cobra.Command) {
	flags, m := cmd.Flags(), &f.message
	flags.StringVar(&m.Sink, "sink", "", "name of the sink; needed if several are configured")
	flags.StringVar(&m.Topic, "topic", "", "topic, queue or routing key in the sink")
	flags.StringVar(&m.ID, "id", "", "id of the message (default: a new one, printed; sending again with it is safe)")
	f.due.add(cmd, "delay from acceptance")
	flags.StringVar(&f.ttl, "ttl", "", "time from acceptance after which the message expires, such as 1h")
	flags.IntVar(&m.Priority, "priority", 0, "priority from 0 to 9; due messages leave highest first")
	flags.StringVar(&f.key, "key", "", "key of the message, for order and partitioning")
	flags.StringVar(&f.body, "body", "", "body of the message")
	flags.StringVar(&f.bodyFile, "body-file", "", "path of a file with the body; - is standard input")
	flags.StringArrayVar(&f.headers, "header", nil, "header as name=value; can be repeated, order is kept")
	flags.StringArrayVar(&f.options, "option", nil, "option of the sink, or retry.*, as name=value; can be repeated")
	cmd.MarkFlagsMutuallyExclusive("body", "body-file")
	flags.StringVarP(&f.file, "file", "f", "", "path of a file of messages, one JSON object a line; - is standard input")
	flags.StringVar(&f.results, "results", "", "path of the file for the results of --file, from which a later run continues")
	cmd.MarkFlagsOneRequired("topic", "file")
	cmd.MarkFlagsOneRequired("delay", "deliver-at", "file")
	for _, name := range []string{"topic", "id", "delay", "deliver-at", "ttl", "priority", "key", "body", "header", "option"} {
		complete(cmd, name)
		cmd.MarkFlagsMutuallyExclusive("file", name)
	}
	cmd.MarkFlagsMutuallyExclusive("file", "sink")
	cmd.MarkFlagsMutuallyExclusive("file", "body-file")
}

// complete makes the message out of the flags that are not yet in it.
func (f *sendFlags) complete(stdin io.Reader) error {
	m := &f.message
	due, err := f.due.when()
	if err != nil {
		return err
	}
	m.Delay, m.DeliverAt = due.After, due.At
	if m.TTL, err = parsed("ttl", f.ttl, core.ParseDuration); err != nil {
		return err
	}
	if f.hasKey {
		m.Key = []byte(f.key)
	}
	for _, text := range f.headers {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return usageError("--header must be name=value")
		}
		m.Headers = append(m.Headers, client.Header{Name: name, Value: []byte(value)})
	}
	for _, text := range f.options {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return usageError("--option must be name=value")
		}
		if m.Options == nil {
			m.Options = make(map[string]string)
		}
		m.Options[name] = value
	}
	m.Body, err = f.readBody(stdin)
	return err
}

// maxSendBody is more than any bridge takes; it says how large.
const maxSendBody = 64<<20 + 1

func (f *sendFlags) readBody(stdin io.Reader) ([]byte, error) {
	switch {
	case f.hasInline:
		return []byte(f.body), nil
	case f.bodyFile != "" && f.bodyFile != "-":
		file, err := os.Open(f.bodyFile)
		if err != nil {
			return nil, coded(exitUsage, fmt.Errorf("read the body: %w", err))
		}
		defer file.Close()
		stdin = file
	case f.bodyFile == "" && isTerminal(stdin):
		return nil, usageError("no body: give --body or --body-file, or pipe it in")
	}
	body, err := io.ReadAll(io.LimitReader(stdin, maxSendBody))
	if err == nil && len(body) == maxSendBody {
		err = errors.New("larger than any bridge accepts")
	}
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	return body, nil
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Name() != os.DevNull
}
