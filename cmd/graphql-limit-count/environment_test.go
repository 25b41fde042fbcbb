package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// withFlags is a command with a flag of its own for each case.
func withFlags() (*cobra.Command, *int, *string) {
	cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return nil }}
	number := cmd.Flags().Int("max-conns", 7, "how many")
	address := cmd.Flags().String("listen", "nowhere", "where")
	withEnvironment(cmd.Flags())
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags()) }
	return cmd, number, address
}

func TestAFlagComesFromTheCommandLineElseTheEnvironmentElseItsDefault(t *testing.T) {
	for _, c := range []struct {
		name, environment string
		arguments         []string
		want              int
	}{
		{"neither", "", nil, 7},
		{"the environment", "8", nil, 8},
		{"the command line", "", []string{"--max-conns=9"}, 9},
		{"the command line before the environment", "8", []string{"--max-conns=9"}, 9},
		{"also where it names the default", "8", []string{"--max-conns=7"}, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GRAPHQL_LIMIT_COUNT_MAX_CONNS", c.environment)
			cmd, number, _ := withFlags()
			cmd.SetArgs(append([]string{}, c.arguments...))
			require.NoError(t, cmd.Execute())
			require.Equal(t, c.want, *number)
		})
	}
}

func TestWhatAPISIXSetsKeepsAPISIXsName(t *testing.T) {
	t.Setenv("APISIX_LISTEN_ADDRESS", "unix:/run/a.sock")
	t.Setenv("GRAPHQL_LIMIT_COUNT_LISTEN", "unix:/run/b.sock")
	cmd, _, address := withFlags()
	cmd.SetArgs([]string{})
	require.NoError(t, cmd.Execute())
	require.Equal(t, "unix:/run/a.sock", *address)
}

func TestABadValueInTheEnvironmentIsRefusedByItsName(t *testing.T) {
	t.Setenv("GRAPHQL_LIMIT_COUNT_MAX_CONNS", "many")
	require.ErrorContains(t, execute("", "run").err,
		`environment variable GRAPHQL_LIMIT_COUNT_MAX_CONNS: invalid argument "many"`)
}

func TestEveryFlagOfRunNamesItsVariable(t *testing.T) {
	newRun().Flags().VisitAll(func(f *pflag.Flag) {
		require.Contains(t, f.Usage, "(env "+environmentName(f.Name)+")")
	})
}
