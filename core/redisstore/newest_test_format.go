//go:build failpoints

package redisstore

import "os"

// envTestFormat, if not empty, has the store know the test format: the next version's.
const envTestFormat = "DELAYBRIDGE_TEST_FORMAT"

func newestFormat() int {
	if os.Getenv(envTestFormat) != "" {
		return testFormat
	}
	return recordFormat
}
