package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/core/redisstore"
)

func (a *app) storeCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:     "store",
		Short:   "Inspect the data in Redis",
		Example: "  delaybridge store format --config delaybridge.yaml",
	}, a.storeFormatCommand())
}

// formatFlags are those of store format.
type formatFlags struct {
	path, output string
	pin          int
	unpin        bool
}

func (a *app) storeFormatCommand() *cobra.Command {
	var f formatFlags
	cmd := &cobra.Command{
		Use:   "format --config FILE",
		Short: "Show the record format that is written, or pin it for a rollback",
		Long: `Show which record format the instances write, which ones they read, and the pin, if
one is set. They write the newest format that all of them read. --pin sets the newest
format to write; running instances follow within seconds. docs/redis.md explains how
to upgrade and how to roll back.`,
		Example: "  delaybridge store format --config delaybridge.yaml\n  delaybridge store format --config delaybridge.yaml --pin 1",
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.path, "config", "", "path of the configuration file (env "+envConfig+")")
	flags.IntVar(&f.pin, "pin", 0, "newest format to write")
	flags.BoolVar(&f.unpin, "unpin", false, "remove the pin: write the newest format that all instances read")
	cmd.MarkFlagsMutuallyExclusive("pin", "unpin")
	outputFlag(cmd, &f.output)
	cmd.RunE = a.runE(func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("pin") && f.pin < 1 {
			return usageError("--pin must be a format, from 1")
		}
		return a.storeFormat(cmd.Context(), f)
	})
	return cmd
}

// storeFormat pins if that is asked for, and shows what there is then.
func (a *app) storeFormat(ctx context.Context, f formatFlags) error {
	out, err := newPrinter(a.stdout, f.output)
	if err != nil {
		return err
	}
	c, err := loadConfig(f.path)
	if err != nil {
		return err
	}
	redis, err := redisConfig(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if f.pin > 0 || f.unpin {
		if err := redisstore.PinFormat(ctx, redis, f.pin); err != nil {
			return err
		}
	}
	found, err := redisstore.ReadFormats(ctx, redis)
	if err != nil {
		return err
	}
	return out.formats(found)
}

// storedFormats is how formats are printed as JSON.
type storedFormats struct {
	Writes    int                `json:"writes"`
	Newest    int                `json:"newest"`
	Pin       int                `json:"pin,omitempty"`
	Buckets   int                `json:"buckets"`
	Instances []instanceOfFormat `json:"instances"`
}

type instanceOfFormat struct {
	Instance string `json:"instance"`
	Oldest   int    `json:"oldest"`
	Newest   int    `json:"newest"`
	Writes   int    `json:"writes"`
}

func (p printer) formats(f redisstore.Formats) error {
	if !p.forPeople() {
		v := storedFormats{Writes: f.Writes, Newest: f.Newest, Pin: f.Pin, Buckets: f.Buckets, Instances: []instanceOfFormat{}}
		for _, one := range f.Instances {
			v.Instances = append(v.Instances, instanceOfFormat(one))
		}
		return p.value(v)
	}
	pin := "none"
	if f.Pin > 0 {
		pin = strconv.Itoa(f.Pin)
	}
	err := p.pairs([][2]string{{"writes", strconv.Itoa(f.Writes)}, {"newest stored", strconv.Itoa(f.Newest)}, {"pin", pin},
		{"buckets", strconv.Itoa(f.Buckets)}})
	rows := [][]string{{"INSTANCE", "READS", "WRITES"}}
	for _, one := range f.Instances {
		rows = append(rows, []string{one.Instance, fmt.Sprintf("%d-%d", one.Oldest, one.Newest), strconv.Itoa(one.Writes)})
	}
	return errors.Join(err, p.table(rows))
}
