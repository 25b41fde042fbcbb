package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"graphql-limit-count/internal/secret"
)

// encryptFlags are the settings of encrypt.
type encryptFlags struct {
	keyring        string
	generate, list bool
}

func newEncrypt() *cobra.Command {
	f := encryptFlags{}
	cmd := &cobra.Command{
		Use:   "encrypt --keyring FILE",
		Short: "Encrypt a credential for a plugin configuration",
		Long: "encrypt reads a credential from standard input (a line break at its end is not part of it)\n" +
			"and prints the reference that stands for it in redis_password, sentinel_password and the\n" +
			"values of introspection_headers. A reference on standard input is encrypted again, under\n" +
			"the keyring's first key; what it stands for is not shown.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // which others on the host see; it is not repeated here
				return errors.New("a secret is read from standard input, not given as an argument")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	addKeyringFlag(flags, &f.keyring)
	withEnvironment(flags)
	flags.BoolVar(&f.generate, "generate", false, "only make a new key the first of the keyring, which is created if it is not there")
	flags.BoolVar(&f.list, "list", false, "only print the ids of the keyring's keys")
	cmd.MarkFlagsMutuallyExclusive("generate", "list")
	return cmd
}

func (f *encryptFlags) run(cmd *cobra.Command) error {
	if f.keyring == "" {
		return errors.New("--keyring is not given")
	}
	if f.generate {
		id, err := secret.Generate(f.keyring, time.Now())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: key %s is new and encrypts from now on\n", f.keyring, id)
		return err
	}
	file, err := secret.OpenKeyring(f.keyring, zap.NewNop())
	if err != nil {
		return err
	}
	if f.list {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(file.Keyring().IDs(), "\n"))
		return err
	}
	reference, err := encryptInput(cmd.InOrStdin(), file.Keyring())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), reference)
	return err
}

// encryptInput encrypts what there is to read.
func encryptInput(input io.Reader, keyring *secret.Keyring) (string, error) {
	// Encrypted again, a reference is longer than what it stands for; more is too much.
	const most = 4 * secret.MaxSecret
	text, err := io.ReadAll(io.LimitReader(input, most))
	if err != nil {
		return "", fmt.Errorf("read the secret from standard input: %w", err)
	}
	plain, line := strings.CutSuffix(string(text), "\n")
	if line {
		plain = strings.TrimSuffix(plain, "\r")
	}
	if secret.IsReference(plain) {
		if plain, err = keyring.Decrypt(plain); err != nil {
			return "", fmt.Errorf("the reference on standard input cannot be read: %w", err)
		}
	}
	return keyring.Encrypt(plain)
}
