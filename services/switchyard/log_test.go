package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// logAdversary writes to the token logs of a pipeline of the demo model.
type logAdversary struct {
	t     *testing.T
	y     *cluster.Cluster
	conn  *bus.Conn
	names schemas.Streams
	log   *tokenlog.Log
}

func newLogAdversary(t *testing.T, change ...func(*UpCmd)) *logAdversary {
	t.Helper()
	change = append([]func(*UpCmd){func(up *UpCmd) { up.MaxModelLen = 512 }}, change...)
	y := startPipeline(t, "../../models/demo", tensor.BF16, schemas.HopsUnacked, 1, change...)
	conn, err := y.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	n := y.Settings.Node
	s := &logAdversary{t: t, y: y, conn: conn, names: n.Names()}
	spec := n.Shared.Model.Spec
	s.log = tokenlog.New(conn, s.names, tokenlog.Settings{
		Writer: "other-writer", Rules: tokenlog.Rules{Model: s.model(), Vocab: spec.Vocab, Positions: spec.MaxPositions},
	})
	return s
}

// model is the model's part of the identity.
func (s *logAdversary) model() (id uint64) {
	_, _ = fmt.Sscanf(s.y.Settings.Node.Shared.Model.Hash[:16], "%x", &id)
	return id
}

func (s *logAdversary) publish(subject string, data []byte, header nats.Header) {
	s.t.Helper()
	if _, err := s.conn.JetStream().PublishMsg(s.t.Context(), &nats.Msg{Subject: subject, Data: data, Header: header}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *logAdversary) put(request string, m proto.Message) {
	s.t.Helper()
	if r, ok := m.(*pb.Record); ok {
		r.Format = schemas.RecordFormat
	}
	data, err := proto.Marshal(m)
	if err != nil {
		s.t.Fatal(err)
	}
	s.publish(s.names.Subjects.Token(request), data, nil)
}

// ask streams a seeded answer, and calls during once, early in it.
func (s *logAdversary) ask(request string, during func()) (ids []uint32, end *pb.Chunk) {
	s.t.Helper()
	c := client.New(s.conn.NATS(), client.Settings{Prefix: s.names.Subjects.Prefix, Model: s.names.Subjects.Model})
	n, temperature, seed := int32(300), 0.8, uint32(7)
	stream, err := c.Prompt(s.t.Context(), &pb.Prompt{
		RequestId: request, InputIds: promptIDs(1, 11, 8192), MaxTokens: &n, Temperature: &temperature, Seed: &seed, IgnoreEos: true,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for chunk, err := range stream.Chunks() {
		if err != nil {
			s.t.Fatal(err)
		}
		ids, end = append(ids, chunk.TokenIds...), chunk
		if len(ids) == 3 && during != nil {
			during()
			during = nil
		}
	}
	return ids, end
}

// Foreign messages in a running request's log, a sequence of another version
// for it, and an owner that claims it and dies after forging a token: the
// answer is that of an undisturbed run.
func TestLogUnderAttack(t *testing.T) {
	t.Parallel()
	s := newLogAdversary(t)
	want, _ := s.ask("undisturbed", nil)
	got, end := s.ask("victim", func() {
		s.put("victim", &pb.Chunk{RequestId: "victim", Index: 3, Text: "x", FinishReason: "stop", Usage: &pb.Usage{PromptTokens: 1}})
		s.publish(s.names.Subjects.Token("victim"), []byte{0xff, 0xff}, nil)
		s.publish(s.names.Subjects.Token("victim"), nil, nats.Header{"Status": {"100"}})
		s.put("victim", &pb.Record{Epoch: 1, Kind: &pb.Record_Token{Token: &pb.Token{Index: 3, Id: 1 << 30}}})
		foreign, _ := proto.Marshal(&pb.Sequence{Identity: &pb.Identity{Version: 99}, RequestId: "victim", PromptIds: []uint32{1}, MaxTokens: 1})
		s.publish(s.names.Subjects.Sequence(), foreign, nil)
		opened, err := s.log.Opening(t.Context(), "victim")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.log.Claim(t.Context(), "victim", opened, tokenlog.WriterSettings{}); err != nil {
			t.Fatal(err)
		}
		s.put("victim", &pb.Record{Epoch: 2, Kind: &pb.Record_Token{Token: &pb.Token{Index: 40, Id: 1 << 30}}})
	})
	if !slices.Equal(got, want) || end.FinishReason != "length" {
		t.Errorf("%d tokens, ended by %q %v; want the %d of an undisturbed run", len(got), end.FinishReason, end.Error, len(want))
	}
}

// The stream of the token logs is deleted under a running request. It ends with
// an error, its producer hears of it once, and the next request is served.
func TestLogsDeleted(t *testing.T) {
	t.Parallel()
	s := newLogAdversary(t)
	inbox := s.conn.NATS().NewInbox()
	sub, err := s.conn.NATS().SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"input_ids":[5,6,7],"request_id":"r","max_tokens":500,"ignore_eos":true,"reply_to":%q}`, inbox)
	s.publish(s.names.Subjects.Prompt(), []byte(body), nil)
	if _, err := sub.NextMsg(testkit.Patience); err != nil {
		t.Fatal(err)
	}
	if err := s.conn.JetStream().DeleteStream(t.Context(), s.names.Tokens().Name); err != nil {
		t.Fatal(err)
	}
	ends := chunksUntilQuiet(t, sub)
	if len(ends) != 1 || ends[0].Error.GetCode() != "internal" {
		t.Errorf("ends %v", ends)
	}
	if got, end := s.ask("next", nil); len(got) != 300 {
		t.Errorf("the next request has %d tokens, ended by %v", len(got), end)
	}
}

// chunksUntilQuiet returns the ends that come, and waits a little for more.
func chunksUntilQuiet(t *testing.T, sub *nats.Subscription) (ends []*pb.Chunk) {
	t.Helper()
	for within := testkit.Patience; ; {
		m, err := sub.NextMsg(within)
		if err != nil {
			return ends
		}
		c := &pb.Chunk{}
		if err := protojson.Unmarshal(m.Data, c); err != nil {
			t.Fatal(err)
		}
		if c.FinishReason != "" {
			ends, within = append(ends, c), 3*time.Second // longer than a redelivery takes
		}
	}
}

// A sequence whose token log is gone, as when it waited for longer than logs
// are kept, ends with an error that its producer gets.
func TestSequenceOutlivesItsLog(t *testing.T) {
	t.Parallel()
	s := newLogAdversary(t)
	inbox := s.conn.NATS().NewInbox()
	sub, err := s.conn.NATS().SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	id := &pb.Identity{Version: schemas.Version, Model: s.model()}
	data, err := proto.Marshal(&pb.Sequence{
		Identity: id, RequestId: "old", PromptIds: []uint32{5, 6, 7}, MaxTokens: 9, Sampling: &pb.Sampling{Logprobs: -1},
		Accept: &pb.Accept{Identity: id, ReplyTo: inbox, Encoding: pb.Encoding_ENCODING_JSON, PromptSequence: 77, PromptTokens: 3, MaxTokens: 9},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.publish(s.names.Subjects.Sequence(), data, nil)
	if ends := chunksUntilQuiet(t, sub); len(ends) != 1 || ends[0].Error.GetCode() != "internal" {
		t.Errorf("ends %v", ends)
	}
}

// More requests with large scores come at once than a small token log can take.
// Each is answered whole or refused before anything is computed for it, and they leave
// room for small ones.
func TestSmallLog(t *testing.T) {
	t.Parallel()
	s := newLogAdversary(t, func(up *UpCmd) { up.LogBytes = "1MiB" })
	if err := s.score("alone", 40); err == nil || err.Code != "payload_too_large" || !strings.Contains(err.Message, "1048576") {
		t.Errorf("more than the bound: %v", err)
	}
	var work sync.WaitGroup
	var refused, whole atomic.Int32
	for i := range 16 {
		work.Go(func() {
			switch err := s.score(fmt.Sprint("r", i), 3); {
			case err == nil:
				whole.Add(1)
			case err.Code == "overloaded" && strings.Contains(err.Message, s.names.Tokens().Name) && strings.Contains(err.Message, "1048576"):
				refused.Add(1)
			default:
				t.Errorf("r%d: %v", i, err)
			}
		})
	}
	work.Wait()
	if refused.Load() == 0 || whole.Load() < 4 {
		t.Errorf("%d refused, %d answered", refused.Load(), whole.Load())
	}
	for i := range 8 {
		if err := s.small(fmt.Sprint("small", i)); err != nil {
			t.Errorf("a small one beside what large ones left: %v", err)
		}
	}
}

// score asks for the logits of a prompt and two tokens, small for two tokens.
func (s *logAdversary) score(request string, prompt int) *client.Error {
	s.t.Helper()
	return s.whole(&pb.Prompt{RequestId: request, InputIds: promptIDs(1, prompt, 8192), MaxTokens: proto.Int32(2), Score: "logits", IgnoreEos: true})
}

func (s *logAdversary) small(request string) *client.Error {
	s.t.Helper()
	return s.whole(&pb.Prompt{RequestId: request, InputIds: promptIDs(1, 3, 8192), MaxTokens: proto.Int32(2), IgnoreEos: true})
}

// whole asks. A refusal is returned; an answer that is cut off, or has records that
// are gone, is a fault.
func (s *logAdversary) whole(p *pb.Prompt) *client.Error {
	s.t.Helper()
	c := client.New(s.conn.NATS(), client.Settings{Prefix: s.names.Subjects.Prefix, Model: s.names.Subjects.Model})
	stream, err := c.Prompt(s.t.Context(), p)
	chunks := 0
	if err == nil {
		for chunk, failed := range stream.Chunks() {
			if err = failed; err == nil {
				err = client.Failure(chunk)
			}
			if err != nil {
				break
			}
			chunks++
		}
	}
	var refused *client.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && chunks == 0:
		return refused
	}
	s.t.Errorf("%s ended with %v after %d chunks", p.RequestId, err, chunks)
	return nil
}
