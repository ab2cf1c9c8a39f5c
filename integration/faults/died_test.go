//go:build unix

package main

import (
	"slices"
	"testing"
)

// TestDied: a dead letter has to be one that the row asked for, by its first
// attempt, and with the reason.
func TestDied(t *testing.T) {
	mortal := with(accepted(), func(e *entry) { e.Mortal = true })
	death := entry{Kind: dying, Name: "m", ID: "m", Code: "permanent", Attempt: 1, Call: at(1200), Return: at(1200)}
	for _, test := range []struct {
		name    string
		entries []entry
		want    []string
	}{
		{"as it should", []entry{mortal, death}, nil},
		{"it may live", []entry{mortal, arrived(1001, 1)}, nil},
		{"but not be lost", []entry{mortal}, []string{"L1"}},
		{"nobody caused it", []entry{accepted(), death}, []string{"L1"}},
		{"tried again and again", []entry{mortal, with(death, func(e *entry) { e.Attempt = 16 })}, []string{"L1"}},
		{"for another reason", []entry{mortal, with(death, func(e *entry) { e.Code = "attempts" })}, []string{"L1"}},
		{"dead and delivered", []entry{mortal, arrived(1001, 1), death}, []string{"L1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			findings := testLaws().check(ledgerOf(test.entries...))
			if got := lawsOf(findings); !slices.Equal(got, test.want) {
				t.Errorf("broken are %q, want %q: %v", got, test.want, findings)
			}
		})
	}
}

// TestDeathsOfAStall: what has used up its attempts is the one death that a
// machine which stalls may cause.
func TestDeathsOfAStall(t *testing.T) {
	for code, want := range map[string]bool{"attempts": true, "permanent": false, "expired": false} {
		death := entry{Kind: dying, Name: "m", ID: "m", Code: code, Attempt: 16, Call: at(1200), Return: at(1200)}
		findings := testLaws().check(ledgerOf(accepted(), death))
		if got := len(findings) > 0 && excusable(findings); got != want {
			t.Errorf("%s: %t, %v", code, got, findings)
		}
	}
}

// TestCleanFaultExplainsNothing: what was refused has no reason to arrive twice.
func TestCleanFaultExplainsNothing(t *testing.T) {
	for _, clean := range []bool{false, true} {
		l := ledgerOf(accepted(), arrived(1001, 1), arrived(3500, 2))
		l.faults = []fault{{What: "refused", From: at(900), To: at(2000), Clean: clean}}
		if got := len(testLaws().check(l)) > 0; got != clean {
			t.Errorf("clean %t: found %t", clean, got)
		}
	}
}
