package core

import "context"

// Ability looks for the ability T, an interface such as Checker or Inspector, in a
// Sink or Store: in itself, or else in what it wraps. A type that wraps a Sink or a
// Store tells so by a method Unwrap() Sink or Unwrap() Store; then abilities that
// it lacks are those of the wrapped one, which is called directly. A wrapper that has
// to see or change the calls of an ability implements it. A wrapper without Unwrap has
// its own abilities only.
//
// Use it wherever an ability is asked for; a type assertion finds those of the
// outermost wrapper alone.
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
	// Check is called once for the messages of one accept, while a producer
	// waits: it is quick, and returns soon after ctx has ended. The messages stay
	// as they are.
	//
	//	nil              all can be carried
	//	BatchError       for each message nil, or an *InvalidError
	//	any other error  it could not be told: nothing of the batch is accepted,
	//	                 and the producer is told to try again
	Check(ctx context.Context, batch []*Message) error
}

// CheckEach is a Checker's Check for a sink that looks at one message at a time:
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

// HealthChecker is the ability of a Sink or Store to say whether it could work
// now. Health returns in bounded time.
type HealthChecker interface {
	Health(ctx context.Context) error
}

// Describer is the ability of a Sink to tell details about itself that an operator
// may want to see besides its numbers: what it is, how it is. Describe returns at
// once, with a new map, whose names are words in lower case; no value is a secret.
type Describer interface {
	Describe() map[string]string
}
