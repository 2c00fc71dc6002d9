package chaos

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/loadtest/fleet"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Answers with logits take 15 MB each; who may ask for them again may do so
// often. More at once than a server keeps for a client had it cut the
// tokenizers off again and again, and every other answer with them.
const (
	largeAnswers = 12
	readersEach  = 16
	scored       = 440
)

func TestReplaysOfLargeAnswers(t *testing.T) {
	if wanted(t) == short {
		t.Skip("this takes a minute: set SWITCHYARD_CHAOS to 1 or long")
	}
	y := startPipeline(t, fleet.Build(t), "unacked")
	y.Scale(2, 2)
	y.alone()
	nc := connect(t, y.URL())
	for i := range largeAnswers {
		y.scoreAll(nc, i)
	}
	y.batch("replays-of-large-answers", func() {
		for range readersEach {
			for i := range largeAnswers {
				y.replayLarge(nc, i)
			}
		}
	})
}

func largeID(i int) string { return fmt.Sprintf("large-%d", i) }

// scoreAll makes an answer with the logits of all positions.
func (y *pipeline) scoreAll(nc *nats.Conn, i int) {
	y.T.Helper()
	p := &pb.Prompt{RequestId: largeID(i), InputIds: make([]uint32, scored), MaxTokens: proto.Int32(1), Score: "logits"}
	for k := range p.InputIds {
		p.InputIds[k] = uint32(1 + (i+7*k)%8000)
	}
	stream, err := client.New(nc, client.Settings{}).Prompt(y.T.Context(), p)
	if err != nil {
		y.T.Fatal(err)
	}
	for c, err := range stream.Chunks() {
		if err == nil {
			err = client.Failure(c)
		}
		if err != nil {
			y.T.Fatal(err)
		}
	}
}

// replayLarge asks for it again, and reads nothing but what the client library does.
func (y *pipeline) replayLarge(nc *nats.Conn, i int) {
	y.T.Helper()
	inbox := nc.NewInbox()
	body, err := proto.Marshal(&pb.Replay{RequestId: largeID(i)})
	if err == nil {
		_, err = nc.Subscribe(inbox, func(*nats.Msg) {})
	}
	if err == nil {
		err = nc.PublishMsg(&nats.Msg{
			Subject: schemas.NewSubjects(schemas.DefaultPrefix, "demo").Replay(), Reply: inbox, Data: body,
			Header: nats.Header{schemas.HeaderContentType: {schemas.ContentProtobuf}},
		})
	}
	if err != nil {
		y.T.Fatal(err)
	}
}
