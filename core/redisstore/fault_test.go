package redisstore

import (
	"errors"
	"testing"

	"github.com/delaybridge/delaybridge/core"
)

// What servers answered to a script that they would not run, word by word.
const (
	in62 = "ERR Error running script (call to f_c7e92d2a2877ebba950ef3fc37636813891c601c): @user_script:1: "
	in70 = " script: c7e92d2a2877ebba950ef3fc37636813891c601c, on @user_script:1."
)

func TestClassOfScriptErrors(t *testing.T) {
	for _, test := range []struct {
		text string
		want error
	}{
		// Redis 6.2
		{in62 + "@user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.", core.ErrFull},
		{in62 + "@user_script: 1: -MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk.", core.ErrFull},
		{in62 + "@user_script: 1: -READONLY You can't write against a read only replica.", core.ErrUnavailable},
		{in62 + "@user_script: 1: -NOREPLICAS Not enough good replicas to write.", core.ErrUnavailable},
		{in62 + "@user_script: 1: The user executing the script can't run this command or subcommand", core.ErrUnknown},
		{in62 + "WRONGTYPE Operation against a key holding the wrong kind of value", core.ErrUnknown},
		{in62 + "user_script:1: attempt to perform arithmetic on field '?' (a string value)", core.ErrUnknown},
		{in62 + "Script killed by user with SCRIPT KILL...", core.ErrUnknown},
		// Redis 7.0 to 8.0 and Valkey 8.1
		{"OOM command not allowed when used memory > 'maxmemory'." + in70, core.ErrFull},
		{"READONLY You can't write against a read only replica." + in70, core.ErrUnavailable},
		{"NOREPLICAS Not enough good replicas to write." + in70, core.ErrUnavailable},
		{"WRONGTYPE Operation against a key holding the wrong kind of value" + in70, core.ErrUnknown},
		{"ERR The user executing the script can't run this command or subcommand" + in70, core.ErrUnknown},               // 7.0
		{"ERR ACL failure in script: User u has no permissions to run the 'hset' command" + in70, core.ErrUnknown},       // 8.0, Valkey
		{"ERR user_script:1: attempt to perform arithmetic on field '?' (a string value)" + in70, core.ErrUnknown},       // all
		{"ERR Script killed by user with SCRIPT KILL." + in70, core.ErrUnknown},                                          // Valkey
		{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", core.ErrUnavailable},        // all
		{"NOSCRIPT No matching script.", core.ErrUnavailable},                                                            // Valkey
		{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", core.ErrUnavailable},  // Redis
		{"BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", core.ErrUnavailable}, // Valkey
		// A code that stands where a server puts none is text.
		{in62 + "user_script:1: READONLY : -OOM evil", core.ErrUnknown},
		{in62 + "ERR @user_script: 1: -OOM evil", core.ErrUnknown},
		{"ERR x: @user_script: 1: -OOM evil", core.ErrUnknown},
		{"ERR Error running script: -OOM evil", core.ErrUnknown},
	} {
		err := fault("park", replyError(test.text))
		if full := errors.Is(err, core.ErrFull); !errors.Is(err, test.want) || full != (test.want == core.ErrFull) {
			t.Errorf("%v\n\twant %v", err, test.want)
		}
	}
}

// replyError is an error reply, as the client library gives it.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}
