// Useclient uses the client that oapi-codegen has generated: useclient URL.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	client, err := NewClientWithResponses(os.Args[1])
	fatal(err)
	s := sender{client, context.Background()}
	s.send()
	s.batch()
	s.list()
	s.change()
	s.redrive()
	s.errors()
	additions()
}

type sender struct {
	*ClientWithResponses
	ctx context.Context
}

func message(id, topic string) Message {
	return Message{Id: new(id), Sink: new("console"), Topic: topic, Delay: new("1h")}
}

func (s sender) send() {
	at := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	m := message("order/42+1", "reminders")
	m.Key, m.Body, m.Delay, m.DeliverAt = new("42"), new(any(map[string]int{"order": 42})), nil, &at
	m.Headers = &[]Header{{Name: "trace", Value: new("a1")}}
	first, err := s.AcceptMessageWithResponse(s.ctx, m)
	fatal(err)
	expect("the receipt", first.JSON201.State, "scheduled")
	again, err := s.AcceptMessageWithResponse(s.ctx, m)
	fatal(err)
	expect("a repeat", *again.JSON200.Duplicate, true)
	done("send")

	got := s.get("order/42+1", &GetMessageParams{Key: new("42")})
	expect("the message", []any{got.Id, *got.Topic, *got.Key, *got.Body, got.Attempt}, []any{"order/42+1", "reminders", "42", `{"order":42}`, 0})
	expect("its header", []any{(*got.Headers)[0].Name, *(*got.Headers)[0].Value}, []any{"trace", "a1"})
	expect("its time", got.Due.Equal(at), true)
	done("get")
}

func (s sender) get(id string, params *GetMessageParams) *Entry {
	got, err := s.GetMessageWithResponse(s.ctx, id, params)
	fatal(err)
	if got.JSON200 == nil {
		log.Fatalf("get %s: %s", id, got.Body)
	}
	return got.JSON200
}

func (s sender) batch() {
	binary, wrong, text := message("batch-0", "batch"), message("batch-1", "batch"), message("batch-2", "batch")
	binary.BodyBase64, wrong.Delay, text.Body = &[]byte{0, 255}, new("soon"), new(any("text"))
	answer, err := s.AcceptBatchWithResponse(s.ctx, []Message{binary, wrong, text})
	fatal(err)
	results := *answer.JSON200
	expect("the answers", []int{results[0].Status, results[1].Status, results[2].Status}, []int{201, 400, 201})
	expect("the receipt", *results[2].State, "scheduled")
	expect("the refusal", []any{*results[1].Code, *results[1].Field, results[1].Stored}, []any{"invalid", "delay", false})
	expect("the bytes", *s.get("batch-0", nil).BodyBase64, []byte{0, 255})
	expect("the text", *s.get("batch-2", nil).Body, "text")
	done("batch")
}

func (s sender) list() {
	var messages []Message
	sent := []string{"listed-0", "listed-1", "listed-2", "listed-3"}
	for _, id := range sent {
		messages = append(messages, message(id, "list"))
	}
	_, err := s.AcceptBatchWithResponse(s.ctx, messages)
	fatal(err)
	var listed []string
	query := ListMessagesParams{Topic: new("list"), Sink: &[]string{"console"}, Limit: new(1)}
	for more := true; more; more = query.Cursor != nil {
		page, err := s.ListMessagesWithResponse(s.ctx, &query)
		fatal(err)
		for _, entry := range page.JSON200.Messages {
			listed = append(listed, entry.Id)
		}
		query.Cursor = page.JSON200.NextCursor
	}
	slices.Sort(listed)
	expect("what the pages have", listed, sent)
	done("list in pages")
}

