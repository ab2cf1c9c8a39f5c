//go:build unix

package rocketmqdoor

import "testing"

// TestCommittedAgain: what a member that had the queue before commits late is put
// right by the one that has it now, also if no more messages come.
func TestCommittedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic("-delayed", 1)
	r.fill(topic, 1, 5)
	r.run(r.intake([]string{topic}, nil))
	r.checkOnce(1, 5)
	eventually(t, "the commit", func() bool { return r.committed(topic, 0) == 5 })
	fields := map[string]string{"consumerGroup": r.name, "topic": topic, "queueId": "0", "commitOffset": "2"}
	if _, err := r.wire.ask(t.Context(), r.BrokerAddr(), request{code: requestCommit, fields: fields}, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the commit once more", func() bool { return r.committed(topic, 0) == 5 })
}
