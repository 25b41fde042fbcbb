package plugins

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// MaxQuantity is the largest quota and window: 2^53-1, the largest whole number that
// float64, and so every reader of JSON, keeps exact.
const MaxQuantity = 1<<53 - 1

// Milliseconds is a time span in a configuration.
type Milliseconds int64

// Duration returns the span. Spans beyond what time.Duration holds (292 years) become
// the longest one.
func (m Milliseconds) Duration() time.Duration {
	return scale(float64(m), time.Millisecond)
}

// Seconds is a time span in a configuration; -1 stands for "off" where the field says
// so.
type Seconds float64

// Duration returns the span, as Milliseconds.Duration does. The span of a negative
// number is 0.
func (s Seconds) Duration() time.Duration {
	return scale(float64(s), time.Second)
}

func scale(n float64, unit time.Duration) time.Duration {
	switch product := n * float64(unit); {
	case product <= 0:
		return 0
	case product >= math.MaxInt64:
		return math.MaxInt64
	default:
		return time.Duration(math.Round(product))
	}
}

// Quantity is a whole number from 1 to MaxQuantity, or a template whose variables
// give one per request. The zero value stands for absence.
type Quantity struct {
	number   int64
	template *Template
}

// IsSet reports whether the configuration has the quantity.
func (q Quantity) IsSet() bool { return q.number > 0 || q.template != nil }

// Fixed returns the number and true when the configuration gives it as a number.
func (q Quantity) Fixed() (int64, bool) { return q.number, q.number > 0 }

// Names returns the names of the variables that Resolve looks up.
func (q Quantity) Names() []string {
	if q.template == nil {
		return nil
	}
	return q.template.Names()
}

// Resolve returns the quantity for a request whose variables lookup tells. The error
// says why the template's value is no quantity.
func (q Quantity) Resolve(lookup Lookup) (int64, error) {
	if q.template == nil {
		return q.number, nil
	}
	text, _ := q.template.Resolve(lookup)
	return parseQuotaNumber(text)
}

// UnmarshalJSON reads a number or a template.
func (q *Quantity) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		var template string
		if err := json.Unmarshal(text, &template); err != nil {
			return fmt.Errorf("read a template: %w", err)
		}
		*q = Quantity{template: ParseTemplate(template)}
		return nil
	}
	var number int64
	if err := json.Unmarshal(text, &number); err != nil {
		return fmt.Errorf("read a whole number: %w", err)
	}
	*q = Quantity{number: number}
	return nil
}
