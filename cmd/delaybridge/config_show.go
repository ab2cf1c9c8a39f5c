package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
)

func (a *app) configShowCommand() *cobra.Command {
	var path, output string
	var effective bool
	cmd := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Show the settings of a configuration file, without secrets",
		Long: `Show each setting of a configuration file, with variables replaced and secrets as ***.
--effective also shows the defaults of the settings that the file does not have, but
for those of single sinks and sources, which are in config.example.yaml.`,
		Example: "  delaybridge config show delaybridge.yaml\n  delaybridge config show --effective delaybridge.yaml",
		Args:    atMostOneFile,
	}
	cmd.Flags().StringVar(&path, "config", "", "path of the configuration file (env "+envConfig+")")
	cmd.Flags().BoolVar(&effective, "effective", false, "show the defaults, too")
	outputFlag(cmd, &output)
	cmd.RunE = a.runE(func(_ *cobra.Command, args []string) error {
		if len(args) == 1 {
			path = args[0]
		}
		return a.showConfig(path, output, effective)
	})
	return cmd
}

// shownSetting is how a setting is printed as JSON.
type shownSetting struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Default bool   `json:"default,omitempty"`
}

func (a *app) showConfig(path, output string, effective bool) error {
	out, err := newPrinter(a.stdout, output)
	if err != nil {
		return err
	}
	c, err := loadConfig(path)
	if err != nil {
		return err
	}
	settings, rows := []shownSetting{}, [][2]string{}
	for _, s := range c.Settings() {
		if s.Given || effective {
			settings, rows = append(settings, shownSetting{s.Key, s.Value, !s.Given}), append(rows, [2]string{s.Key, s.Value})
		}
	}
	if !out.forPeople() {
		return out.value(settings)
	}
	return out.pairs(rows)
}

func (a *app) configDiffCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what is different in another configuration file",
		Long: `Show which settings differ between two configuration files, with secrets as ***. The
exit code is 3 if a bridge that runs with OLD can't be reloaded with NEW, because what
has changed needs a restart. To compare with what a bridge runs, use delaybridge reload
--dry-run.`,
		Example: "  delaybridge config diff old.yaml new.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError(fmt.Sprintf("%s takes two arguments, the paths of two configuration files; %d were given", cmd.CommandPath(), len(args)))
			}
			return nil
		},
	}
	outputFlag(cmd, &output)
	cmd.RunE = a.runE(func(_ *cobra.Command, args []string) error { return a.diffConfigs(args[0], args[1], output) })
	return cmd
}

func (a *app) diffConfigs(oldPath, newPath, output string) error {
	out, err := newPrinter(a.stdout, output)
	if err != nil {
		return err
	}
	before, err := loadConfig(oldPath)
	if err != nil {
		return err
	}
	after, err := loadConfig(newPath)
	if err != nil {
		return err
	}
	changes := config.Diff(before, after)
	if out.forPeople() {
		rows := make([][]string, len(changes))
		for n, one := range changes {
			rows[n] = []string{one.Key, one.Kind, one.Old, one.New}
		}
		err = out.changes(rows)
	} else {
		err = out.value(changes)
	}
	if err != nil {
		return err
	}
	return needRestart(before, after, changes)
}

func atMostOneFile(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError(fmt.Sprintf("%s takes one argument, the path of the configuration file; %d were given", cmd.CommandPath(), len(args)))
	}
	return nil
}
