package cluster_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// What a request has taken goes on with its next owner: it never falls from token to token,
// and the last chunk and its replay have that of the end.
func TestUsageSurvivesItsOwner(t *testing.T) {
	s := settings(t)
	var valve clustertest.Valve // it gives the first owner time to go
	valve.In(&s)
	profile, err := profiles.Open("a6000-mixtral")
	if err != nil {
		t.Fatal(err)
	}
	s.Services.Expert.Profile, s.Listen = profile, "127.0.0.1:0"
	s.Count["attention"] = 0
	y, err := cluster.Open(context.Background(), s) // the test's ends before its clean-up
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := y.Close(); err != nil {
			t.Error(err)
		}
	})
	leave, stopFirst := begun(t, process(t, y.URL(), schemas.HopsUnacked, "attention"))
	if err := y.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := y.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	heard := make(chan *nats.Msg, 1000)
	if _, err = conn.NATS().ChanSubscribe(schemas.NewSubjects(schemas.DefaultPrefix, "tiny").AnyToken(), heard); err != nil {
		t.Fatal(err)
	}
	c, stop, err := y.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	n := int32(120) // the first owner may go on for some steps when the valve opens
	valve.ShutAt(t, 3)
	stream, err := c.Prompt(t.Context(), &pb.Prompt{InputIds: []uint32{1, 2, 3}, MaxTokens: &n, IgnoreEos: true})
	if err != nil {
		t.Fatal(err)
	}
	var last *pb.Chunk
	for chunk, err := range stream.Chunks() {
		if err != nil {
			t.Fatal(err)
		}
		if last = chunk; chunk.Index == 2 {
			leave()
			valve.Open()
			stopFirst()
			running(t, process(t, y.URL(), schemas.HopsUnacked, "attention"))
		}
	}
	checkCosts(t, heard, last)
	checkReplay(t, c, last)
}

// checkCosts wants costs of tokens that never fall and are not 0, of two owners or more.
func checkCosts(t *testing.T, heard chan *nats.Msg, last *pb.Chunk) {
	t.Helper()
	before, owners, end := 0.0, map[uint64]bool{}, (*pb.Cost)(nil)
	testkit.Eventually(t, "the end's record", func() bool {
		for len(heard) > 0 {
			r := &pb.Record{}
			if err := proto.Unmarshal((<-heard).Data, r); err != nil {
				t.Fatal(err)
			}
			if token := r.GetToken(); token != nil {
				owners[r.Epoch] = true
				if now := token.Cost.GetExpertGbS(); now < before || now == 0 { // tokens of one step have one
					t.Errorf("token %d: %v GB·s after %v", token.Index, now, before)
				}
				before = token.Cost.GetExpertGbS()
			}
			if r.GetTerminal() != nil {
				end = r.GetTerminal().Cost
			}
		}
		return end != nil
	})
	if len(owners) < 2 || end.ExpertGbS < before || last.Usage.GetExpertGbS() != end.ExpertGbS {
		t.Errorf("%d owners; the end has %v, the last token %v, usage %v", len(owners), end, before, last.Usage)
	}
}

func checkReplay(t *testing.T, c *client.Client, last *pb.Chunk) {
	t.Helper()
	stream, err := c.Resume(t.Context(), last.RequestId, 200)
	if err != nil {
		t.Fatal(err)
	}
	var again *pb.Chunk
	for chunk, err := range stream.Chunks() {
		if err != nil {
			t.Fatal(err)
		}
		again = chunk
	}
	if !proto.Equal(again.GetUsage(), last.Usage) {
		t.Errorf("a replay has usage %v, the answer %v", again.GetUsage(), last.Usage)
	}
}
