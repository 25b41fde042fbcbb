package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bytedance/sonic"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	gojson "github.com/goccy/go-json"
	"github.com/tidwall/gjson"
)

// decoded is what a JSON library makes of a request's body.
type decoded struct {
	Query         string          `json:"query"`
	OperationName string          `json:"operationName"`
	Variables     json.RawMessage `json:"variables"`
}

// jsonLibraries read a request's body, each as its documentation says to do it fast. None is
// as strict as the filter: jsonv2 alone refuses repeated members, and no library a name that
// is there in another case as well.
var jsonLibraries = []struct {
	name   string
	decode func(body []byte, to *decoded) error
}{
	{"std", func(body []byte, to *decoded) error { return json.Unmarshal(body, to) }},
	{"jsonv2", decodeV2},
	{"goccy", func(body []byte, to *decoded) error { return gojson.Unmarshal(body, to) }},
	{"sonic", func(body []byte, to *decoded) error { return sonic.Unmarshal(body, to) }},
	{"gjson", decodeGJSON},
}

func decodeV2(body []byte, to *decoded) error {
	var d struct {
		Query         string         `json:"query"`
		OperationName string         `json:"operationName"`
		Variables     jsontext.Value `json:"variables"`
	}
	if err := jsonv2.Unmarshal(body, &d, jsonv2.RejectUnknownMembers(false)); err != nil {
		return err
	}
	*to = decoded{d.Query, d.OperationName, json.RawMessage(d.Variables)}
	return nil
}

// decodeGJSON checks first, for gjson reads on through what is no JSON.
func decodeGJSON(body []byte, to *decoded) error {
	if !gjson.ValidBytes(body) {
		return errors.New("the body is no JSON")
	}
	members := gjson.GetManyBytes(body, "query", "operationName", "variables")
	*to = decoded{members[0].String(), members[1].String(), json.RawMessage(members[2].Raw)}
	return nil
}

// bodies compares the whole filter with what JSON libraries need for nothing but reading
// the same body: the query, the name of the operation and the variables as they stand.
func (b *bench) bodies(ctx context.Context) error {
	b.heading("The whole filter against JSON libraries that only read the body", comparisonColumns...)
	f, err := newFilter(quantifierConf)
	if err != nil {
		return err
	}
	defer f.close()
	for _, size := range []struct {
		suffix string
		body   []byte
	}{{"", wireRequestBody()}, {"_2kb", requestBody(listing(lists2KB), listingVariables)}} {
		var want decoded
		if err := json.Unmarshal(size.body, &want); err != nil {
			return fmt.Errorf("reading a body: %w", err)
		}
		ours := f.operation(newRequest(size.body, mediaJSON))
		for _, library := range jsonLibraries {
			name := "filter_hit" + size.suffix + "_vs_json_" + library.name
			theirs := func() error {
				var got decoded
				if err := library.decode(size.body, &got); err != nil {
					return err
				}
				if got.Query != want.Query || got.OperationName != want.OperationName || string(got.Variables) != string(want.Variables) {
					return errors.New("the body is read as something else")
				}
				return nil
			}
			c, err := compare(ctx, b.schedule, repeat(ours), repeat(theirs))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			b.comparison(name, c)
		}
	}
	return nil
}
