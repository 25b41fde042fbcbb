package e2e_test

import (
	"net/http"
	"strings"
	"time"
)

const (
	// stockSize is how much the stock server reads of a body reliably, in bytes.
	stockSize = 16 << 10
	// hostileTime is within which time a hostile document is refused.
	hostileTime = 100 * time.Millisecond
	// hostileRaceTime is that with the race detector, which slows everything down.
	hostileRaceTime = time.Second
	// hostileTries is how often a document is sent; the machine may be busy, so the
	// quickest answer counts.
	hostileTries = 5
)

// filled is head, as many fills as fit, and tail, in size bytes at most.
func filled(size int, head, fill, tail string) string {
	return head + strings.Repeat(fill, (size-len(head)-len(tail))/len(fill)) + tail
}

func (s *endToEnd) TestAHostileDocumentIsRefusedAtOnce() {
	size, limit := mebibyte, hostileTime
	if s.server == stockServer {
		size = stockSize
	}
	if raceDetector {
		limit = hostileRaceTime
	}
	to, pid := s.route(depthLimit, routing{}), s.runner.PID()
	for _, c := range []struct{ name, head, fill, tail string }{
		{"selection sets that are not closed", "", "{a", ""},
		{"lists that are not closed", "", "[", ""},
		{"lists in an argument that are not closed", "{ a(b: ", "[", ""},
		{"objects that are not closed", "", "{a:", ""},
		{"objects in an argument that are not closed", "{ a(b: ", "{a:", ""},
		{"parentheses that are not closed", "", "a(", ""},
		{"an error at the end of a long line", "", "a ", "!"},
		{"an error after many spaces", "{ a", " ", "!"},
		{"an error after many commas", "{ a", ",", "!"},
		{"an error after many line breaks", "", "\n", "!"},
		{"a string that does not end", `{ a(b: "`, "x", ""},
		{"a block string that does not end", `{ a(b: """`, "x\n", ""},
		{"a name without end", "{ ", "a", " }"},
		{"a number without end", "{ a(b: ", "1", ") }"},
		{"a comment without end", "#", "x", ""},
		{"brackets that close nothing", "", "}", ""},
		{"nesting that is closed", "", "{a", strings.Repeat("}", size/3-1)},
	} {
		s.Run(c.name, func() {
			m := message{contentType: "application/graphql", body: []byte(filled(size, c.head, c.fill, c.tail))}
			quickest := time.Hour
			for try := 0; try == 0 || try < hostileTries && quickest > limit; try++ {
				a := s.send(to, m)
				s.Require().Equal(http.StatusBadRequest, a.status, a.body)
				quickest = min(quickest, a.took)
			}
			s.T().Logf("%d bytes are refused after %s", len(m.body), quickest.Round(time.Microsecond))
			s.LessOrEqual(quickest, limit)
		})
	}
	s.Equal(pid, s.runner.PID())
	s.expect(s.ask(to, fourDeep), http.StatusOK, costHeader, "4", remainingHeader, "6")
}
