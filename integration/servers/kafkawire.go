//go:build unix

package servers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// The requests of Kafka's protocol that starting a broker takes, in the
// lowest versions that all brokers know.
const (
	kafkaOffsets         = 2
	kafkaOffsetsVersion  = 1
	kafkaMetadata        = 3
	kafkaMetadataVersion = 1
	kafkaCreate          = 19
	kafkaCreateVersion   = 2

	kafkaTopicExists = 36
	kafkaTimeout     = 5 * time.Second
)

// kafkaJoined fails until a broker lists itself.
func kafkaJoined(addr string, id int) error {
	alive, err := kafkaBrokers(addr)
	if err == nil && !slices.Contains(alive, int32(id)) {
		err = errors.New("not yet in its own list of brokers")
	}
	return err
}

// kafkaLeads fails unless the broker leads the partition. It asks for the
// partition's end, which only the leader tells. A broker leads a little
// later than its metadata says so.
func kafkaLeads(addr, topic string, partition int) error {
	var request wireWriter
	request.int32(-1) // not a replica
	request.int32(1)
	request.string(topic)
	request.int32(1)
	request.int32(int32(partition))
	request.int64(-1) // the end
	answer, err := kafkaCall(addr, kafkaOffsets, kafkaOffsetsVersion, request)
	if err != nil {
		return err
	}
	r := wireReader{rest: answer}
	r.int32()  // one topic
	r.string() // its name
	r.int32()  // one partition
	r.int32()  // its number
	if code := r.int16(); r.err == nil && code != 0 {
		return fmt.Errorf("partition %d of %s: error %d", partition, topic, code)
	}
	return r.err
}

// kafkaBrokers returns the ids of the brokers that a broker knows to be alive.
func kafkaBrokers(addr string) ([]int32, error) {
	var request wireWriter
	request.int32(0) // no topics
	answer, err := kafkaCall(addr, kafkaMetadata, kafkaMetadataVersion, request)
	if err != nil {
		return nil, err
	}
	var ids []int32
	r := wireReader{rest: answer}
	for range r.int32() {
		ids = append(ids, r.int32())
		r.string() // host
		r.int32()  // port
		r.string() // rack
	}
	return ids, r.err
}

// kafkaCreateTopic leaves a topic that exists as it is.
func kafkaCreateTopic(addr, topic string, partitions int, config []string) error {
	var request wireWriter
	request.int32(1)
	request.string(topic)
	request.int32(int32(partitions))
	request.int16(-1) // replicas: the default
	request.int32(0)  // assignments
	request.int32(int32(len(config)))
	for _, c := range config {
		name, value, _ := strings.Cut(c, "=")
		request.string(name)
		request.string(value)
	}
	request.int32(int32(kafkaTimeout.Milliseconds()))
	request.b = append(request.b, 0) // not only validate
	answer, err := kafkaCall(addr, kafkaCreate, kafkaCreateVersion, request)
	if err != nil {
		return err
	}
	r := wireReader{rest: answer}
	r.int32()  // throttle
	r.int32()  // one topic
	r.string() // its name
	return r.result(kafkaTopicExists)
}

// result reads how a request went, which is an error unless it is one of these.
func (r *wireReader) result(tolerated ...int16) error {
	code, text := r.int16(), r.string()
	if r.err == nil && code != 0 && !slices.Contains(tolerated, code) {
		return fmt.Errorf("error %d %s", code, text)
	}
	return r.err
}

// kafkaCall sends one request on a connection of its own.
func kafkaCall(addr string, key, version int16, body wireWriter) ([]byte, error) {
	conn, err := net.DialTimeout("tcp", addr, kafkaTimeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(kafkaTimeout)); err != nil {
		return nil, err
	}
	var header wireWriter
	header.int16(key)
	header.int16(version)
	header.int32(1) // correlation
	header.string("servers")
	frame := slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(len(header.b)+len(body.b))), header.b, body.b)
	if _, err := conn.Write(frame); err != nil {
		return nil, err
	}
	answer, err := readFrame(conn)
	if err != nil || len(answer) < 4 {
		return nil, errors.Join(err, errors.New("no answer"))
	}
	return answer[4:], nil // behind the correlation
}
