package source

import "testing"

func TestLag(t *testing.T) {
	var a Assigned[*Position]
	if lag := a.Lag(); lag != -1 {
		t.Errorf("nothing assigned: %d", lag)
	}
	one, two := new(Position), new(Position)
	a.Set([]*Position{one, two})
	one.End.Store(7)
	one.Parked.Store(5)
	two.Parked.Store(3) // and where it ends is not known yet
	if lag := a.Lag(); lag != 2 {
		t.Errorf("lag %d, want 2", lag)
	}
	if a.Set(nil); a.Lag() != -1 {
		t.Error("a lag of nothing")
	}
}
