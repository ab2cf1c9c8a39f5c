//go:build unix

package main

import "slices"

// allRows is the matrix.
func allRows() []*row {
	all := slices.Concat(bridgeRows(), redisRows(), failoverRows(), clusterRows(), mixedRows())
	slices.SortStableFunc(all, func(a, b *row) int { return a.number - b.number })
	return all
}
