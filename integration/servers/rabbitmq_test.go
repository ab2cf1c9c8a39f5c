//go:build unix

package servers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestRabbitMQ(t *testing.T) {
	t.Parallel()
	server := servers.RabbitMQ(t)
	publishDurable(t, server.URL(), "kept")
	server.Kill()
	if conn, err := amqp.Dial(server.URL()); err == nil {
		conn.Close()
		t.Fatal("answers after Kill")
	}
	server.Start()
	t.Run("keeps what it confirmed", func(t *testing.T) {
		channel := amqpChannel(t, server.URL())
		if m, ok, err := channel.Get("kept", true); err != nil || !ok || string(m.Body) != "body" {
			t.Errorf("after kill and start: %q, %t, %v", m.Body, ok, err)
		}
	})
	t.Run("a command while the node starts", func(t *testing.T) {
		server.Ctl("stop_app")
		started := make(chan struct{})
		go func() {
			defer close(started)
			server.Ctl("start_app")
		}()
		if got := server.Ctl("list_queues", "name"); !strings.Contains(got, "kept") {
			t.Errorf("queues are %q", got)
		}
		<-started
	})
	t.Run("users", func(t *testing.T) {
		server.AddUser("reader", "secret", "^$", "^$", ".*")
		channel := amqpChannel(t, server.URLAs("reader", "secret"))
		_, err := channel.QueueDeclare("refused", false, false, false, false, nil)
		if e, ok := err.(*amqp.Error); !ok || e.Code != amqp.AccessRefused {
			t.Errorf("declare without permission: %v", err)
		}
	})
	t.Run("memory alarm", func(t *testing.T) { testAlarm(t, server.URL(), server.MemoryAlarm) })
	t.Run("disk alarm", func(t *testing.T) { testAlarm(t, server.URL(), server.DiskAlarm) })
	t.Run("pause", func(t *testing.T) {
		server.Pause()
		answered := make(chan error, 1)
		go func() {
			conn, err := amqp.Dial(server.URL())
			if err == nil {
				conn.Close()
			}
			answered <- err
		}()
		select {
		case err := <-answered:
			t.Fatalf("answered while paused: %v", err)
		case <-time.After(300 * time.Millisecond):
		}
		server.Resume()
		if err := <-answered; err != nil {
			t.Errorf("after Resume: %v", err)
		}
	})
}

func testAlarm(t *testing.T, url string, alarm func(on bool)) {
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	alarm(true)
	// The server tells a connection that it is blocked when it publishes.
	if err := channel.PublishWithContext(t.Context(), "", "nobody", false, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		select {
		case b := <-blocked:
			if b.Active != want {
				t.Errorf("blocked = %t, want %t", b.Active, want)
			}
		case <-time.After(patience):
			t.Fatalf("not told that blocked = %t", want)
		}
		alarm(false)
	}
}

func publishDurable(t *testing.T, url, queue string) {
	t.Helper()
	channel := amqpChannel(t, url)
	if _, err := channel.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	confirm, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("body")})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
		t.Fatalf("not confirmed: %v", err)
	}
}

func amqpChannel(t *testing.T, url string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return channel
}
