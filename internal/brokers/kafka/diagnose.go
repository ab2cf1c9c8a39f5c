package kafkaconn

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/describegroups"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/tlsfiles"
)

// Diagnose connects to each of the seeds, and looks on the first that answers for topics,
// for a consumer group, unless its name is empty, and for the addresses of the brokers,
// which it then connects to; see core.Diagnoser.
func (d *Dialer) Diagnose(ctx context.Context, topics []string, group string) []core.Finding {
	answers := make(chan *Conn, len(d.Seeds))
	found := core.Findings(len(d.Seeds), func(i int) []core.Finding { return d.diagnoseBroker(ctx, d.Seeds[i], answers) })
	close(answers)
	c, answered := <-answers
	if !answered {
		return found
	}
	for other := range answers {
		other.Raw.Close()
	}
	defer c.Raw.Close()
	defer context.AfterFunc(ctx, func() { c.Raw.Close() })()
	more, brokers := c.diagnoseTopics(topics)
	if group != "" {
		more = append(more, c.diagnoseGroup(group))
	}
	brokers = slices.DeleteFunc(brokers, func(address string) bool { return slices.Contains(d.Seeds, address) })
	found = append(found, core.Findings(len(brokers), func(i int) []core.Finding { return d.diagnoseBroker(ctx, brokers[i], nil) })...)
	return append(found, more...)
}

// diagnoseBroker hands a connection that it could make to answers, or closes it.
func (d *Dialer) diagnoseBroker(ctx context.Context, address string, answers chan<- *Conn) (found []core.Finding) {
	look := *d
	look.DialTimeout = min(d.DialTimeout, diagnoseTimeout)
	look.TLS = tlsfiles.Witness(d.TLS, func(cert *x509.Certificate) { found = append(found, tlsfiles.Expiry(address, cert)) })
	c, err := look.Dial(ctx, address)
	if err != nil {
		return append(found, core.Finding{Level: core.FindingProblem, About: address, Text: err.Error(),
			Fix: "start the broker, or correct brokers, tls, sasl, or the address that it advertises"})
	}
	if answers == nil {
		c.Raw.Close()
	} else {
		answers <- c
	}
	text := "answers, login included"
	if d.SASL == nil {
		text = "answers"
	}
	return append(found, core.Finding{Level: core.FindingOK, About: address, Text: text})
}

// ask is a question of a diagnosis.
func (c *Conn) ask(request protocol.Message) (protocol.Message, error) {
	if err := c.Raw.SetDeadline(time.Now().Add(diagnoseTimeout)); err != nil {
		return nil, err
	}
	return c.Stream.RoundTrip(request)
}

const (
	minInsync = "min.insync.replicas"
	// diagnoseTimeout bounds each connection and question of a diagnosis.
	diagnoseTimeout = 3 * time.Second
)

// diagnoseTopics also returns the addresses of the brokers.
func (c *Conn) diagnoseTopics(topics []string) (found []core.Finding, brokers []string) {
	answer, err := c.ask(&metadata.Request{TopicNames: slices.Compact(slices.Sorted(slices.Values(topics)))})
	if err != nil {
		return []core.Finding{{Level: core.FindingProblem, About: "topics", Text: err.Error(), Fix: "look at the broker's log"}}, nil
	}
	told := answer.(*metadata.Response)
	for _, b := range told.Brokers {
		brokers = append(brokers, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
	}
	needed, err := c.minInsync(topics)
	for _, t := range told.Topics {
		f := core.Finding{Level: core.FindingProblem, About: "topic " + t.Name, Fix: "create the topic, correct its name, or allow it to the user"}
		if t.ErrorCode != 0 {
			f.Text = kafka.Error(t.ErrorCode).Title()
		} else {
			f.Level, f.Text, f.Fix = judge(t.Partitions, needed[t.Name])
		}
		found = append(found, f)
	}
	if err != nil {
		found = append(found, core.Finding{Level: core.FindingWarning, About: minInsync, Text: "can't be read: " + err.Error(),
			Fix: "allow the user to describe the configurations of topics, or check it yourself"})
	}
	return found, brokers
}

// minInsync returns the min.insync.replicas of topics, as far as the broker tells.
func (c *Conn) minInsync(topics []string) (map[string]int, error) {
	const topicResource = 2
	needed, request := make(map[string]int), new(describeconfigs.Request)
	for _, t := range topics {
		request.Resources = append(request.Resources, describeconfigs.RequestResource{ResourceType: topicResource, ResourceName: t, ConfigNames: []string{minInsync}})
	}
	if len(topics) == 0 {
		return needed, nil
	}
	answer, err := c.ask(request)
	if err != nil {
		return nil, err
	}
	for _, r := range answer.(*describeconfigs.Response).Resources {
		if code := kafka.Error(r.ErrorCode); code != 0 && !errors.Is(code, kafka.UnknownTopicOrPartition) {
			err = code
		}
		for _, entry := range r.ConfigEntries {
			needed[r.ResourceName], _ = strconv.Atoi(entry.ConfigValue) // 0: not known
		}
	}
	return needed, err
}

// judge says what writes with acks=all to a topic are worth. needed is 0 if it is not known.
func judge(partitions []metadata.ResponsePartition, needed int) (level, text, fix string) {
	replicas, insync := 1<<30, 1<<30
	for _, p := range partitions {
		replicas, insync = min(replicas, len(p.ReplicaNodes)), min(insync, len(p.IsrNodes))
	}
	text = fmt.Sprintf("%d partitions, %d replicas, %d in sync", len(partitions), replicas, insync)
	if needed > 0 {
		text += fmt.Sprintf(", %s %d", minInsync, needed)
	}
	switch {
	case needed > replicas:
		return core.FindingProblem, text + ": writes with acks=all are refused", "lower " + minInsync + ", or add replicas"
	case insync == 0 || insync < needed:
		return core.FindingProblem, text + ": writes with acks=all are refused", "start the missing brokers"
	case replicas == 1:
		return core.FindingWarning, text + ": what one broker loses is lost", "use three replicas"
	case needed == 1:
		return core.FindingWarning, text + ": a write may be confirmed by one broker only", "set " + minInsync + " to 2"
	case needed == replicas:
		return core.FindingWarning, text + ": writes stop when one broker does", "use one replica more than " + minInsync
	}
	return core.FindingOK, text, ""
}

// diagnoseGroup asks any broker: the one that coordinates the group tells more, but the
// others tell whether the user may read in it.
func (c *Conn) diagnoseGroup(group string) core.Finding {
	f := core.Finding{Level: core.FindingOK, About: "group " + group, Text: "may be used"}
	answer, err := c.ask(&describegroups.Request{Groups: []string{group}})
	if err == nil {
		for _, g := range answer.(*describegroups.Response).Groups {
			if code := kafka.Error(g.ErrorCode); code != 0 && !errors.Is(code, kafka.NotCoordinatorForGroup) && !errors.Is(code, kafka.GroupCoordinatorNotAvailable) {
				err = code
			} else if len(g.Members) > 0 {
				f.Text = fmt.Sprintf("%d members read", len(g.Members))
			}
		}
	}
	if err != nil {
		f.Level, f.Text, f.Fix = core.FindingProblem, err.Error(), "allow the user to read in the group"
	}
	return f
}
