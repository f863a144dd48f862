// Package near guesses what a misspelled word was meant to be.
package near

import "strings"

// Of returns the name that was probably meant by word, or "".
func Of(word string, names []string) string {
	best, bestDistance := "", 3
	if len(word) < 4 {
		bestDistance = 2
	}
	for _, name := range names {
		if d := distance(strings.ToLower(word), name); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	if best != "" {
		return best
	}
	for _, name := range names {
		if len(word) >= 3 && (strings.HasPrefix(name, word) || strings.HasSuffix(name, word)) {
			return name
		}
	}
	return ""
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour to get from a to b.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, above, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(t)]
}
