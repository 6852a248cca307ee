// Package spelling finds the known word that a misspelt word may have meant.
package spelling

import (
	"strings"

	"gantry/trace/shown"
)

// Nearest returns the known word that is closest to word by letters left out, put in, mistaken or swapped, in any case:
// at most two of them, and one in a word of up to four letters. It is "" if no known word is that close; of several
// that are alike it is the first.
func Nearest(word string, known []string) string {
	near, least := "", 3
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least && 3*d <= len(k)+1 {
			near, least = k, d
		}
	}
	return near
}

// Hint ends a message about an unknown word, in one line: with the nearest known one, or with all of them if none is
// near.
func Hint(word string, known []string) string {
	if near := Nearest(word, known); near != "" {
		return "did you mean " + shown.Line(near) + "?"
	}
	return "known are " + shown.Line(strings.Join(known, ", "))
}

// distance is the number of single-letter edits and swaps of neighbours between two words, none of which touches a
// letter twice (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
