package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"graphql-limit-count/internal/secret"
	"graphql-limit-count/plugins"
)

// addKeyringFlag adds --keyring.
func addKeyringFlag(flags *pflag.FlagSet, path *string) {
	flags.StringVar(path, "keyring", "", "file with the keys of encrypted texts ($aes://...) in configurations; the first encrypts, all decrypt")
}

// openSecrets returns what decrypts texts under the keyring at path, nil without a path.
func openSecrets(path string, log *zap.Logger) (plugins.Secrets, error) {
	if path == "" {
		return nil, nil
	}
	keyring, err := secret.OpenKeyring(path, log)
	if err != nil {
		return nil, fmt.Errorf("--keyring: %w", err)
	}
	return keyring.Decrypt, nil
}
