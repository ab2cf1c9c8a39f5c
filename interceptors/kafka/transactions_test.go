//go:build unix

package kafkasource

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestTransactions: what was aborted is left out, and what is open waits.
func TestTransactions(t *testing.T) {
	t.Parallel()
	r := rigOf(t, servers.Kafka(t, servers.KafkaOptions{}))
	topic := r.topic(".delayed", 1)
	src := r.run(r.source([]string{topic}, nil))
	a, b := r.producer("a"), r.producer("b")
	a.send(topic, "0")
	a.end(true)
	a.send(topic, "aborted")
	b.send(topic, "1")
	r.produce(topic, 0, text("k", "2", "delaybridge-delay", "1h"))
	a.end(false)
	b.end(true)
	a.send(topic, "3")
	a.end(true)
	b.send(topic, "aborted, too")
	b.end(false)
	r.produce(topic, 0, text("k", "4", "delaybridge-delay", "1h"))
	r.store.Await(t, 5)
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	wantOnce(t, r.store, 5)
}

// producer sends within transactions.
type producer struct {
	*rig
	name     string
	session  kafka.ProducerSession
	sequence int32
}

func (r *rig) producer(name string) *producer {
	r.t.Helper()
	p := &producer{rig: r, name: r.name + name}
	r.again(func() error {
		answer, err := r.client.InitProducerID(context.Background(), &kafka.InitProducerIDRequest{TransactionalID: p.name, TransactionTimeoutMs: 30000})
		if err == nil && answer.Error == nil {
			p.session = *answer.Producer
		}
		if err == nil {
			err = answer.Error
		}
		return err
	})
	return p
}

func (p *producer) send(topic, body string) {
	p.t.Helper()
	p.again(func() error {
		answer, err := p.client.AddPartitionsToTxn(context.Background(), &kafka.AddPartitionsToTxnRequest{TransactionalID: p.name,
			ProducerID: p.session.ProducerID, ProducerEpoch: p.session.ProducerEpoch, Topics: map[string][]kafka.AddPartitionToTxn{topic: {{Partition: 0}}}})
		if err == nil {
			err = answer.Topics[topic][0].Error
		}
		return err
	})
	good := []byte("1h")
	data := written{attributes: attributeTransactional, time: time.Now().UnixMilli(), producer: int64(p.session.ProducerID), epoch: int16(p.session.ProducerEpoch),
		sequence: p.sequence, records: []record{{value: []byte(body), headers: []core.Header{{Name: "delaybridge-delay", Value: good}}}}}.encode()
	p.sequence++
	sized := append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
	p.again(func() error {
		answer, err := p.client.RawProduce(context.Background(), &kafka.RawProduceRequest{Topic: topic, RequiredAcks: kafka.RequireAll,
			TransactionalID: p.name, MessageVersion: 2, RawRecords: protocol.RawRecordSet{Reader: bytes.NewReader(sized)}})
		if err == nil {
			err = answer.Error
		}
		return err
	})
}

func (p *producer) end(committed bool) {
	p.t.Helper()
	p.again(func() error {
		answer, err := p.client.EndTxn(context.Background(), &kafka.EndTxnRequest{TransactionalID: p.name,
			ProducerID: p.session.ProducerID, ProducerEpoch: p.session.ProducerEpoch, Committed: committed})
		if err == nil {
			err = answer.Error
		}
		return err
	})
}

// again repeats a call that the coordinator is not ready for: the end of the
// transaction before takes its time.
func (r *rig) again(call func() error) {
	r.t.Helper()
	if err := poll.Succeeds(30*time.Second, call); err != nil {
		r.t.Fatal(err)
	}
}
