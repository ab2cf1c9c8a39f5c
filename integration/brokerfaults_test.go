//go:build unix

package integration

import (
	"net/http"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// server is a broker that can be treated badly.
type server interface {
	Kill()
	Start()
	Pause()
	Resume()
}

const (
	deadFor    = 5 * time.Second
	frozenFor  = 20 * time.Second
	maxDials   = 1.5 // a second: there is one probe a second, and one dial a probe
	blockedFor = 3 * time.Second
	// maxStall is for the leader of a partition that is killed: the cluster takes
	// three seconds to notice, and a busy machine with three nodes much longer.
	maxStall = 2 * recoverIn

	sender, senderSecret = "bridge", "bridge-secret"
)

// killed ends the broker as kill -9 does and starts it again.
func (r *trial) killed(broker server, addr string) {
	r.Helper()
	r.during("killed", func() {
		broker.Kill()
		poll.Until(r.T, recoverIn, "the sink pauses", func() bool { return r.bridge.stats("broker").Paused != "" })
		dials := r.countDials(addr, deadFor)
		r.Logf("%.1f connections a second were tried to a dead broker", dials)
		if dials > maxDials {
			r.Errorf("a dead broker costs %.1f connections a second", dials)
		}
	})
	broker.Start()
	r.recovered()
}

// blocked has the broker refuse to take anything for a while.
func (r *trial) blocked(what string, alarm func(on bool)) {
	r.Helper()
	r.during(what, func() {
		alarm(true)
		poll.Until(r.T, recoverIn, "the sink pauses", func() bool { return r.bridge.stats("broker").Paused != "" })
		time.Sleep(blockedFor)
	})
	alarm(false)
	r.recovered()
}

// moved ends the node that leads a partition, and starts it again when another
// does and the sink has caught up.
func (r *trial) moved(cluster *servers.KafkaCluster, what string, end func(*servers.Node)) {
	r.Helper()
	leader := cluster.Leader(r.target.topic, 0)
	r.during(what, func() {
		end(cluster.Node(leader))
		if next := cluster.Leader(r.target.topic, 0); next == leader {
			r.Fatalf("node %d leads, which has ended", leader)
		}
		r.recovered()
	})
	cluster.Node(leader).Start()
	r.recovered()
}

// frozen stops the broker's process for a while.
func (r *trial) frozen(broker server) {
	r.Helper()
	r.during("frozen", func() {
		broker.Pause()
		time.Sleep(frozenFor)
	})
	broker.Resume()
	r.recovered()
}

// missing sends to a topic that is not there, or is forbidden: its messages
// wait, the others go on, and when it is made it gets them.
func (r *trial) missing(what string, other *target, options map[string]string, fix func()) {
	r.Helper()
	l := newLedger(other)
	for _, id := range []string{what + "-1", what + "-2"} {
		m := other.message(id)
		m.Options = options
		l.post(r.T, r.bridge, []accepted{m})
		poll.Until(r.T, recoverIn, id+" is held back", func() bool {
			s := r.standing(id)
			return s.State == core.Retrying && s.Reason == core.TopicBlocked.String()
		})
	}
	before := r.bridge.stats("broker").Done
	poll.Until(r.T, recoverIn, "a topic that is "+what+" has not paused the sink, and messages to other topics go on", func() bool {
		s := r.bridge.stats("broker")
		return s.Paused == "" && s.Done.Delivered > before.Delivered+100
	})
	fix()
	r.Run(what, func(t *testing.T) { // its consumer ends here, and dials no dead broker later
		l.gather(t, other.consume(t), gatherIn)
		l.resolveLate()
		l.check(t)
		l.checkOnce(t, r.bridge.stats("broker").Done.Unknown-before.Unknown) // what was held back has cost no attempt
	})
}

// refused: what is known to be too large is not accepted.
func (r *trial) refused(m accepted) {
	r.Helper()
	receipts, err := r.bridge.insist([]entry{m.entry})
	if err != nil {
		r.Fatal(err)
	}
	if receipts[0].Status != http.StatusRequestEntityTooLarge || receipts[0].Field != "body" {
		r.Errorf("a body of %d bytes: %+v", len(m.Body), receipts[0])
	}
}

// dies: what only the broker knows to be too large becomes a dead letter, with
// its neighbours unharmed.
func (r *trial) dies(m accepted) {
	r.Helper()
	newLedger(r.target).post(r.T, r.bridge, []accepted{m})
	var s standing
	poll.Until(r, recoverIn, m.ID+" is a dead letter", func() bool {
		s = r.standing(m.ID)
		return s.State == core.Dead
	})
	if s.Reason != core.Permanent.String() {
		r.Errorf("%s is not a dead letter for good: %+v", m.ID, s)
	}
}

func (g *target) sized(id string, size int) accepted {
	m := g.message(id)
	m.Body = make([]byte, size)
	return m
}

func TestKafkaInTrouble(t *testing.T) {
	cluster := servers.Kafka(t, servers.KafkaOptions{Version: servers.Kafka4, Users: map[string]string{sender: senderSecret}})
	topic, small, later, forbidden := uniqueName("orders"), uniqueName("small"), uniqueName("later"), uniqueName("forbidden")
	cluster.CreateTopic(topic, 4)
	cluster.CreateTopic(small, 1, "max.message.bytes=10000")
	cluster.CreateTopic(forbidden, 1)
	cluster.Allow(sender, forbidden, servers.KafkaDescribe) // and so nothing else
	g := newKafkaTarget(cluster, topic)
	g.config["brokers"] = cluster.LoginAddrs()
	g.config["sasl"] = map[string]string{"mechanism": "plain", "username": sender, "password": senderSecret}
	r := newTrial(t, g)
	stop := r.load()
	r.missing("missing", newKafkaTarget(cluster, later), nil, func() { cluster.CreateTopic(later, 1) })
	r.missing("forbidden", newKafkaTarget(cluster, forbidden), nil, func() { cluster.Allow(sender, forbidden, servers.KafkaWrite) })
	r.refused(g.sized("huge", 1<<20))
	r.dies(newKafkaTarget(cluster, small).sized("large", 20_000))
	r.killed(cluster.Node(0), cluster.LoginAddrs()[0])
	r.frozen(cluster.Node(0))
	stop()
	r.finish()
}

// TestKafkaLeaderMoved takes the leader of a partition away by force and in good
// order, while the others go on.
func TestKafkaLeaderMoved(t *testing.T) {
	cluster := servers.Kafka(t, servers.KafkaOptions{Version: servers.Kafka4, Nodes: 3})
	topic := uniqueName("orders")
	cluster.CreateTopic(topic, 3) // of three replicas each, two of which confirm
	r := newTrial(t, newKafkaTarget(cluster, topic))
	stop := r.load()
	r.moved(cluster, "leader killed", (*servers.Node).Kill)
	r.moved(cluster, "leader stopped", (*servers.Node).Stop)
	stop()
	if stall := r.finish(); stall > maxStall {
		t.Errorf("messages waited for up to %s", stall)
	}
}

func TestRocketMQInTrouble(t *testing.T) {
	const largest = 128 << 10
	cluster := servers.RocketMQ(t, servers.RocketMQOptions{Logins: true, Config: []string{"maxMessageSize=131072"}})
	cluster.AddUser(sender, senderSecret)
	cluster.AllowToSend(sender, "orders-*", "later-*")
	topic, later, forbidden := uniqueName("orders"), uniqueName("later"), uniqueName("forbidden")
	cluster.CreateTopic(topic, 4)
	cluster.CreateTopic(forbidden, 1)
	g, addr := newRocketTarget(cluster, topic, asRocketAdmin()), cluster.BrokerAddr()
	g.config["access_key"], g.config["secret_key"] = sender, senderSecret
	r := newTrial(t, g)
	stop := r.load()
	r.missing("missing", newRocketTarget(cluster, later, asRocketAdmin()), nil, func() { cluster.CreateTopic(later, 1) })
	r.missing("forbidden", newRocketTarget(cluster, forbidden, asRocketAdmin()), nil, func() { cluster.AllowToSend(sender, forbidden) })
	r.refused(g.sized("huge", 4<<20))
	r.dies(g.sized("large", 2*largest))
	r.killed(cluster.Broker(), addr)
	r.frozen(cluster.Broker())
	stop()
	r.finish()
}

func TestRabbitMQInTrouble(t *testing.T) {
	server := servers.RabbitMQ(t)
	server.AddUser(sender, senderSecret, "", "^(?!forbidden)", "")
	queue, later, forbidden := uniqueName("orders"), uniqueName("later"), uniqueName("forbidden")
	declareQueue(t, server.URL(), queue)
	declareExchange(t, server.URL(), forbidden, queue+"-2")
	g := newRabbitTarget(server.URL(), queue)
	g.config["urls"] = []string{server.URLAs(sender, senderSecret)}
	r := newTrial(t, g)
	stop := r.load()
	r.missing("missing", newRabbitTarget(server.URL(), later), nil, func() { declareQueue(t, server.URL(), later) })
	r.missing("forbidden", newRabbitTarget(server.URL(), queue+"-2"), map[string]string{"exchange": forbidden},
		func() { server.Ctl("set_permissions", sender, "", ".*", "") })
	r.refused(g.sized("huge", 16<<20+1))
	r.blocked("out of memory", server.MemoryAlarm)
	r.blocked("out of disk", server.DiskAlarm)
	r.killed(server, server.Addr())
	r.frozen(server)
	stop()
	r.finish()
}
