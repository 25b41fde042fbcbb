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
	headerPolicy   = "RateLimit-Policy"
	headerLimit    = "RateLimit"
	// singlePolicy is what RateLimit-Policy calls the quota of a configuration
	// without rules; that of a rule is called like its headers' prefix.
	singlePolicy = "default"
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

// standardHeaders are RateLimit-Policy and RateLimit of
// draft-ietf-httpapi-ratelimit-headers-10: lists (RFC 9651) with an item for each
// quota that was charged.
type standardHeaders struct{ policy, limit string }

// maxStructuredInteger is the largest integer of a structured field (RFC 9651,
// section 3.3.1).
const maxStructuredInteger = 999_999_999_999_999

// add adds the items of a charge. Names are HTTP tokens, which need no escape in a
// quoted string.
func (s *standardHeaders) add(name string, windowSeconds int64, r limiter.Result) {
	if s.policy != "" {
		s.policy += ", "
		s.limit += ", "
	}
	name = `"` + name + `"`
	s.policy += name + ";q=" + structuredInteger(r.Limit) + ";w=" + structuredInteger(windowSeconds)
	s.limit += name + ";r=" + structuredInteger(r.Remaining) + ";t=" + structuredInteger(ceilSeconds(r.Reset))
}

// append adds the headers, if a quota was charged.
func (s *standardHeaders) append(to []header) []header {
	if s.policy == "" {
		return to
	}
	return append(to, header{headerPolicy, s.policy}, header{headerLimit, s.limit})
}

func structuredInteger(n int64) string { return itoa(min(n, maxStructuredInteger)) }

// ceilSeconds is a time span in whole seconds, rounded up, so that waiting that long
// is long enough.
func ceilSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
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
