package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"graphql-limit-count/ci/demo"
)

func newDemo() *cobra.Command {
	options := demo.Options{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show it: a demo upstream, a development gateway, a runner and sample requests",
		Long: "demo starts a demo GraphQL upstream, a development gateway that plays APISIX's part, and\n" +
			"a runner; configures the README's example, sends sample requests and stays up until\n" +
			"Ctrl-C. It is a development tool: it listens on loopback, with keys that are public.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			binary, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program's file: %w", err)
			}
			options.Binary, options.Out, options.Log = binary, cmd.OutOrStdout(), cmd.ErrOrStderr()
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return demo.Run(ctx, options)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&options.OneShot, "oneshot", false, "exit after the samples: 0 when every value is the documented one, else 1")
	flags.StringVar(&options.Server, "server", "", "the runner's protocol server, see run --server")
	flags.StringVar(&options.FrontAddr, "front", "127.0.0.1:9080", "address of the gateway")
	flags.StringVar(&options.GatewayAdminAddr, "gateway-admin", "127.0.0.1:9180", "address of the gateway's Admin API")
	flags.StringVar(&options.ShopAddr, "upstream", "127.0.0.1:1980", "address of the upstream")
	flags.StringVar(&options.RunnerAdminAddr, "admin-listen", demo.DefaultRunnerAdminAddr, "address of the runner's admin endpoint")
	withEnvironment(flags)
	return cmd
}
