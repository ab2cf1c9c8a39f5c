package rocketmq

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	clienterrors "github.com/apache/rocketmq-client-go/v2/errors"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// failure is what came of a request that did not succeed.
type failure struct {
	class core.Class
	reach reach
	// oneOfMany: the request was refused as a whole for what may be the fault
	// of one message in it.
	oneOfMany bool
	// rest: what is to follow to the same queue would fail in the same way.
	rest bool
	err  error
}

// reach is how far a failure goes beyond the messages that met it.
type reach int

const (
	ofMessages reach = iota // these messages, or their topic
	ofBroker                // whatever goes to the same broker
	ofSink                  // everything
)

func fail(class core.Class, reach reach, err error) *failure {
	return &failure{class: class, reach: reach, err: err, rest: reach != ofMessages || class == core.TopicBlocked}
}

// forTheRest is what messages fail with that were not sent, as those before
// them met f; nil if they may be sent.
func (f *failure) forTheRest() *failure {
	if f == nil || !f.rest {
		return nil
	}
	class := f.class
	switch {
	case class == core.Unknown && f.reach == ofMessages:
		class = core.TopicBlocked
	case class == core.Unknown:
		class = core.Retry
	}
	return fail(class, f.reach, fmt.Errorf("not sent, because an earlier message failed: %w", f.err))
}

const (
	maxBrokerText       = 300
	flushDiskTimeout    = "flushing to disk timed out"
	flushReplicaTimeout = "replication timed out"
	noReplica           = "no replica is there"
)

var (
	errTimeout   = errors.New("broker did not answer in time")
	errRouteGone = errors.New("the topic's queues have changed")
)

// failureOf classifies what the library's SendSync returned; nil is success.
func (s *settings) failureOf(result *primitive.SendResult, err error) *failure {
	if err != nil {
		return failureOfError(err)
	}
	switch result.Status {
	case primitive.SendOK:
		return nil
	case primitive.SendFlushDiskTimeout:
		return s.stored(flushDiskTimeout)
	case primitive.SendFlushSlaveTimeout:
		return s.stored(flushReplicaTimeout)
	case primitive.SendSlaveNotAvailable:
		return s.stored(noReplica)
	}
	return fail(core.Unknown, ofBroker, fmt.Errorf("send status %d", result.Status))
}

// stored is a message that the master has, but less safely than it is set up to.
func (s *settings) stored(how string) *failure {
	if s.flushAccepted {
		return nil
	}
	return fail(core.Unknown, ofBroker, fmt.Errorf("broker has stored it, but %s", how))
}

// failureOfError classifies an error of the library, most of which have no type.
func failureOfError(err error) *failure {
	if match := brokerRefusal.FindStringSubmatch(err.Error()); match != nil {
		return failureOfCode(match[1], match[2])
	}
	dialling, isNet := errors.AsType[*net.OpError](err)
	switch {
	case core.ClassOf(err) == core.Unknown: // a panic of the library
		return fail(core.Unknown, ofMessages, err)
	case errors.Is(err, errHanging):
		return fail(core.Unknown, ofBroker, err)
	case errors.Is(err, clienterrors.ErrRequestTimeout):
		return fail(core.Unknown, ofBroker, errTimeout)
	case isNet && dialling.Op == "dial":
		return fail(core.Retry, ofBroker, err)
	case errors.Is(err, clienterrors.ErrMultipleTopics), errors.Is(err, clienterrors.ErrTopicEmpty),
		errors.Is(err, clienterrors.ErrMessageEmpty):
		return fail(core.Permanent, ofMessages, err)
	case errors.Is(err, clienterrors.ErrNotRunning), errors.Is(err, clienterrors.ErrService):
		return fail(core.Retry, ofSink, err)
	case strings.Contains(err.Error(), "route info not found"):
		return fail(core.Retry, ofBroker, errRouteGone)
	}
	return fail(core.Unknown, ofBroker, err) // writing failed: how far it came nobody knows
}

// brokerRefusal is how the library puts the code and remark of a broker's reply
// into text.
var brokerRefusal = regexp.MustCompile(`(?s)^CODE: (-?\d+),?\s+DESC: (.*)$`)

func failureOfCode(number, remark string) *failure {
	code, err := strconv.Atoi(number)
	remark = core.Shorten(strings.TrimSpace(remark), maxBrokerText)
	refused := &rocketmq.RefusedError{Code: code, Remark: remark}
	switch {
	case err != nil:
		return fail(core.Unknown, ofMessages, refused)
	case code == rocketmq.CodeSystemError:
		return systemError(remark, refused)
	case code == rocketmq.CodeNoPermission:
		return noPermission(remark, refused)
	}
	switch code {
	case rocketmq.CodeSystemBusy, rocketmq.CodeUnavailable, rocketmq.CodeFlowControl, rocketmq.CodeNotLeader, rocketmq.CodeGoAway:
		return fail(core.Retry, ofBroker, refused)
	case rocketmq.CodeIllegal:
		return refusedMessage(refused)
	case rocketmq.CodeNotSupported, rocketmq.CodeVersion:
		return fail(core.Blocked, ofSink, refused)
	case rocketmq.CodeNoTopic:
		return fail(core.TopicBlocked, ofMessages, refused)
	}
	return fail(core.Unknown, ofMessages, refused)
}

// systemError is the code for everything else: ACL of 4.x and 5.x before 2.0,
// replicas short, disk broken, and faults of a single message.
func systemError(remark string, refused error) *failure {
	switch {
	case strings.Contains(remark, "No default permission"):
		return fail(core.TopicBlocked, ofMessages, refused)
	case strings.Contains(remark, "AclException"), strings.Contains(remark, "acl.common"):
		return fail(core.Blocked, ofSink, refused)
	case strings.Contains(remark, "unable to service"):
		return fail(core.Retry, ofBroker, refused)
	case strings.Contains(remark, "in-sync replicas"), strings.Contains(remark, "mapped file failed"):
		return fail(core.Unknown, ofBroker, refused)
	case strings.Contains(remark, "size exceeded"): // larger than the broker's maxMessageSize
		return refusedMessage(refused)
	}
	return fail(core.Unknown, ofMessages, refused)
}

// refusedMessage is a request refused permanently, maybe for one of its messages.
func refusedMessage(refused error) *failure {
	f := fail(core.Permanent, ofMessages, refused)
	f.oneOfMany = true
	return f
}

// noPermission is said of a broker or a topic that is read-only, and by ACL 2.0
// of a user that is not known or may not write.
func noPermission(remark string, refused error) *failure {
	lower := strings.ToLower(remark)
	switch {
	case strings.Contains(lower, "the topic["), strings.Contains(lower, "has no permission to access"):
		return fail(core.TopicBlocked, ofMessages, refused)
	case strings.Contains(lower, "signature"), strings.Contains(lower, "user"), strings.Contains(lower, "authenticat"):
		return fail(core.Blocked, ofSink, refused)
	}
	return fail(core.Retry, ofBroker, refused)
}
