package amqp

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/tlsfiles"
)

// diagnoseTimeout bounds each connection and question of a diagnosis.
const diagnoseTimeout = 3 * time.Second

// Diagnose connects to each of the nodes, and looks on the first that answers for queues,
// of which those of read are read from, and exchanges; see core.Diagnoser.
func (c *Cluster) Diagnose(ctx context.Context, read, queues, exchanges []string) []core.Finding {
	bounded := *c
	bounded.DialTimeout = min(c.DialTimeout, diagnoseTimeout)
	answers := make(chan *Connection, len(c.nodes))
	found := core.Findings(len(c.nodes), func(i int) (found []core.Finding) {
		n := c.nodes[i]
		n.tls = tlsfiles.Witness(n.tls, func(cert *x509.Certificate) { found = append(found, tlsfiles.Expiry(n.addr, cert)) })
		connection, err := bounded.dial(ctx, n)
		if err != nil {
			return append(found, core.Finding{Level: core.FindingProblem, About: n.addr, Text: err.Error(),
				Fix: "start the broker, or correct urls or tls"})
		}
		answers <- connection
		return append(found, core.Finding{Level: core.FindingOK, About: n.addr, Text: "answers, login included"})
	})
	close(answers)
	looked := false
	for connection := range answers {
		if !looked {
			found, looked = append(found, connection.diagnose(ctx, bounded.DialTimeout, read, queues, exchanges)...), true
		}
		connection.Close(nil)
	}
	return found
}

func (c *Connection) diagnose(ctx context.Context, timeout time.Duration, read, queues, exchanges []string) (found []core.Finding) {
	look := func(about string, ask func(*amqp091.Channel) (text, fix string, err error)) {
		f := core.Finding{Level: core.FindingOK, About: about}
		err := c.Within(ctx, timeout, func() error {
			channel, err := c.Channel() // a refusal ends it
			if err == nil {
				f.Text, f.Fix, err = ask(channel)
			}
			return err
		})
		switch {
		case err != nil:
			f.Level, f.Text, f.Fix = core.FindingProblem, err.Error(), "declare it, correct its name, or allow it to the user"
		case f.Fix != "":
			f.Level = core.FindingWarning
		}
		found = append(found, f)
	}
	for n, name := range slices.Concat(read, queues) {
		look("queue "+name, func(channel *amqp091.Channel) (text, fix string, err error) {
			q, err := channel.QueueDeclarePassive(name, true, false, false, false, nil)
			text = fmt.Sprintf("%d messages, %d consumers", q.Messages, q.Consumers)
			if err == nil && n < len(read) && c.LimitsDeliveries() {
				more, fix := c.diagnoseLimit(name)
				return text + more, fix, nil
			}
			return text, "", err
		})
	}
	for _, name := range exchanges {
		look("exchange "+name, func(channel *amqp091.Channel) (text, fix string, err error) {
			return "exists", "", channel.ExchangeDeclarePassive(name, amqp091.ExchangeDirect, true, false, false, false, nil)
		})
	}
	return found
}

func (c *Connection) diagnoseLimit(queue string) (text, fix string) {
	switch limit, err := c.DeliveryLimit(queue); {
	case err != nil:
		return ", delivery limit can't be read: " + err.Error(), "allow the user to configure the queue, or check x-delivery-limit yourself"
	case limit != "":
		return ", drops a message after this number of deliveries: " + limit, "declare it again with x-delivery-limit -1, or have a policy set a high delivery-limit and a dead letter exchange"
	}
	return ", no delivery limit but what a policy may set", ""
}
