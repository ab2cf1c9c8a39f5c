//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
)

// badRecordRows have a record that can't be parked, and no place for it.
func badRecordRows() []*row {
	return []*row{{number: 57, name: "bad record, no reject target", level: "fsync", bridges: 2, set: safeRedis, sink: twoSources, shape: (*run).threeWays, enter: (*run).enterByTopic, nemesis: (*run).meetBadRecord,
		fault:    "one record of one of two Kafka sources has no time, one that can't be read, or one of years ago, by the seed, with on_bad_record: stop; then one bridge is killed with -9 and the other restarted; later the configuration says skip",
		expected: "that source stops in each bridge, also after the restarts, and says so; the other source, HTTP and both sinks go on; what waits behind the record arrives in the end", drainIn: 30 * time.Second,
		needs: map[string]int{"stopped": 4, "held back": 100, "killed": 1, "restarted": 3, "left out": 1}}}
}

const (
	otherTopic = "others" + sourceSuffix // of the source that has no bad record
	byHTTP     = "direct"
	stop       = "on_bad_record: stop"
)

// twoSources reads two topics of a Kafka, and delivers to two consoles.
func twoSources(r *run) string {
	r.kafka = r.startKafka(1)
	sinks := map[string]string{sourceTopic: "out", otherTopic: otherSink}
	r.more = "sources:\n"
	for _, topic := range []string{sourceTopic, otherTopic} {
		r.kafka.cluster.CreateTopic(topic, 2*kafkaPartitions)
		r.more += fmt.Sprintf("  %s: {type: kafka, config: {brokers: [%q], topics: [%s], group: %s, sink: %s, topic: \"{topic}\", trim_suffix: %s, session_timeout: 6s, %s}}\n",
			sourceOf(topic), r.kafka.cluster.Addrs()[0], topic, topic, sinks[topic], sourceSuffix, stop)
	}
	return twoConsoles(r)
}

// sourceOf is the name of the source that reads a topic.
func sourceOf(topic string) string { return strings.TrimSuffix(topic, sourceSuffix) }

// threeWays sends a third of the load to each source, and a third by HTTP, to both sinks.
func (r *run) threeWays(p *plan) {
	switch p.number % 3 {
	case 0:
		r.asRecord(p)
	case 1:
		r.asRecord(p)
		p.message.Topic = sourceOf(otherTopic)
	default:
		p.message.Topic, p.message.Sink = byHTTP, []string{"out", otherSink}[p.number/3%2]
	}
}

func (r *run) enterByTopic(p plan) entry {
	if p.message.Topic == byHTTP {
		return r.accept(r.anyBridge(p.dice), p.name, p.message, p.delay)
	}
	return r.produceTo(p.message.Topic+sourceSuffix, p)
}

// badRecords are the headers of records that can't be parked.
func badRecords() [][]kafka.Header {
	past := kafka.Header{Key: core.HeaderPrefix + "deliver-at", Value: []byte("2020-01-01T00:00:00Z")}
	delay := kafka.Header{Key: core.HeaderPrefix + "delay", Value: []byte("soon")}
	return [][]kafka.Header{nil, {delay}, {past}}
}

var leftOut = regexp.MustCompile(`msg="record (skipped), because it can't be parked`)

func (r *run) meetBadRecord() {
	time.Sleep(2 * time.Second)
	over, from := r.strikeClean("bad record"), time.Now()
	bad := badRecords()[r.seed%uint64(len(badRecords()))]
	at, err := r.kafka.write(sourceTopic, 0, kafka.Record{Value: kafka.NewBytes([]byte("bad")), Headers: bad})
	r.harmIf(err)
	r.awaitStopped(at)
	time.Sleep(2 * time.Second)
	r.checkOthers(from)
	r.crash(r.bridges[0])
	r.bridges[0].start("")
	r.reached("killed")
	r.restart(r.bridges[1], "")
	r.awaitStopped(at)
	r.caughtUp(otherTopic, otherTopic) // when its group has noticed who was killed
	from = time.Now()
	time.Sleep(3 * time.Second)
	r.checkOthers(from)
	for _, a := range r.missing() {
		if a.lastDue(0).Before(time.Now().Add(-inTime)) {
			r.reached("held back")
		}
	}
	r.configure(func(text string) string { return strings.ReplaceAll(text, stop, "on_bad_record: skip") })
	over()
	time.Sleep(span / 2)
	for _, b := range r.bridges {
		r.seen["left out"] += len(b.process.Logs.Find(leftOut))
	}
}

// checkOthers finds whether what has not come by the source with the bad record was in
// time.
func (r *run) checkOthers(from time.Time) {
	for _, topic := range []string{sourceOf(otherTopic), byHTTP} {
		r.checkInTime(from, time.Now().Add(-inTime), func(e entry) bool { return e.Topic == topic })
	}
}

const stoppedIn = 30 * time.Second

// awaitStopped waits until every bridge says that it accepts, and that the source with
// the bad record, whose offset is bad, has stopped and the other has not.
func (r *run) awaitStopped(bad int64) {
	for _, b := range r.bridges {
		for deadline := time.Now().Add(stoppedIn); ; time.Sleep(50 * time.Millisecond) {
			status, text, err := r.request(b, http.MethodGet, "/readyz", nil)
			var health struct {
				Ready   bool              `json:"ready"`
				Sources map[string]string `json:"sources"`
			}
			if err == nil {
				err = json.Unmarshal(text, &health)
			}
			if err == nil && health.Ready && len(health.Sources) == 1 && health.Sources[sourceOf(sourceTopic)] == "stopped" {
				r.reached("stopped")
				break
			}
			if r.kafka.committed(sourceTopic, sourceTopic, 0) > bad {
				r.find("L1", "the source has gone past the record that it can't park")
				return
			}
			if time.Now().After(deadline) {
				r.find("L7", "bridge %s does not say that it is ready and one source has stopped: %d %s %v", b.name, status, text, err)
				break
			}
		}
	}
}
