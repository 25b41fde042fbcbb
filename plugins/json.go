package plugins

import (
	"graphql-limit-count/internal/cjson"
)

// jsonFault says what makes text no JSON, or what follows the value.
func jsonFault(text []byte) string {
	if fault := cjson.Fault(text); fault != "" {
		return fault
	}
	return "the text is no JSON"
}
