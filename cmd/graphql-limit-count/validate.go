package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"graphql-limit-count/plugins"
)

func newValidate() *cobra.Command {
	keyring := ""
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a plugin configuration (- reads standard input)",
		Long: "validate checks a plugin configuration: the JSON that goes into the value of an\n" +
			"ext-plugin entry. It prints one line for each fault, naming the field, and exits with\n" +
			"status 1 if there is any.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readFile(cmd, args[0])
			if err != nil {
				return fmt.Errorf("read the configuration: %w", err)
			}
			secrets, err := openSecrets(keyring, zap.NewNop())
			if err != nil {
				return err
			}
			_, err = plugins.ParseConfig(text, secrets)
			var invalid *plugins.ConfigError
			if errors.As(err, &invalid) {
				for _, fault := range invalid.Faults {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", args[0], fault)
				}
				return errSilent
			}
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: valid\n", args[0])
			return err
		},
	}
	addKeyringFlag(cmd.Flags(), &keyring)
	withEnvironment(cmd.Flags())
	return cmd
}

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the plugin configuration",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(plugins.ConfigSchema())
			return err
		},
	}
}

// readFile reads a file, or standard input for "-".
func readFile(cmd *cobra.Command, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(name)
}
