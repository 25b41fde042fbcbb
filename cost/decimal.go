package cost

import (
	"math"
	"strconv"
)

// Decimal numbers are converted by hand as far as needed to bound the time it
// takes: strconv.ParseFloat alone spends up to 30 us on one that is at the edge
// of what float64 holds, and a document of 1 MiB has room for 30 000 of them.

// decimal is a number as it is written: digits * 10^exponent.
type decimal struct {
	negative bool
	// digits are the first significant ones, 19 at most; the rest is cut off. A
	// float64 is told by 17, so that the last bit of the result may be lost.
	digits   uint64
	exponent int
}

const (
	// decimalDigits is the number of significant digits that decimal keeps.
	decimalDigits = 19
	// decimalFull is the least number of that many digits.
	decimalFull = 1_000_000_000_000_000_000
	// decimalLargest are the digits of the largest float64, 1.797...e308.
	decimalLargest = 1_797_693_134_862_315_807
	// largestMagnitude is the number of digits before the point of the largest float64.
	largestMagnitude = 309
	// smallestMagnitude is that below which a number is taken as the smallest there
	// is: no weight, 2^53-1 at most, makes a cost of it, but its sign counts.
	smallestMagnitude = -290
	// maxExponent is that above which a written exponent does not grow; it is
	// more than the digits of a document can make up for.
	maxExponent = 1 << 30
)

// parseDecimal reads text as Lua's tonumber reads a decimal number: white space
// around it, a sign, digits with an optional point on either side, an exponent.
// Overflow gives an infinity. Hexadecimal, binary and the words inf and nan are
// no numbers here.
func parseDecimal(text string) (n float64, ok bool) {
	d, ok := scanDecimal(trimASCIISpace(text))
	if !ok {
		return 0, false
	}
	n = d.float()
	if d.negative {
		n = -n
	}
	return n, true
}

// scanDecimal reads [+-]? (digits [. digits?] | . digits) ([eE] [+-]? digits)?
func scanDecimal(s string) (d decimal, ok bool) {
	i := skipSign(s, 0)
	d.negative = i > 0 && s[0] == '-'
	whole := skipDigits(s, i)
	written := whole - i
	d.append(s[i:whole], 0)
	if i = whole; i < len(s) && s[i] == '.' {
		fraction := skipDigits(s, i+1)
		written += fraction - i - 1
		d.append(s[i+1:fraction], -1)
		i = fraction
	}
	if written == 0 {
		return d, false
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		start := skipSign(s, i+1)
		if i = skipDigits(s, start); i == start {
			return d, false
		}
		d.raise(s[start:i], s[start-1] == '-')
	}
	return d, i == len(s)
}

// append adds digits, each of which that is kept shifts the exponent.
func (d *decimal) append(digits string, shift int) {
	for i := range len(digits) {
		if d.digits < decimalFull {
			d.digits = d.digits*10 + uint64(digits[i]-'0')
			d.exponent += shift
		} else {
			d.exponent += shift + 1
		}
	}
}

// raise adds a written exponent.
func (d *decimal) raise(digits string, negative bool) {
	exponent := 0
	for i := range len(digits) {
		exponent = min(exponent*10+int(digits[i]-'0'), maxExponent)
	}
	if negative {
		exponent = -exponent
	}
	d.exponent += exponent
}

// float is the nearest float64 of what was kept, without the sign.
func (d decimal) float() float64 {
	if d.digits == 0 || d.exponent == 0 && d.digits <= MaxCost {
		return float64(d.digits) // exact
	}
	for d.digits < decimalFull {
		d.digits *= 10
		d.exponent--
	}
	switch magnitude := d.exponent + decimalDigits; {
	case magnitude > largestMagnitude,
		magnitude == largestMagnitude && d.digits > decimalLargest:
		return math.Inf(1)
	case magnitude < smallestMagnitude:
		return math.SmallestNonzeroFloat64
	}
	var buffer [2 * decimalDigits]byte
	text := strconv.AppendUint(buffer[:0], d.digits, 10)
	text = append(text, 'e')
	text = strconv.AppendInt(text, int64(d.exponent), 10)
	n, _ := strconv.ParseFloat(string(text), 64) // neither the syntax nor the range can fail
	return n
}

// trimASCIISpace cuts what C's isspace calls white space; no Unicode space is.
func trimASCIISpace(s string) string {
	space := func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }
	for s != "" && space(s[0]) {
		s = s[1:]
	}
	for s != "" && space(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func skipSign(s string, i int) int {
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		return i + 1
	}
	return i
}

func skipDigits(s string, i int) int {
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return i
}
