package main

import (
	"io"
	"strings"
	"testing"
)

func TestTableFitsTheTerminal(t *testing.T) {
	rows := [][]string{{"DUE", "ID", "ERROR"}, {"today", "order-4711", "the broker does not \x1banswer"}, {"today", "x", ""}}
	tests := map[int]string{
		0:  "DUE    ID          ERROR\ntoday  order-4711  the broker does not \\x1banswer\ntoday  x           \n",
		80: "DUE    ID          ERROR\ntoday  order-4711  the broker does not \\x1banswer\ntoday  x           \n",
		30: "DUE    ID          ERROR\ntoday  order-4711  the broker…\ntoday  x           \n",
		5:  "DUE    ID          ERROR\ntoday  order-4711  the bro…\ntoday  x           \n",
	}
	for width, want := range tests {
		var out strings.Builder
		if err := (printer{w: &out, width: width}).table(rows); err != nil || out.String() != want {
			t.Errorf("width %d: %v\n%swant\n%s", width, err, out.String(), want)
		}
	}
	if err := (printer{w: io.Discard, width: 80}).table(nil); err != nil {
		t.Error(err)
	}
}
