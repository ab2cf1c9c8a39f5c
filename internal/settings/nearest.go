package settings

import "strings"

// Nearest returns the known name that s is probably a misspelling of, or "".
func Nearest(s string, known []string) string {
	best, distance := "", 1+max(1, len(s)/3)
	for _, k := range known {
		if d := editDistance(fold(s), fold(k)); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// fold makes maxBody, max-body and max_body alike.
func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(strings.ToLower(s))
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that make b out of a.
func editDistance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
