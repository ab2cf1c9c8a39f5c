package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	apache "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	clientproducer "github.com/apache/rocketmq-client-go/v2/producer"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// producer is one producer of the client library and the calls into it. A call
// may hang past its context (a broker that stops reading holds its connection's
// lock for two minutes), and the calls behind it hang as well. Nor does the
// library give up a connection over which no answer comes. The call is then left
// behind, and with it the whole producer: the next has connections of its own.
type producer struct {
	client apache.Producer

	ctx    context.Context // the parent of every call's
	cancel context.CancelFunc
	calls  sync.WaitGroup
	order  sync.Mutex // see orderedContext
}

// orderedContext makes calls happen before a Shutdown that does not wait for
// them. The library reads, without a lock, whether it has been shut down; the
// next thing it does is to ask the context for its deadline.
type orderedContext struct {
	context.Context
	order *sync.Mutex
}

// Deadline implements context.Context.
func (c orderedContext) Deadline() (time.Time, bool) {
	c.order.Lock()
	defer c.order.Unlock()
	return c.Context.Deadline()
}

// instances counts the producers of the process. Two of the same instance name
// would share one client, and the end of one would be the end of both.
var instances atomic.Uint64

// newProducer starts a producer. Nothing is dialled before the first message.
func newProducer(parent context.Context, c *rocketmq.Cluster, selector clientproducer.QueueSelector) (*producer, error) {
	quietClient()
	client, err := apache.NewProducer(
		clientproducer.WithNsResolver(primitive.NewPassthroughResolver(clientAddresses(c.NameServers))),
		clientproducer.WithGroupName(c.Group),
		clientproducer.WithInstanceName(fmt.Sprintf("delaybridge-%d-%d", time.Now().UnixNano(), instances.Add(1))),
		clientproducer.WithCredentials(primitive.Credentials(c.Credentials)),
		clientproducer.WithQueueSelector(selector),
		clientproducer.WithRetry(0),
		clientproducer.WithCompressMsgBodyOverHowmuch(math.MaxInt),
	)
	if err != nil {
		return nil, fmt.Errorf("make producer: %w", err)
	}
	// A producer whose Start failed must not be shut down: that would be the
	// end of the one that holds the name.
	if err := client.Start(); err != nil {
		return nil, fmt.Errorf("start producer: %w", err)
	}
	p := &producer{client: client}
	p.ctx, p.cancel = context.WithCancel(parent)
	return p, nil
}

// clientAddresses are addresses in the only form in which the library takes
// host names. It dials what is behind the scheme.
func clientAddresses(addresses []string) []string {
	prefixed := make([]string, len(addresses))
	for n, address := range addresses {
		prefixed[n] = "http://" + address
	}
	return prefixed
}

// returnGrace is how long a call may continue after its context before it counts
// as hanging.
const returnGrace = 50 * time.Millisecond

// errHanging: the call has not returned, and may still do what it was to do.
var errHanging = errors.New("client library did not return in time")

// begin announces one call of send. It must come before shutDown.
func (p *producer) begin() { p.calls.Add(1) }

// send is the library's SendSync within ctx and timeout, and ends what begin
// announced. errHanging means that the producer should be left behind.
func (p *producer) send(ctx context.Context, timeout time.Duration, message *primitive.Message) (*primitive.SendResult, error) {
	callCtx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	type outcome struct {
		result *primitive.SendResult
		err    error
	}
	returned := make(chan outcome, 1)
	go func() {
		defer p.calls.Done()
		result, err := p.sendSync(callCtx, message)
		returned <- outcome{result, err}
	}()
	select {
	case o := <-returned:
		return o.result, o.err
	case <-callCtx.Done():
	}
	grace := time.NewTimer(returnGrace)
	defer grace.Stop()
	select {
	case o := <-returned:
		return o.result, o.err
	case <-grace.C:
		return nil, errHanging
	}
}

// learn has the library look for the queues of topic and show them to the
// selector, and ends what begin announced. It may take long: the library gives
// each name server six seconds, whatever the context says.
func (p *producer) learn(topic string) {
	defer p.calls.Done()
	// The selector chooses no queue for a message that names none, so nothing
	// is sent, and the error that comes of it says nothing.
	p.sendSync(p.ctx, &primitive.Message{Topic: topic}) // its error says nothing, see above
}

// sendSync turns a panic of the library into an error.
func (p *producer) sendSync(ctx context.Context, message *primitive.Message) (result *primitive.SendResult, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = core.Classify(core.Unknown, fmt.Errorf("client library panicked: %v\n%s", v, debug.Stack()))
		}
	}()
	return p.client.SendSync(orderedContext{ctx, &p.order}, message)
}

// shutDown ends the producer once its calls have returned or patience is over,
// and returns when that has been done. Calls that hang on a connection return
// when it is closed.
func (p *producer) shutDown(patience <-chan struct{}) {
	idle := make(chan struct{})
	go func() { p.calls.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-patience:
	}
	p.cancel()
	p.order.Lock()
	defer p.order.Unlock()
	p.client.Shutdown() // returns nil, and at once
}
