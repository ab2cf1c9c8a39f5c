package suite

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// goroutines are the stacks of all, by their numbers.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for runtime.Stack(buf, true) == len(buf) {
		buf = make([]byte, 2*len(buf))
	}
	all := map[string]string{}
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		number, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		all[number] = stack
	}
	return all
}

// leaked tells the goroutines that were not there before, but for those that have one
// of the known functions on their stack.
func leaked(before map[string]string, known []string) error {
	var found []string
	for number, stack := range goroutines() {
		_, old := before[number]
		if !old && !slices.ContainsFunc(known, func(name string) bool { return strings.Contains(stack, name+"(") }) {
			found = append(found, stack)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%d goroutines are left, such as\n%s", len(found), found[0])
}
