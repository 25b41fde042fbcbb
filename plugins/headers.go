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

// headerList collects headers of the response. Their values lie one behind the other,
// so that all of them together become one string.
type headerList struct {
	names []headerName
	text  []byte
}

// headerName is a header's name and where its value ends; it begins where the one
// before ends.
type headerName struct {
	name string
	end  int
}

// end makes what was written to text since the last header the value of one.
func (l *headerList) end(name string) {
	l.names = append(l.names, headerName{name, len(l.text)})
}

func (l *headerList) add(name, value string) {
	l.text = append(l.text, value...)
	l.end(name)
}

func (l *headerList) number(name string, n int64) {
	l.text = strconv.AppendInt(l.text, n, 10)
	l.end(name)
}

// quota adds the headers of a charge.
func (l *headerList) quota(names *headerNames, r limiter.Result) {
	if names.limit != "" {
		l.number(names.limit, r.Limit)
	}
	if names.remaining != "" {
		l.number(names.remaining, r.Remaining)
	}
	if names.reset != "" {
		l.text = appendReset(l.text, r.Reset)
		l.end(names.reset)
	}
}

// standard adds the standard headers, if a quota was charged.
func (l *headerList) standard(s *standardHeaders) {
	if s.policy != "" {
		l.add(headerPolicy, s.policy)
		l.add(headerLimit, s.limit)
	}
}

// set sets the headers under exactly their names: APISIX's own are spelled
// X-RateLimit-*, which http.Header.Set would change.
func (l *headerList) set(to http.Header) {
	if len(l.names) == 0 {
		return
	}
	text, start := string(l.text), 0
	values := make([]string, len(l.names))
	for i, h := range l.names {
		values[i] = text[start:h.end]
		to[h.name] = values[i : i+1 : i+1]
		start = h.end
	}
}

// headerNames are what the headers of a quota are called; an empty name is left out.
type headerNames struct{ limit, remaining, reset string }

// prefixed are the names for a rule: its prefix before the first "RateLimit-", as
// in X-gold-RateLimit-Limit; a name without that stays as it is.
func (n headerNames) prefixed(prefix string) headerNames {
	put := func(name string) string { return strings.Replace(name, rulePrefixMark, prefix+"-"+rulePrefixMark, 1) }
	return headerNames{put(n.limit), put(n.remaining), put(n.reset)}
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

// appendReset writes a time span in seconds with at most two decimals, the rest cut
// off, without trailing zeros, as APISIX prints it.
func appendReset(to []byte, d time.Duration) []byte {
	const unit = 10 * time.Millisecond
	hundredths := int64(d / unit)
	to = strconv.AppendInt(to, hundredths/100, 10)
	rest := byte(hundredths % 100)
	if rest == 0 {
		return to
	}
	to = append(to, '.', '0'+rest/10)
	if rest%10 == 0 {
		return to
	}
	return append(to, '0'+rest%10)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

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
