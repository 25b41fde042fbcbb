// Command graphql-limit-count is a plugin runner for Apache APISIX with the plugin
// graphql-limit-count, an admin endpoint for its cost decorations, and the tools
// around them.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// version is set by the build (-ldflags -X main.version=...).
var version = "development"

// errSilent ends the command with status 1; what was wrong has been printed.
var errSilent = errors.New("failed")

// trouble ends the command with status 2, where 1 is an answer, as in diff(1).
type trouble struct{ error }

// Unwrap returns what went wrong.
func (t trouble) Unwrap() error { return t.error }

const exitTrouble = 2

func main() {
	if err := newRoot().Execute(); err != nil {
		if !errors.Is(err, errSilent) {
			fmt.Fprintln(os.Stderr, "graphql-limit-count: "+err.Error())
		}
		if errors.As(err, &trouble{}) {
			os.Exit(exitTrouble)
		}
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "graphql-limit-count",
		Short: "Rate-limit GraphQL at Apache APISIX by what queries cost",
		Long: "graphql-limit-count is a plugin runner for Apache APISIX. It charges GraphQL requests by\n" +
			"what they cost, enforces a ceiling per query and a quota per client, and reports both\n" +
			"in response headers.",
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags()) },
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.AddCommand(newRun(), newDemo(), newCost(), newValidate(), newEncrypt(), newDecorations(), newSchema(), newVersion())
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "graphql-limit-count "+version)
			return err
		},
	}
}
