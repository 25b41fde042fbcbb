package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"graphql-limit-count/cost"
	"graphql-limit-count/decorations"
)

// costRequest is one line of cost --jsonl, and what the flags of cost stand for.
type costRequest struct {
	Strategy         cost.Strategy     `json:"strategy"`
	Schema           *string           `json:"schema"`
	Decorations      []cost.Decoration `json:"decorations"`
	Query            *string           `json:"query"`
	Variables        variables         `json:"variables"`
	OperationName    operationName     `json:"operationName"`
	ResolveVariables *bool             `json:"resolve_variables"`
	ScoreFactor      *float64          `json:"score_factor"`
}

// variables are a request's; as in a request, what is no object is ignored.
type variables map[string]json.RawMessage

// UnmarshalJSON reads an object.
func (v *variables) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return nil
	}
	return json.Unmarshal(text, (*map[string]json.RawMessage)(v))
}

// operationName is a request's; as in a request, what is no string is ignored.
type operationName string

// UnmarshalJSON reads a string.
func (n *operationName) UnmarshalJSON(text []byte) error {
	if text[0] != '"' {
		return nil
	}
	return json.Unmarshal(text, (*string)(n))
}

// costResult is what a query costs.
type costResult struct {
	Raw     json.RawMessage `json:"raw"`
	Charged int64           `json:"charged"`
}

func newCost() *cobra.Command {
	var (
		jsonl                   bool
		strategy, schema, model string
		values, operation       string
		scoreFactor             float64
		resolveVariables        bool
	)
	cmd := &cobra.Command{
		Use:   "cost QUERYFILE",
		Short: "Print what a query costs",
		Long: "cost prints the raw and the charged cost of the query in QUERYFILE (- reads standard\n" +
			"input), as the plugin computes them.\n\n" +
			"cost --jsonl reads one JSON object a line from standard input, with the members\n" +
			"strategy, schema (SDL or introspection JSON, as text), decorations, query, variables,\n" +
			"operationName, resolve_variables and score_factor, of which only query is required,\n" +
			"and prints {\"raw\":n,\"charged\":n} or {\"error\":\"...\"} for each.",
		Args: func(_ *cobra.Command, args []string) error {
			if jsonl && len(args) > 0 {
				return errors.New("--jsonl reads standard input and takes no file")
			}
			if !jsonl && len(args) != 1 {
				return errors.New("name one file with a query")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if jsonl {
				return costLines(cmd.InOrStdin(), cmd.OutOrStdout())
			}
			request := costRequest{
				Strategy: cost.Strategy(strategy), OperationName: operationName(operation),
				ResolveVariables: &resolveVariables, ScoreFactor: &scoreFactor,
			}
			if err := request.read(cmd, args[0], schema, model, values); err != nil {
				return err
			}
			result, err := request.cost()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "raw %s\ncharged %d\n", result.Raw, result.Charged)
			return err
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&jsonl, "jsonl", false, "read JSON objects from standard input, one a line")
	flags.StringVar(&strategy, "strategy", string(cost.Depth), "depth, complexity or node_quantifier")
	flags.StringVar(&schema, "schema", "", "file with the schema, SDL or introspection JSON")
	flags.StringVar(&model, "decorations", "", "file with decorations, as YAML or JSON")
	flags.StringVar(&values, "variables", "", "the request's variables, a JSON object")
	flags.StringVar(&operation, "operation", "", "name of the operation")
	flags.Float64Var(&scoreFactor, "score-factor", 1, "multiplies the raw cost; > 0")
	flags.BoolVar(&resolveVariables, "resolve-variables", true, "count variables and declared defaults")
	return cmd
}

// read fills in what the command line names by file or as JSON.
func (r *costRequest) read(cmd *cobra.Command, query, schema, model, values string) error {
	text, err := readFile(cmd, query)
	if err != nil {
		return fmt.Errorf("read the query: %w", err)
	}
	document := string(text)
	r.Query = &document
	if schema != "" {
		if text, err = readFile(cmd, schema); err != nil {
			return fmt.Errorf("read the schema: %w", err)
		}
		sdl := string(text)
		r.Schema = &sdl
	}
	if model != "" {
		if text, err = readFile(cmd, model); err != nil {
			return fmt.Errorf("read the decorations: %w", err)
		}
		if r.Decorations, err = readDecorations(text); err != nil {
			return fmt.Errorf("read the decorations in %s: %w", model, err)
		}
	}
	if values != "" {
		if err := json.Unmarshal([]byte(values), (*map[string]json.RawMessage)(&r.Variables)); err != nil {
			return fmt.Errorf("read the variables: %w", err)
		}
	}
	return nil
}

// readDecorations reads a JSON array of decorations, whatever other members they have, or a
// set as decorations pull prints it.
func readDecorations(text []byte) ([]cost.Decoration, error) {
	var list []cost.Decoration
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		err := json.Unmarshal(text, &list)
		return list, err
	}
	set, err := decorations.Parse(text)
	if err != nil {
		return nil, err
	}
	for _, d := range set.Decorations {
		var decoration cost.Decoration
		if err := json.Unmarshal(d.Value, &decoration); err != nil {
			return nil, fmt.Errorf("line %d: %w", d.Line, err)
		}
		list = append(list, decoration)
	}
	return list, nil
}

