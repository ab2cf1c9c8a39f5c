package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/core"
)

const (
	defaultURL = "http://127.0.0.1:7420"
	envURL     = "DELAYBRIDGE_URL"
	envToken   = "DELAYBRIDGE_TOKEN"
)

// session is what a client command works with: the bridge, and where its
// answers go.
type session struct {
	*client.Client
	printer
	answer json.RawMessage // the last one, as the bridge wrote it
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
		return explain(do(cmd.Context(), s, args), "")
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
	if f.timeout <= 0 {
		return nil, usageError("the timeout must be more than 0s")
	}
	s := &session{printer: out}
	s.Client, err = client.New(client.Config{
		URL: cmp.Or(f.url, os.Getenv(envURL), defaultURL), Token: cmp.Or(f.token, os.Getenv(envToken)),
		Timeout: f.timeout, Patience: -1, // who is at the terminal decides whether to try again
		Answered: func(body []byte) { s.answer = body },
	})
	if err != nil {
		return nil, usageError(strings.TrimPrefix(err.Error(), "delaybridge: "))
	}
	return s, nil
}

// explain words an error of the client for the terminal, with its exit code. hint
// goes before the code of the API.
func explain(err error, hint string) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	text := e.Message
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.State != "" {
		text += ", it is " + string(e.State)
	}
	text += hint
	if e.Code != "" {
		text += " [" + e.Code + "]"
	}
	return coded(clientExitCode(e), errors.New(escape(text)))
}

func clientExitCode(e *client.Error) int {
	switch {
	case errors.Is(e, context.Canceled):
		return exitInterrupted
	case errors.Is(e, client.ErrInvalid):
		return exitUsage
	case e.Status == 0:
		return exitUnreachable
	case e.Code == "": // another server
		return exitFailed
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge:
		return exitUsage
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitDenied
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusConflict:
		return exitConflict
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return exitUnreachable
	}
	return exitFailed
}

// refFlags tell apart messages that share an ID.
type refFlags struct{ sink, key string }

func (f *refFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.sink, "sink", "", "sink of the message; needed if several sinks have the id")
	cmd.Flags().StringVar(&f.key, "key", "", "key of the message; needed if several messages with different keys have the id")
}

func (f *refFlags) ref(cmd *cobra.Command, id string) client.Ref {
	ref := client.Ref{ID: id, Sink: f.sink}
	if cmd.Flags().Changed("key") {
		ref.Key = []byte(f.key)
	}
	return ref
}

// actCommand makes a command that does one thing to each message named.
func (a *app) actCommand(cmd *cobra.Command, act func(*client.Client, context.Context, client.Ref) (client.Receipt, error)) *cobra.Command {
	var f refFlags
	f.add(cmd)
	cmd.Args = func(cmd *cobra.Command, ids []string) error {
		if len(ids) == 0 {
			return usageError(cmd.CommandPath() + " needs the ID of at least one message")
		}
		return nil
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return a.clientCommand(cmd, func(ctx context.Context, s *session, ids []string) error {
		return a.forEach(ids, func(id string) error {
			receipt, err := act(s.Client, ctx, f.ref(cmd, id))
			if err != nil {
				return err
			}
			return s.receipt(receipt)
		})
	})
}

// forEach continues after an error that concerns one message only. The error of a
// single ID is its own; of several, each is printed and the exit code says that
// some failed.
func (a *app) forEach(ids []string, act func(id string) error) error {
	failed := false
	for _, id := range ids {
		err := act(id)
		if err == nil {
			continue
		}
		e, ok := errors.AsType[*client.Error](err)
		if ofMessage := ok && e.Code != ""; len(ids) == 1 || !ofMessage {
			return err
		}
		failed = true
		fmt.Fprintf(a.stderr, "delaybridge: %s: %s\n", escape(id), explain(err, ""))
	}
	if failed {
		return coded(exitConflict, errReported)
	}
	return nil
}

// receipt prints what became of one message.
func (s *session) receipt(r client.Receipt) error {
	if s.json {
		return s.raw(s.answer)
	}
	rows := [][2]string{{"id", r.ID}, {"sink", r.Sink}, {"state", string(r.State)}, {"deliver_at", timeText(r.DeliverAt)}, {"durability", r.Durability}}
	if r.Duplicate {
		rows = append(rows, [2]string{"duplicate", "true: this message was accepted before"})
	}
	if r.Attempt > 0 {
		rows = append(rows, [2]string{"attempts", fmt.Sprintf("%d: it may have been delivered", r.Attempt)})
	}
	return s.pairs(withValues(rows))
}

// withValues leaves out the rows that have none.
func withValues(rows [][2]string) [][2]string {
	return slices.DeleteFunc(rows, func(row [2]string) bool { return row[1] == "" })
}

// timeText is t as the bridge writes it.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(core.TimeFormat)
}

// bytesText is text as it is, and other bytes in base64.
func bytesText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return "base64 " + base64.StdEncoding.EncodeToString(b)
}

// parsed reads a flag as the bridge would read the field of that name; an empty one
// is zero.
func parsed[T any](field, text string, parse func(string) (T, error)) (value T, err error) {
	if text == "" {
		return value, nil
	}
	if value, err = parse(text); err != nil {
		return value, client.Invalid(field, "%v", err)
	}
	return value, nil
}
