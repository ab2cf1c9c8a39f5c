package suite

import (
	"context"
	"slices"
	"time"
)

// Status is how a case ended.
type Status string

// The statuses of a case.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped" // the last line of the log says what is missing
)

// Result is the result of one case.
type Result struct {
	Name     string
	Status   Status
	Log      []string // the case's output, in order; an entry may have several lines
	Duration time.Duration
}

// Check runs cases outside of go test, one after the other, and returns their results.
// watch, if not nil, is called with each result.
//
// Kit.Consume may be nil here. A case that passes up to the point where it compares
// confirmed with arrived messages is then skipped.
//
// When ctx ends, the current case is stopped, and it and all later ones are skipped.
func Check(ctx context.Context, cases []Case, kit Kit[T], watch func(Result)) []Result {
	results := make([]Result, len(cases))
	for n, c := range cases {
		results[n] = check(ctx, c, kit)
		if watch != nil {
			watch(results[n])
		}
	}
	return results
}

// check runs one case, unless ctx has ended.
func check(ctx context.Context, c Case, kit plainKit) Result {
	begin := time.Now()
	r := &recorder{}
	if ctx.Err() == nil {
		var cancel context.CancelFunc
		r.ctx, cancel = context.WithCancel(ctx)
		r.run(func() { c.run(newEnv(r, kit)) })
		cancel()
		r.cleanUp()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	result := Result{Name: c.Name, Status: Passed, Log: slices.Clone(r.log), Duration: time.Since(begin)}
	switch {
	case ctx.Err() != nil:
		result.Status, result.Log = Skipped, append(result.Log, "cancelled: "+context.Cause(ctx).Error())
	case r.failed:
		result.Status = Failed
	case r.skipped:
		result.Status = Skipped
	}
	return result
}
