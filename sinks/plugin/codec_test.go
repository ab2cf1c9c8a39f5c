package plugin

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/protobuf/proto"

	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// What is encoded is what the library encodes, in at most about twice the memory.
func TestCodecTakesWhatItNeeds(t *testing.T) {
	common := encoding.GetCodecV2(protocodec.Name)
	for _, size := range []int{0, 100, 10_000, 160_000, 3 << 20, 6 << 20} {
		request := &sinkv1.DeliverRequest{Messages: []*sinkv1.Message{{Topic: "t", Body: make([]byte, size)}}}
		want, err := proto.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := codec{common, bufferPool()}.Marshal(request)
		if err != nil || len(encoded) != 1 {
			t.Fatalf("%d pieces: %v", len(encoded), err)
		}
		got := encoded[0].ReadOnlyData()
		if !bytes.Equal(got, want) {
			t.Errorf("a body of %d bytes is encoded differently", size)
		}
		if most := 2*len(want) + 16<<10; cap(got) > most {
			t.Errorf("a body of %d bytes takes %d, want at most %d", size, cap(got), most)
		}
		encoded.Free()
	}
	if _, err := (codec{common, bufferPool()}).Marshal("text"); err == nil {
		t.Error("a text was encoded")
	}
}
