package forged

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

// answerTokens are those of an answer.
const answerTokens = 100

// logWriter writes to the token logs of a pipeline of the demo model.
type logWriter struct {
	t     *testing.T
	y     clustertest.Cluster
	conn  *bus.Conn
	names schemas.Streams
	log   *tokenlog.Log
	valve *clustertest.Valve
}

func newLogWriter(t *testing.T) *logWriter {
	t.Helper()
	valve := &clustertest.Valve{}
	y := clustertest.Start(t, clustertest.Demo(t), valve.In)
	conn := y.Conn(t)
	n := y.Settings.Node
	s := &logWriter{t: t, y: y, conn: conn, names: n.Names(), valve: valve}
	spec := n.Shared.Model.Spec
	s.log = tokenlog.New(conn, s.names, tokenlog.Settings{
		Writer: "other-writer", Rules: tokenlog.Rules{Model: s.model(), Vocab: spec.Vocab, Positions: spec.MaxPositions},
	})
	return s
}

// model is the model's part of the identity.
func (s *logWriter) model() (id uint64) {
	_, _ = fmt.Sscanf(s.y.Settings.Node.Shared.Model.Hash[:16], "%x", &id)
	return id
}

func (s *logWriter) publish(subject string, data []byte, header nats.Header) {
	s.t.Helper()
	if _, err := s.conn.JetStream().PublishMsg(s.t.Context(), &nats.Msg{Subject: subject, Data: data, Header: header}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *logWriter) put(request string, m proto.Message) {
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

// ask streams a seeded answer, and calls during once, early in it: the answer waits for that,
// however late this sees its beginning.
func (s *logWriter) ask(request string, during func()) (ids []uint32, end *pb.Chunk) {
	s.t.Helper()
	n, temperature, seed := int32(answerTokens), 0.8, uint32(7)
	if during != nil {
		s.valve.ShutAt(s.t, 3)
	}
	stream, err := s.y.Producer.Prompt(s.t.Context(), &pb.Prompt{
		RequestId: request, InputIds: compared.PromptIDs(1, 11, 8192), MaxTokens: &n, Temperature: &temperature, Seed: &seed, IgnoreEos: true,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for chunk, err := range stream.Chunks() {
		if err != nil {
			s.t.Fatal(err)
		}
		ids, end = append(ids, chunk.TokenIds...), chunk
		if len(ids) >= 3 && during != nil {
			during()
			s.valve.Open()
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
	s := newLogWriter(t)
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

// The stream of the token logs is deleted under a running request. Its answer is whole all the same,
// its producer hears of its end once, and the next request is served.
func TestLogsDeleted(t *testing.T) {
	t.Parallel()
	s := newLogWriter(t)
	inbox := s.conn.NATS().NewInbox()
	sub, err := s.conn.NATS().SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"input_ids":[5,6,7],"request_id":"r","max_tokens":200,"ignore_eos":true,"reply_to":%q}`, inbox)
	s.valve.ShutAt(t, 3)
	s.publish(s.names.Subjects.Prompt(), []byte(body), nil)
	if _, err := sub.NextMsg(testkit.Patience); err != nil {
		t.Fatal(err)
	}
	if err := s.conn.JetStream().DeleteStream(t.Context(), s.names.Tokens().Name); err != nil {
		t.Fatal(err)
	}
	s.valve.Open()
	ends := chunksUntilQuiet(t, sub)
	if len(ends) != 1 || ends[0].FinishReason != "length" || ends[0].Usage.GetCompletionTokens() != 200 {
		t.Errorf("ends %v", ends)
	}
	if got, end := s.ask("next", nil); len(got) != answerTokens {
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
	s := newLogWriter(t)
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
