package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// environmentPrefix begins the environment variable of a flag: --admin-key is
// GRAPHQL_LIMIT_COUNT_ADMIN_KEY.
const environmentPrefix = "GRAPHQL_LIMIT_COUNT_"

// apisixEnvironment are the flags whose variables APISIX itself sets for a runner
// that it starts.
var apisixEnvironment = map[string]string{
	"listen":      "APISIX_LISTEN_ADDRESS",
	"conf-expire": "APISIX_CONF_EXPIRE_TIME",
}

// environmentName is the environment variable of a flag.
func environmentName(flag string) string {
	if name, ok := apisixEnvironment[flag]; ok {
		return name
	}
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// withEnvironment adds each flag's environment variable to its description.
func withEnvironment(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		f.Usage += " (env " + environmentName(f.Name) + ")"
	})
}

// fromEnvironment sets the flags that were not given from their environment
// variables; an empty variable counts as none.
func fromEnvironment(flags *pflag.FlagSet) error {
	var failed error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || failed != nil || !strings.Contains(f.Usage, "(env ") {
			return
		}
		value := os.Getenv(environmentName(f.Name))
		if value == "" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			failed = fmt.Errorf("environment variable %s: %w", environmentName(f.Name), err)
		}
	})
	return failed
}
