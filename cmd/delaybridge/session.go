package main

import (
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

// session is what a client command works with: the bridge, and where its
// answers go.
type session struct {
	*client.Client
	printer
	config client.Config   // of the client
	answer json.RawMessage // the last one, as the bridge wrote it
}

// sessionFlags are the flags that all client commands have.
type sessionFlags struct {
	connection
	context, output string
	timeout         time.Duration
}

// clientCommand makes cmd talk to a running bridge.
func (a *app) clientCommand(cmd *cobra.Command, do func(ctx context.Context, s *session, args []string) error) *cobra.Command {
	var f sessionFlags
	flags := cmd.Flags()
	f.add(flags)
	flags.StringVar(&f.Token, "token", "", "bearer token of the bridge; prefer env "+envToken+" or --token-file")
	cmd.MarkFlagsMutuallyExclusive("token", "token-file")
	flags.StringVar(&f.context, "context", "", "name of a stored context (env "+envContext+"); see delaybridge context")
	cmd.MarkFlagsMutuallyExclusive("context", "url")
	cmd.MarkFlagsRequiredTogether("cert", "cert-key")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for an answer")
	outputFlag(cmd, &f.output)
	_ = cmd.RegisterFlagCompletionFunc("context", completeContexts)
	if flags.Lookup("sink") != nil {
		_ = cmd.RegisterFlagCompletionFunc("sink", a.completeSinks(&f))
	}
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
	cmd.Flags().StringVarP(output, "output", "o", formatTable, "output format: table, json, jsonl or template=TEXT")
	complete(cmd, "output", formatTable, formatJSON, formatLines, formatTemplate+"=")
}

func (a *app) session(f sessionFlags) (*session, error) {
	out, err := newPrinter(a.stdout, f.output)
	if err != nil {
		return nil, err
	}
	if f.timeout <= 0 {
		return nil, usageError("the timeout must be more than 0s")
	}
	to, err := f.resolve()
	if err != nil {
		return nil, err
	}
	config, err := to.config()
	if err != nil {
		return nil, err
	}
	s := &session{printer: out}
	config.Timeout, config.Patience = f.timeout, -1 // who is at the terminal decides whether to try again
	config.Answered = func(body []byte) { s.answer = body }
	s.config = config
	if s.Client, err = client.New(config); err != nil {
		return nil, clientUsage(err)
	}
	return s, nil
}

// clientUsage is for a setting that the client refuses.
func clientUsage(err error) error {
	return usageError(strings.TrimPrefix(err.Error(), "delaybridge: "))
}

// resolve completes the flags with the environment and a context. What a context has
// belongs to its URL: it is not used for another one.
func (f *sessionFlags) resolve() (connection, error) {
	env := connectionOfEnv()
	if name := f.context; name != "" {
		found, err := contextNamed(name)
		return f.or(found).or(env), err
	}
	c := f.or(env)
	if c.URL != "" {
		return c, nil
	}
	found, err := contextNamed(os.Getenv(envContext))
	return c.or(found), err
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
	if e.Status != http.StatusUnprocessableEntity { // else it is a list of faults
		text = escape(text)
	}
	return &codedError{clientExitCode(e), errors.New(text + escape(hint)), e.Code}
}

func clientExitCode(e *client.Error) int {
	switch {
	case errors.Is(e, context.Canceled):
		return exitInterrupted
	case errors.Is(e, client.ErrInvalid):
		return exitUsage
	case errors.Is(e, client.ErrNotFound):
		return exitNotFound
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
	case http.StatusConflict:
		return exitConflict
	case http.StatusUnprocessableEntity: // of a reload
		return exitConfig
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
		if len(ids) == 1 || !ofMessage(err) {
			return err
		}
		failed = true
		a.report(explain(err, ""), id)
	}
	if failed {
		return coded(exitConflict, errReported)
	}
	return nil
}

// ofMessage reports whether err concerns one message only.
func ofMessage(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && slices.Contains([]int{exitUsage, exitNotFound, exitConflict}, clientExitCode(e))
}

// receipt prints what became of one message.
func (s *session) receipt(r client.Receipt) error {
	if !s.forPeople() {
		return s.object(s.answer)
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
