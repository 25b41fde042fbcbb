package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"graphql-limit-count/cost"
	"graphql-limit-count/decorations"
	"graphql-limit-count/decorations/remote"
)

// suggestFlags are the settings of suggest.
type suggestFlags struct {
	schema, endpoint, caFile, service string
	headers                           []string
	options                           decorations.SuggestOptions
}

func newSuggest() *cobra.Command {
	var f suggestFlags
	cmd := &cobra.Command{
		Use:   "suggest",
		Short: "Propose decorations for a schema, as YAML to review",
		Long: "suggest reads a schema and proposes decorations for every field that pages and for\n" +
			"mutations, each with a comment that says why. It writes nothing: review what it prints,\n" +
			"keep it in a file, and push that.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.schema, "schema", "", "file with the schema, SDL or introspection JSON; - reads standard input")
	flags.StringVar(&f.endpoint, "endpoint", "", "URL of a GraphQL server to introspect instead")
	flags.StringArrayVar(&f.headers, "header", nil, "header for the introspection, 'Name: value'; may be repeated")
	flags.StringVar(&f.caFile, "ca-file", "", "certificates (PEM) that the server's is checked against; by default the system's")
	flags.StringVar(&f.service, "service", "", "id of the service, written into the file")
	flags.IntVar(&f.options.AssumedSize, "assumed-size", decorations.DefaultAssumedSize, "records that a field is taken to return where no paginating argument is given and no default declared")
	flags.IntVar(&f.options.MutationCost, "mutation-cost", decorations.DefaultMutationCost, "what a mutation costs itself; 0 suggests nothing for mutations")
	flags.BoolVar(&f.options.EachMutation, "each-mutation", false, "charge --mutation-cost for each field of a mutation, instead of once per operation")
	return cmd
}

func (f *suggestFlags) run(cmd *cobra.Command) error {
	if f.options.AssumedSize <= 0 || f.options.MutationCost < 0 {
		return errors.New("--assumed-size must be above 0, and --mutation-cost not below")
	}
	source, text, err := f.read(cmd)
	if err != nil {
		return err
	}
	outline, err := cost.ReadOutline(text)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	set := decorations.Suggest(outline, f.options)
	set.ServiceID = f.service
	yaml, err := set.YAML()
	if err != nil {
		return err
	}
	command := "graphql-limit-count decorations push FILE"
	if f.service == "" { // else the file says it
		command += " --service ID"
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "# %d decorations suggested for %s. Review them, then push this file:\n#   %s\n%s",
		len(set.Decorations), strings.ReplaceAll(source, "\n", " "), command, yaml)
	return err
}

// read returns the schema's text and what it is called.
func (f *suggestFlags) read(cmd *cobra.Command) (source string, text []byte, err error) {
	switch {
	case (f.schema == "") == (f.endpoint == ""):
		return "", nil, errors.New("give either --schema or --endpoint")
	case f.schema == "-":
		source = "standard input"
	case f.schema != "":
		source = f.schema
	default:
		header, err := parseHeaders(f.headers)
		if err != nil {
			return "", nil, err
		}
		text, err = remote.Introspect(cmd.Context(), remote.IntrospectConfig{Endpoint: f.endpoint, Header: header, CAFile: f.caFile})
		shown, _, _ := strings.Cut(f.endpoint, "?") // what follows may be a credential
		return shown, text, err
	}
	if text, err = readFile(cmd, f.schema); err != nil {
		return "", nil, fmt.Errorf("read the schema: %w", err)
	}
	return source, text, nil
}

// parseHeaders reads headers as curl takes them. An error does not repeat a value, which may
// be a credential.
func parseHeaders(lines []string) (http.Header, error) {
	header := http.Header{}
	for i, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
			return nil, fmt.Errorf("--header %d is not of the form 'Name: value'", i+1)
		}
		header.Add(name, value)
	}
	return header, nil
}
