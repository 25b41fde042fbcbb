package plugins

import (
	"bytes"
	"encoding/json"
	"errors"
)

var errNoJSON = errors.New("the text is no JSON")

// jsonFault says what makes text no JSON, or what follows the value.
func jsonFault(text []byte) error {
	var ignored json.RawMessage
	if err := json.Unmarshal(text, &ignored); err != nil {
		return err
	}
	return errNoJSON
}

// trimJSON cuts insignificant white space.
func trimJSON(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }
