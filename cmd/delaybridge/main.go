// Command delaybridge accepts messages now and delivers them when they are due,
// through the broker that is already there. See README.md, or run
//
//	go run ./cmd/delaybridge dev
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// app is the program without its process: what the commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// interrupted is closed by the first SIGINT or SIGTERM, forced by the second.
	interrupted, forced <-chan struct{}
	// began says that the command line was understood, so that an error is not
	// one of usage.
	began        bool
	errorsAsJSON bool // see report.go
}

// run executes a command line and returns the exit code; see exit.go. When ctx
// ends, it stops as at a first signal.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, errorsAsJSON: wantsJSON(args)}
	stop := a.watchSignals(cancel)
	defer stop()
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !isQuiet(err) {
		a.report(err, "")
	}
	if err != nil && !a.began && !a.errorsAsJSON {
		fmt.Fprintf(stderr, "See %s --help.\n", cmd.CommandPath())
	}
	return a.exitCode(err)
}

// watchSignals cancels at the first signal and reports the second. The
// returned function ends it.
func (a *app) watchSignals(cancel context.CancelFunc) (stop func()) {
	interrupted, forced, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	a.interrupted, a.forced = interrupted, forced
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for _, tell := range []chan struct{}{interrupted, forced} {
			select {
			case <-signals:
				close(tell)
				cancel()
			case <-stopped:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(stopped)
	}
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "delaybridge",
		Short: "Deliver messages later, through the broker that consumers already read",
		Long: `delaybridge accepts messages now and delivers them when they are due, through
the broker that consumers already read.

Exit codes: 0 done, 1 failed, 2 usage, 3 configuration invalid, 4 server or
dependency unreachable, 5 no such message, 6 conflict, too late, or some of several
failed, 8 denied, 130 interrupted.`,
		Example:       "  delaybridge dev\n  delaybridge serve --config delaybridge.yaml\n  delaybridge send --topic hello --delay 10s --body hi",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddGroup(&cobra.Group{ID: "serve", Title: "Run the bridge:"}, &cobra.Group{ID: "client", Title: "Talk to a running bridge:"})
	serve := []*cobra.Command{a.devCommand(), a.serveCommand(), a.configCommand(), a.doctorCommand(), a.storeCommand()}
	talk := []*cobra.Command{a.sendCommand(), a.getCommand(), a.listCommand(), a.cancelCommand(), a.rescheduleCommand(),
		a.deliverNowCommand(), a.deadCommand(), a.tailCommand(), a.statsCommand(), a.timelineCommand(), a.instancesCommand(), a.healthCommand(), a.reloadCommand(),
		a.contextCommand()}
	for _, c := range serve {
		c.GroupID = "serve"
	}
	for _, c := range talk {
		c.GroupID = "client"
	}
	root.AddCommand(append(append(serve, talk...), a.pluginCommand(), a.manCommand(), a.versionCommand())...)
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"}) // it is there
	help.Args = knownTopic
	return root
}

// knownTopic refuses help on a command that does not exist.
func knownTopic(cmd *cobra.Command, topic []string) error {
	found, rest, err := cmd.Root().Find(topic)
	if err != nil {
		return err
	}
	return cobra.NoArgs(found, rest)
}

// group makes cmd a mere holder of others, which are not to be misspelt.
func group(cmd *cobra.Command, members ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(members...)
	return cmd
}

// runE wraps what a command does: from here on an error is not one of usage.
func (a *app) runE(do func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.began = true
		return do(cmd, args)
	}
}
