//go:build unix

package servers

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Requests of RocketMQ's remoting protocol that making a topic takes, and what
// clients send all the time.
const (
	rocketCreate     = 17
	rocketGetRuntime = 28
	rocketHeartbeat  = 34
	rocketGetRoute   = 105
	rocketGetCluster = 106

	rocketTimeout  = 5 * time.Second
	rocketReadable = 4
	rocketWritable = 2
)

// rocketCall sends one request on a connection of its own and returns the body
// of the answer. A frame is its length, the length of its header, the header as
// JSON, and the body.
func rocketCall(addr string, code int, fields map[string]string) ([]byte, error) {
	return rocketCallWith(addr, code, fields, nil)
}

// rocketCallWith is rocketCall for a request with a body.
func rocketCallWith(addr string, code int, fields map[string]string, body []byte) ([]byte, error) {
	conn, err := net.DialTimeout("tcp", addr, rocketTimeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(rocketTimeout)); err != nil {
		return nil, err
	}
	header, err := json.Marshal(map[string]any{"code": code, "language": "GO", "version": 317,
		"opaque": 1, "flag": 0, "extFields": fields})
	if err != nil {
		return nil, err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(header)))
	if _, err := conn.Write(slices.Concat(frame, header, body)); err != nil {
		return nil, err
	}
	answer, err := readFrame(conn)
	if err != nil {
		return nil, err
	}
	return rocketBody(answer)
}

func rocketBody(frame []byte) ([]byte, error) {
	if len(frame) < 4 {
		return nil, errors.New("no header")
	}
	n := int(binary.BigEndian.Uint32(frame) & 0xffffff) // the top byte is the encoding
	if n > len(frame)-4 {
		return nil, errors.New("header cut off")
	}
	var header struct {
		Code   int
		Remark string
	}
	if err := json.Unmarshal(frame[4:4+n], &header); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if header.Code != 0 {
		return nil, fmt.Errorf("code %d %s", header.Code, header.Remark)
	}
	return frame[4+n:], nil
}

// rocketAddrs finds the masters' addresses ("0") in a list of brokers, which is
// not quite JSON: its numeric keys have no quotes.
var rocketAddrs = regexp.MustCompile(`"brokerAddrs":\{"?0"?:"([^"]+)"`)

// rocketBrokers returns the addresses of the brokers that a name server knows.
func rocketBrokers(nameServer string) ([]string, error) {
	body, err := rocketCall(nameServer, rocketGetCluster, nil)
	if err != nil {
		return nil, err
	}
	var brokers []string
	for _, match := range rocketAddrs.FindAllSubmatch(body, -1) {
		brokers = append(brokers, string(match[1]))
	}
	return brokers, nil
}

func rocketCreateTopic(broker, topic string, queues int) error {
	n := strconv.Itoa(queues)
	_, err := rocketCall(broker, rocketCreate, map[string]string{
		"topic": topic, "defaultTopic": "TBW102", "readQueueNums": n, "writeQueueNums": n,
		"perm": strconv.Itoa(rocketReadable | rocketWritable), "topicFilterType": "SINGLE_TAG",
		"topicSysFlag": "0", "order": "false",
	})
	return err
}

func rocketHasRoute(nameServer, topic string) error {
	_, err := rocketCall(nameServer, rocketGetRoute, map[string]string{"topic": topic})
	return err
}
