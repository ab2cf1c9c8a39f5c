package sinktest

import (
	"io"
	"net"
	"testing"
	"time"
)

// echo is a target that says what it hears. heard receives every byte.
func echo(t *testing.T) (addr string, heard chan byte) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	heard = make(chan byte, 100)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for one := make([]byte, 1); ; {
					if _, err := c.Read(one); err != nil {
						return
					}
					heard <- one[0]
					if _, err := c.Write(one); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), heard
}

// ask sends one byte and returns the error of reading it back.
func ask(t *testing.T, c net.Conn, patience time.Duration) error {
	t.Helper()
	if _, err := c.Write([]byte{'x'}); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func timedOut(err error) bool {
	n, ok := err.(net.Error)
	return ok && n.Timeout()
}

func TestWire(t *testing.T) {
	target, heard := echo(t)
	wire := NewWire(t)
	faults := wire.Faults()
	dial := func() net.Conn {
		c, err := wire.Dial(t.Context(), "tcp", target)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	works := func(c net.Conn) {
		t.Helper()
		if err := ask(t, c, 10*time.Second); err != nil {
			t.Fatalf("in good times: %v", err)
		}
		<-heard
	}
	broken := func(c net.Conn) {
		t.Helper()
		if err := ask(t, c, 10*time.Second); err == nil || timedOut(err) {
			t.Errorf("on a connection that was cut: %v, want it to be broken", err)
		}
	}

	c := dial()
	works(c)
	faults.Cut(t)
	broken(c)

	c = dial()
	works(c)
	heal := faults.Down(t)
	broken(c)
	if c, err := wire.Dial(t.Context(), "tcp", target); err == nil {
		broken(c)
		c.Close()
	}
	heal()

	c = dial()
	works(c)
	heal = faults.Stall(t)
	if err := ask(t, c, 50*time.Millisecond); !timedOut(err) {
		t.Errorf("while stalled: %v, want silence", err)
	}
	if len(heard) > 0 {
		t.Error("the target heard something while stalled")
	}
	heal()
	<-heard // what was written comes through, late

	c = dial()
	works(c)
	heal = faults.LoseReplies(t)
	if err := ask(t, c, 50*time.Millisecond); !timedOut(err) {
		t.Errorf("while replies are lost: %v, want silence", err)
	}
	<-heard
	heal()
	broken(c)
	works(dial())
}
