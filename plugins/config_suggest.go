package plugins

import (
	"math"
	"strings"
)

// lettersPerTypo is how many letters of a name may stand for one typing mistake: a
// third of a name can be wrong before it is another name.
const lettersPerTypo = 3

// closestField returns the known field that a misspelt one was probably meant to be.
// Case and "-" or " " for "_" are no mistakes. Of equally close ones the first is
// returned.
func closestField(name string, known []string) (string, bool) {
	plain := plainName(name)
	best, bestDistance := "", math.MaxInt
	for _, candidate := range known {
		// A name that is much longer or shorter cannot be close.
		if allowed := allowedTypos(candidate); abs(len(plain)-len(candidate)) > allowed {
			continue
		}
		distance := editDistance(plain, plainName(candidate))
		if distance <= allowedTypos(candidate) && distance < bestDistance {
			best, bestDistance = candidate, distance
		}
	}
	return best, bestDistance < math.MaxInt
}

func allowedTypos(name string) int { return max(1, len(name)/lettersPerTypo) }

func abs(n int) int { return max(n, -n) }

func plainName(name string) string {
	return strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(name))
}

// editDistance counts the letters to insert, delete or change, or the neighbours to
// swap, that make b of a (optimal string alignment).
func editDistance(a, b string) int {
	var beforeLast []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], beforeLast[j-2]+1)
			}
		}
		beforeLast, last = last, row
	}
	return last[len(b)]
}
