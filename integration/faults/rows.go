//go:build unix

package main

import "slices"

// allRows is the matrix.
func allRows() []*row {
	all := slices.Concat(bridgeRows(), redisRows(), failoverRows(), clusterRows(), mixedRows(), diskRows(), staleRows(), halfOpenRows(), linkRows(), clockRows(), soakRows(), kafkaRows(), rabbitRows(), rocketRows(), pluginRows(), sourceRows(), poisonRows(), removedRows(), versionRows(), lateRows(), cancelRows(), suspectRows(), burstRows(), frozenRows(), formatRows(), recreatedRows(), brokenRows(), republishRows(), badRecordRows(), reloadRows(), eventRows())
	slices.SortStableFunc(all, func(a, b *row) int { return a.number - b.number })
	return all
}
