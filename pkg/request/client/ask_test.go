package client

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// asked serves asks until the test ends; answer gets each with its number.
func asked(t *testing.T, answer func(f *fake, n int, to string, p *pb.Prompt), again func(*fake, string, *pb.Replay)) *Client {
	t.Helper()
	s := startServer(t)
	f, n := startFake(t, s, nil, again), 0
	f.subscribe(f.subjects.Ask(), func(m *nats.Msg) {
		p := &pb.Prompt{}
		if err := proto.Unmarshal(m.Data, p); err != nil {
			t.Errorf("reading the ask: %v", err)
		}
		n++
		answer(f, n, m.Reply, p)
	})
	if err := f.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return New(connect(t, s), fast)
}

func TestAsk(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(f *fake, n int, to string, p *pb.Prompt)
		again  func(*fake, string, *pb.Replay)
		text   string
		code   string
	}{
		"whole": {answer: func(f *fake, _ int, to string, p *pb.Prompt) { f.rest(to, p.RequestId, 3, 0) }, text: "0 1 2 "},
		"lost": {
			answer: func(f *fake, n int, to string, p *pb.Prompt) {
				if n > 1 {
					f.rest(to, p.RequestId, 2, 0)
				}
			},
			again: func(f *fake, to string, r *pb.Replay) { refuse(f, to, r.RequestId) }, text: "0 1 ",
		},
		"refused unread": {answer: func(f *fake, _ int, to string, _ *pb.Prompt) { f.chunk(to, refusal("", CodePayloadTooLarge)) }, code: CodePayloadTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := asked(t, tc.answer, tc.again).Ask(t.Context(), &pb.Prompt{Text: "hi"})
			if err != nil {
				t.Fatal(err)
			}
			text, last, err := read(stream)
			if err != nil || text != tc.text || tc.code != "" && code(Failure(last)) != tc.code {
				t.Errorf("%q, end %v, error %v", text, last, err)
			}
		})
	}
}

// An ask that no replica hears fails after a while; one that is too large is not sent.
func TestAskFails(t *testing.T) {
	c := New(connect(t, startServer(t)), Settings{Silence: 10 * time.Millisecond, Patience: 50 * time.Millisecond})
	stream, err := c.Ask(t.Context(), &pb.Prompt{Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := read(stream); code(err) != CodeInterrupted {
		t.Errorf("%v", err)
	}
	if _, err := c.Ask(t.Context(), &pb.Prompt{Text: string(make([]byte, 65<<10))}); code(err) != CodePayloadTooLarge {
		t.Errorf("%v", err)
	}
}

// A reader of a replay that leaves does not end the request.
func TestUntil(t *testing.T) {
	s := startServer(t)
	f := startFake(t, s, nil, func(f *fake, to string, r *pb.Replay) { f.send(to, r.RequestId, 9, 0) })
	stream, err := New(connect(t, s), Settings{Silence: testkit.Patience}).Resume(t.Context(), "r", 0)
	if err != nil {
		t.Fatal(err)
	}
	reading, leave := context.WithCancel(t.Context())
	defer leave()
	for c, err := range stream.Until(reading) {
		if c != nil {
			leave()
		} else if code(err) != CodeInterrupted {
			t.Errorf("%v", err)
		}
	}
	if _, _, n := f.counts(); n != 0 {
		t.Errorf("%d cancellations", n)
	}
}
