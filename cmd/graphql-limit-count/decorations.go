package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"graphql-limit-count/decorations"
	"graphql-limit-count/decorations/remote"
)

func newDecorations() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "decorations",
		Short: "Keep a service's cost decorations in a file",
		Long: "decorations reads and writes the whole set of a service's cost decorations through the\n" +
			"admin endpoint, as a file that people keep next to their code, and suggests one for a\n" +
			"schema.",
	}
	cmd.AddCommand(newPull(), newPush(), newDiff(), newSuggest())
	return cmd
}

// endpointFlags say which admin endpoint, and which service of it.
type endpointFlags struct {
	url, key, keyFile, caFile string
	service                   string
}

func (f *endpointFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.service, "service", "", "id of the service; a file may name it as service_id")
	flags.StringVar(&f.url, "url", remote.DefaultURL, "the admin endpoint")
	flags.StringVar(&f.key, "key", "", "key of the admin endpoint; by default $"+environmentName("admin-key")+", which other users cannot see in the list of processes")
	flags.StringVar(&f.keyFile, "key-file", "", "file with the key, such as /var/lib/graphql-limit-count/"+adminKeyFile)
	flags.StringVar(&f.caFile, "ca-file", "", "certificates (PEM) that the endpoint's is checked against; by default the system's")
}

// client returns the client of the endpoint.
func (f *endpointFlags) client() (*remote.Client, error) {
	key := f.key
	switch {
	case key != "" && f.keyFile != "":
		return nil, errors.New("give either --key or --key-file")
	case f.keyFile != "":
		var err error
		if key, err = readKey(f.keyFile); err != nil {
			return nil, err
		}
	case key == "":
		key = os.Getenv(environmentName("admin-key"))
	}
	if key == "" {
		return nil, fmt.Errorf("no key: give --key-file, --key or $%s", environmentName("admin-key"))
	}
	return remote.New(remote.Config{URL: f.url, Key: key, CAFile: f.caFile})
}

// serviceOf is the service that is meant: the flag's, else the file's.
func (f *endpointFlags) serviceOf(set decorations.Set) (string, error) {
	switch {
	case f.service == "" && set.ServiceID == "":
		return "", errors.New("no service: give --service")
	case f.service != "" && set.ServiceID != "" && f.service != set.ServiceID:
		return "", fmt.Errorf("the file is of service %s, --service is %s", set.ServiceID, f.service)
	case f.service != "":
		return f.service, nil
	}
	return set.ServiceID, nil
}

func newPull() *cobra.Command {
	var endpoint endpointFlags
	cmd := &cobra.Command{
		Use:   "pull",
		Short: "Print a service's decorations as YAML",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			service, err := endpoint.serviceOf(decorations.Set{})
			if err != nil {
				return err
			}
			client, err := endpoint.client()
			if err != nil {
				return err
			}
			defer client.Close()
			set, err := client.Pull(cmd.Context(), service)
			if err != nil {
				return err
			}
			warnLeftOut(cmd, set)
			text, err := set.YAML()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	endpoint.add(cmd)
	return cmd
}

// warnLeftOut tells what the store holds that is no valid decoration.
func warnLeftOut(cmd *cobra.Command, set decorations.Set) {
	for _, l := range set.LeftOut {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+l.String())
	}
}

// fileFlags say how a file with decorations is read.
type fileFlags struct{ format, kongService string }

func (f *fileFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", string(decorations.FormatAuto), "of the file: auto, yaml, json, sdl (@cost and @listSize) or kong (graphql-rate-limiting-advanced)")
	flags.StringVar(&f.kongService, "kong-service", "", "id of the service in Kong, where the file has several")
}

// read reads a file and tells what could not be taken over.
func (f *fileFlags) read(cmd *cobra.Command, name string) (decorations.Set, error) {
	text, err := readFile(cmd, name)
	if err != nil {
		return decorations.Set{}, fmt.Errorf("read the decorations: %w", err)
	}
	set, notes, err := decorations.Read(text, decorations.ReadOptions{
		Format: decorations.Format(f.format), Name: name, KongService: f.kongService,
	})
	if err != nil {
		return decorations.Set{}, fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprint(cmd.ErrOrStderr(), decorations.FormatNotes(notes))
	if len(set.Decorations) == 0 && len(notes) > 0 {
		// An empty set removes every decoration; one that is written out may mean that.
		return decorations.Set{}, fmt.Errorf("%s: nothing in it could be mapped", name)
	}
	return set, nil
}

const fileFormats = "FILE (- reads standard input) is YAML or JSON as pull prints it, SDL with the directives\n" +
	"@cost and @listSize, or an export of the cost decorations of Kong's\n" +
	"graphql-rate-limiting-advanced. What could not be mapped is told on standard error."

func newPush() *cobra.Command {
	var (
		endpoint endpointFlags
		file     fileFlags
		dryRun   bool
	)
	cmd := &cobra.Command{
		Use:   "push FILE",
		Short: "Make a service's decorations those of a file",
		Long: "push makes the decorations of a service those of FILE, all or nothing: what the file does\n" +
			"not have is removed. It prints what that changed.\n\n" + fileFormats,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := file.read(cmd, args[0])
			if err != nil {
				return err
			}
			service, err := endpoint.serviceOf(set)
			if err != nil {
				return err
			}
			client, err := endpoint.client()
			if err != nil {
				return err
			}
			defer client.Close()
			result, err := client.Push(cmd.Context(), service, set, dryRun)
			if err != nil {
				return err
			}
			for _, warning := range result.Warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+warning)
			}
			end := ""
			if result.DryRun {
				end = "nothing was written (--dry-run)\n"
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), result.Changes, end)
			return err
		},
	}
	endpoint.add(cmd)
	file.add(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would change and write nothing")
	return cmd
}

func newDiff() *cobra.Command {
	var (
		endpoint endpointFlags
		file     fileFlags
	)
	cmd := &cobra.Command{
		Use:   "diff FILE",
		Short: "Print what push would change",
		Long: "diff prints what push would change. A viewer key is enough. It exits with 0 when nothing\n" +
			"would change, with 1 when something would, and with 2 when that cannot be told.\n\n" + fileFormats,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			changes, err := difference(cmd, &endpoint, &file, args[0])
			if err != nil {
				return trouble{err}
			}
			if _, err := fmt.Fprint(cmd.OutOrStdout(), changes); err != nil {
				return trouble{err}
			}
			if changes.Empty() {
				return nil
			}
			return errSilent
		},
	}
	endpoint.add(cmd)
	file.add(cmd)
	return cmd
}

func difference(cmd *cobra.Command, endpoint *endpointFlags, file *fileFlags, name string) (decorations.Changes, error) {
	wanted, err := file.read(cmd, name)
	if err != nil {
		return decorations.Changes{}, err
	}
	service, err := endpoint.serviceOf(wanted)
	if err != nil {
		return decorations.Changes{}, err
	}
	client, err := endpoint.client()
	if err != nil {
		return decorations.Changes{}, err
	}
	defer client.Close()
	current, err := client.Pull(cmd.Context(), service)
	if err != nil {
		return decorations.Changes{}, err
	}
	warnLeftOut(cmd, current)
	current = current.Whole()
	made := 0
	makeID := func(string) string { made++; return fmt.Sprintf("new %d", made) } // no id has a space
	if _, err := wanted.WithIDs(current, makeID); err != nil {
		return decorations.Changes{}, err // what push would be refused for
	}
	return decorations.Diff(current, wanted), nil
}
