package kafkaconn

import (
	"testing"

	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/delaybridge/delaybridge/core"
)

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		replicas, insync, needed int
		want                     string
	}{
		{3, 3, 2, core.FindingOK},
		{3, 2, 2, core.FindingOK},
		{3, 3, 0, core.FindingOK}, // not known
		{3, 3, 1, core.FindingWarning},
		{3, 3, 3, core.FindingWarning},
		{1, 1, 1, core.FindingWarning},
		{3, 1, 2, core.FindingProblem},
		{3, 0, 0, core.FindingProblem},
		{2, 2, 3, core.FindingProblem},
	} {
		good := metadata.ResponsePartition{ReplicaNodes: make([]int32, 5), IsrNodes: make([]int32, 5)}
		level, text, fix := judge([]metadata.ResponsePartition{good, {ReplicaNodes: make([]int32, test.replicas), IsrNodes: make([]int32, test.insync)}}, test.needed)
		if level != test.want || text == "" || (fix == "") != (level == core.FindingOK) {
			t.Errorf("%+v: %s, %s, %s", test, level, text, fix)
		}
	}
}
