package plugins

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"graphql-limit-count/limiter"
)

const (
	headerCost     = "X-Graphql-Query-Cost"
	headerDecision = "X-Graphql-Limit-Decision"
	// rulePrefixMark is where a rule's prefix goes in a header's name.
	rulePrefixMark = "RateLimit-"
)

// header is one header of the response.
type header struct{ name, value string }

// headerNames are what the headers of a quota are called; an empty name is left out.
type headerNames struct{ limit, remaining, reset string }

// prefixed are the names for a rule: its prefix before the first "RateLimit-", as
// in X-gold-RateLimit-Limit; a name without that stays as it is.
func (n headerNames) prefixed(prefix string) headerNames {
	put := func(name string) string { return strings.Replace(name, rulePrefixMark, prefix+"-"+rulePrefixMark, 1) }
	return headerNames{put(n.limit), put(n.remaining), put(n.reset)}
}

// append adds the headers of a charge.
func (n headerNames) append(to []header, r limiter.Result) []header {
	for _, h := range [...]header{
		{n.limit, itoa(r.Limit)}, {n.remaining, itoa(r.Remaining)}, {n.reset, formatReset(r.Reset)},
	} {
		if h.name != "" {
			to = append(to, h)
		}
	}
	return to
}

// formatReset is a time span in seconds with at most two decimals, the rest cut off,
// without trailing zeros, as APISIX prints it.
func formatReset(d time.Duration) string {
	const unit = 10 * time.Millisecond
	hundredths := int64(d / unit)
	text := itoa(hundredths / 100)
	switch rest := hundredths % 100; {
	case rest == 0:
		return text
	case rest%10 == 0:
		return text + "." + itoa(rest/10)
	case rest < 10:
		return text + ".0" + itoa(rest)
	default:
		return text + "." + itoa(rest)
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// setHeaders sets headers under exactly their names: APISIX's own are spelled
// X-RateLimit-*, which http.Header.Set would change.
func setHeaders(to http.Header, headers []header) {
	values := make([]string, len(headers))
	for i, h := range headers {
		values[i] = h.value
		to[h.name] = values[i : i+1 : i+1]
	}
}

// observedDecision is what X-Graphql-Limit-Decision says.
func observedDecision(o outcome) string {
	switch o {
	case observedCost:
		return "max_cost"
	case observedQuota:
		return "quota"
	default:
		return "pass"
	}
}

func joinMethods(methods []string) string { return strings.Join(methods, ", ") }
