package core

import "context"

// Ability returns the ability T, an interface such as Checker or Inspector, of a Sink
// or Store, or else of the value that it wraps. A wrapper declares the wrapped value
// with a method Unwrap() Sink or Unwrap() Store; calls of an ability that the wrapper
// lacks then go directly to the wrapped value. A wrapper that has to see or change
// these calls implements the ability. A wrapper without Unwrap has only its own
// abilities.
//
// Use Ability instead of a type assertion, which sees only the outermost wrapper.
func Ability[T any](of any) (T, bool) {
	for {
		if ability, ok := of.(T); ok {
			return ability, true
		}
		switch wrapper := of.(type) {
		case interface{ Unwrap() Sink }:
			of = wrapper.Unwrap()
		case interface{ Unwrap() Store }:
			of = wrapper.Unwrap()
		default:
			var none T
			return none, false
		}
	}
}

// Checker is the ability of a Sink to refuse, at accept, messages that its
// broker can't carry. It must refuse options that the sink does not know, but
// leave those with the prefix OptionPrefix alone: they are the engine's.
type Checker interface {
	// Check is called once for the messages of one Accept, while a producer waits. It
	// must be quick, return soon after ctx has ended, and not change the messages.
	//
	//	nil              the sink can carry all messages
	//	BatchError       for each message nil, or an *InvalidError
	//	any other error  the check failed: no message of the batch is accepted,
	//	                 and the producer is asked to try again
	Check(ctx context.Context, batch []*Message) error
}

// CheckEach implements Checker.Check for a sink that checks one message at a time:
// check returns nil or an *InvalidError.
func CheckEach(ctx context.Context, batch []*Message, check func(*Message) error) error {
	var results BatchError
	for n, m := range batch {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := check(m); err != nil {
			if results == nil {
				results = make(BatchError, len(batch))
			}
			results[n] = err
		}
	}
	if results == nil {
		return nil
	}
	return results
}

// HealthChecker is the ability of a Sink or Store to report whether it is able to work
// now. Health returns in bounded time.
type HealthChecker interface {
	Health(ctx context.Context) error
}

// Describer is the ability of a Sink to report details about itself to an operator,
// such as its version and state. Describe returns a new map without blocking. Its keys
// are words in lower case; no value is a secret.
type Describer interface {
	Describe() map[string]string
}
