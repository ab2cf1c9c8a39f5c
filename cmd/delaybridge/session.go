package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

const (
	defaultURL = "http://127.0.0.1:7420"
	envURL     = "DELAYBRIDGE_URL"
	envToken   = "DELAYBRIDGE_TOKEN"
)

// session is what a client command works with: the server, and where its
// answers go.
type session struct {
	*client
	printer
}

// sessionFlags are the flags that all client commands have.
type sessionFlags struct {
	url, token, output string
	timeout            time.Duration
}

// clientCommand makes cmd talk to a running bridge.
func (a *app) clientCommand(cmd *cobra.Command, do func(ctx context.Context, s *session, args []string) error) *cobra.Command {
	var f sessionFlags
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "", "URL of the bridge (env "+envURL+"; default "+defaultURL+")")
	flags.StringVar(&f.token, "token", "", "bearer token of the bridge; prefer env "+envToken)
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for an answer")
	outputFlag(cmd, &f.output)
	cmd.RunE = a.runE(func(cmd *cobra.Command, args []string) error {
		s, err := a.session(f)
		if err != nil {
			return err
		}
		return do(cmd.Context(), s, args)
	})
	return cmd
}

func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "table", "output format: table or json")
	complete(cmd, "output", "table", "json")
}

// complete offers values for a flag to the shell.
func complete(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func (a *app) session(f sessionFlags) (*session, error) {
	out, err := newPrinter(a.stdout, f.output)
	if err != nil {
		return nil, err
	}
	base := cmp.Or(f.url, os.Getenv(envURL), defaultURL)
	c, err := newClient(base, cmp.Or(f.token, os.Getenv(envToken)), f.timeout)
	if err != nil {
		return nil, err
	}
	return &session{c, out}, nil
}

// refFlags tell apart messages that share an ID.
type refFlags struct{ sink, key string }

func (f *refFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.sink, "sink", "", "sink of the message; needed if several sinks have the id")
	cmd.Flags().StringVar(&f.key, "key", "", "key of the message; needed if several messages with different keys have the id")
}

func (f *refFlags) query(cmd *cobra.Command) url.Values {
	query := url.Values{}
	if f.sink != "" {
		query.Set("sink", f.sink)
	}
	switch {
	case !cmd.Flags().Changed("key"):
	case utf8.ValidString(f.key):
		query.Set("key", f.key)
	default:
		query.Set("key_base64", base64.StdEncoding.EncodeToString([]byte(f.key)))
	}
	return query
}

// actCommand makes a command that does one thing to each message named.
func (a *app) actCommand(cmd *cobra.Command, method, pathFormat string) *cobra.Command {
	var ref refFlags
	ref.add(cmd)
	cmd.Args = func(cmd *cobra.Command, ids []string) error {
		if len(ids) == 0 {
			return usageError(cmd.CommandPath() + " needs the ID of at least one message")
		}
		return nil
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return a.clientCommand(cmd, func(ctx context.Context, s *session, ids []string) error {
		return a.forEach(ids, func(id string) error {
			answer, err := s.call(ctx, method, fmt.Sprintf(pathFormat, url.PathEscape(id)), ref.query(cmd), nil)
			if err != nil {
				return err
			}
			return s.receipt(answer)
		})
	})
}

// forEach goes on after an error that concerns one message only. The error of a
// single ID is its own; of several, each is printed and the exit code says that
// some failed.
func (a *app) forEach(ids []string, act func(id string) error) error {
	failed := false
	for _, id := range ids {
		err := act(id)
		if err == nil {
			continue
		}
		_, ofMessage := errors.AsType[*problem](err)
		if len(ids) == 1 || !ofMessage {
			return err
		}
		failed = true
		fmt.Fprintf(a.stderr, "delaybridge: %s: %s\n", escape(id), escape(err.Error()))
	}
	if failed {
		return coded(exitConflict, errReported)
	}
	return nil
}

// receipt prints what became of one message.
func (s *session) receipt(answer json.RawMessage) error {
	if s.json {
		return s.raw(answer)
	}
	var r receipt
	if err := json.Unmarshal(answer, &r); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	rows := [][2]string{{"id", r.ID}, {"sink", r.Sink}, {"state", r.State}, {"deliver_at", r.DeliverAt}, {"durability", r.Durability}}
	if r.Duplicate {
		rows = append(rows, [2]string{"duplicate", "true: this message was accepted before"})
	}
	if r.Attempt > 0 {
		rows = append(rows, [2]string{"attempts", fmt.Sprintf("%d: it may have been delivered", r.Attempt)})
	}
	return s.pairs(slices.DeleteFunc(rows, func(row [2]string) bool { return row[1] == "" }))
}
