package plugin

import _ "embed" // the protocol's text

//go:embed proto/delaybridge/sink/v1/sink.proto
var protocol string

// Protocol returns the text of the .proto file, for plugins in other languages.
func Protocol() string { return protocol }