// cost computes what the request's query costs.
func (r *costRequest) cost() (costResult, error) {
	strategy, factor, resolve := r.Strategy, 1.0, true
	if strategy == "" {
		strategy = cost.Depth
	}
	if r.ScoreFactor != nil {
		factor = *r.ScoreFactor
	}
	if r.ResolveVariables != nil {
		resolve = *r.ResolveVariables
	}
	switch {
	case !strategy.Valid():
		return costResult{}, fmt.Errorf("strategy %q is none of depth, complexity and node_quantifier", strategy)
	case !(factor > 0):
		return costResult{}, errors.New("score_factor must be greater than 0")
	case r.Query == nil:
		return costResult{}, errors.New("query is missing")
	}
	model, err := cost.NewModel(r.Decorations)
	if err != nil {
		return costResult{}, fmt.Errorf("decorations: %w", err)
	}
	options := cost.Options{
		Strategy: strategy, Model: model, OperationName: string(r.OperationName),
		Variables: resolve, Defaults: resolve,
	}
	if r.Schema != nil {
		if options.Schema, err = cost.ParseSchema([]byte(*r.Schema)); err != nil {
			return costResult{}, fmt.Errorf("schema: %w", err)
		}
	}
	document, err := cost.Parse(*r.Query, cost.Limits{})
	if err != nil {
		return costResult{}, err
	}
	plan, err := document.Compile(options)
	if err != nil {
		return costResult{}, err
	}
	raw := plan.CostJSON(r.Variables)
	return costResult{
		Raw:     json.RawMessage(strconv.FormatFloat(raw, 'f', -1, 64)),
		Charged: cost.Charged(strategy, raw, factor),
	}, nil
}

// costLines answers each line of in with a line of out, whatever the line holds.
func costLines(in io.Reader, out io.Writer) error {
	lines, results := bufio.NewReader(in), bufio.NewWriter(out)
	for {
		line, readErr := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := writeLine(results, costLine(bytes.TrimSpace(line))); err != nil {
				return fmt.Errorf("write a result: %w", err)
			}
		}
		if readErr != nil {
			if !errors.Is(readErr, io.EOF) {
				return fmt.Errorf("read a line: %w", readErr)
			}
			return results.Flush()
		}
		// A caller that waits for each answer gets it; one that does not, a full buffer.
		if lines.Buffered() == 0 {
			if err := results.Flush(); err != nil {
				return fmt.Errorf("write a result: %w", err)
			}
		}
	}
}

func costLine(line []byte) any {
	var request costRequest
	if err := json.Unmarshal(line, &request); err != nil {
		return costFailure{"malformed line: " + err.Error()}
	}
	result, err := request.cost()
	if err != nil {
		return costFailure{err.Error()}
	}
	return result
}

// costFailure is why a query has no cost.
type costFailure struct {
	Error string `json:"error"`
}

func writeLine(out *bufio.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	return out.WriteByte('\n')
}