func (s sender) change() {
	moved, err := s.RescheduleWithResponse(s.ctx, "order/42+1", &RescheduleParams{Key: new("42")}, When{Delay: new("2h")})
	fatal(err)
	due := s.get("order/42+1", &GetMessageParams{Key: new("42")}).Due
	expect("the new time", due.Equal(*moved.JSON200.DeliverAt), true)
	expect("later", time.Until(*due) > 90*time.Minute, true)
	done("reschedule")

	cancelled, err := s.CancelWithResponse(s.ctx, "order/42+1", &CancelParams{Key: new("42")})
	fatal(err)
	expect("the receipt", []any{cancelled.JSON200.State, cancelled.JSON200.MayHaveBeenSent}, []any{"cancelled", false})
	done("cancel")
}

func (s sender) redrive() {
	_, err := s.AcceptMessageWithResponse(s.ctx, Message{Id: new("dead"), Sink: new("unreachable"), Topic: "queue", Delay: new("0s"), Ttl: new("1ms")})
	fatal(err)
	for end := time.Now().Add(30 * time.Second); len(s.dead()) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			log.Fatal("no dead letter in time")
		}
	}
	expect("the dead letter", []string{s.dead()[0].Id, s.dead()[0].State}, []string{"dead", "expired"})
	redriven, err := s.RedriveWithResponse(s.ctx, "dead", &RedriveParams{Sink: new("unreachable")})
	fatal(err)
	expect("the state", redriven.JSON200.State, "scheduled")
	expect("dead letters", len(s.dead()), 0)
	done("redrive")
}

func (s sender) dead() []Entry {
	page, err := s.ListDeadWithResponse(s.ctx, nil)
	fatal(err)
	return page.JSON200.Messages
}

func (s sender) errors() {
	invalid, err := s.AcceptMessageWithResponse(s.ctx, message("x", ""))
	problem := failed(err, "invalid", 400, invalid.ApplicationproblemJSON400)
	expect("what is invalid", []any{*problem.Field, problem.Stored}, []any{"topic", false})
	cursor, err := s.ListMessagesWithResponse(s.ctx, &ListMessagesParams{Cursor: new("other")})
	failed(err, "bad_cursor", 400, cursor.ApplicationproblemJSON400)
	absent, err := s.GetMessageWithResponse(s.ctx, "nothing", nil)
	failed(err, "not_found", 404, absent.ApplicationproblemJSON404)
	conflict, err := s.AcceptMessageWithResponse(s.ctx, message("listed-0", "other"))
	failed(err, "conflict", 409, conflict.ApplicationproblemJSON409)
	late, err := s.CancelWithResponse(s.ctx, "order/42+1", &CancelParams{Key: new("42")})
	problem = failed(err, "too_late", 409, late.ApplicationproblemJSON409)
	expect("why", []any{*problem.State, problem.Changed}, []any{"cancelled", false})
	m := message("large", "large")
	m.Body = new(any(strings.Repeat("x", 2<<20)))
	large, err := s.AcceptMessageWithResponse(s.ctx, m)
	failed(err, "too_large", 413, large.ApplicationproblemJSON413)
	for _, key := range []string{"1", "2"} {
		m := message("two", "two")
		m.Key = &key
		_, err := s.AcceptMessageWithResponse(s.ctx, m)
		fatal(err)
	}
	two, err := s.GetMessageWithResponse(s.ctx, "two", nil)
	failed(err, "ambiguous", 409, two.ApplicationproblemJSON409)
}

// failed expects a problem in the generated type.
func failed(err error, code string, status int, problem *Problem) *Problem {
	fatal(err)
	if problem == nil {
		log.Fatalf("there was no error %s", code)
	}
	expect("the error", []any{problem.Code, problem.Status, problem.Detail != ""}, []any{code, status, true})
	done("error " + code)
	return problem
}

// additions of a newer bridge don't break the client.
func additions() {
	var receipt Receipt
	fatal(json.Unmarshal([]byte(`{"id":"1","sink":"s","state":"new","durability":"new","new":{"a":[1]}}`), &receipt))
	expect("the state", receipt.State, "new")
	done("additions")
}

func expect(what string, got, want any) {
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if !reflect.DeepEqual(got, want) && !bytes.Equal(a, b) {
		log.Fatalf("%s: got %s, want %s", what, a, b)
	}
}

func fatal(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func done(step string) { fmt.Println("done: " + step) }
