package bench

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// openTiny opens a pipeline of a tiny model.
func openTiny(ctx context.Context, m *model.Model, logs func(*bus.Conn) bus.LogStore) (*cluster.Cluster, error) {
	s, err := clustertest.Settings(ctx, m, tensor.BF16, schemas.HopsUnacked)
	if err != nil {
		return nil, err
	}
	s.Node.KeepModel, s.Node.Shared.LogStore = true, logs
	return cluster.Open(ctx, s)
}

// tinyBench measures two pipelines of a tiny model, one of which keeps no token logs.
func tinyBench(t *testing.T) *Bench {
	t.Helper()
	m, err := model.Synthetic("tiny", Seed)
	if err != nil {
		t.Fatal(err)
	}
	threads := pool.New(1)
	t.Cleanup(threads.Close)
	b := &Bench{settings: Settings{
		Model: m, Pool: threads, Hops: "unacked", Rounds: 1, Progress: func(string, ...any) {},
		Open: func(ctx context.Context, _ string) (*cluster.Cluster, error) { return openTiny(ctx, m, nil) },
		Unkept: func(ctx context.Context, _ string, logs *Unkept) (*cluster.Cluster, error) {
			return openTiny(ctx, m, logs.On)
		},
	}}
	if b.pipeline, err = b.openPipeline(t.Context(), "unacked"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Without token logs the pipeline gives the same tokens, and nothing is kept of them;
// both can take turns.
func TestUnkept(t *testing.T) {
	b, logs := tinyBench(t), &Unkept{}
	unkept, err := b.openUnkept(t.Context(), logs)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unkept.close(); err != nil {
			t.Error(err)
		}
	}()
	kept, got := answer(t, b.pipeline), answer(t, unkept)
	if len(kept) != 24 || !slices.Equal(got, kept) {
		t.Errorf("%v, kept: %v", got, kept)
	}
	for side, want := range map[*pipelineSide]bool{b.pipeline: true, unkept: false} {
		conn, err := side.cluster.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		state, err := conn.State(t.Context(), side.cluster.Settings.Node.Names().Tokens().Name)
		conn.Close()
		if err != nil || state.Messages > 0 != want {
			t.Errorf("the stream of token logs has %d messages (%v), want some: %v", state.Messages, err, want)
		}
	}
	readAgain(t, unkept)
	p, err := b.pair(t.Context(), "guarantees", unkept, b.pipeline, 2, 24)
	// With so few tokens the sequences may never decode at the same time.
	if err != nil || p.Whole <= 0 || p.Low > p.High {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := measureTurn(t.Context(), unkept, 2, 24, time.Nanosecond); err == nil || !strings.Contains(err.Error(), "did not end within 1ns") {
		t.Errorf("a turn without an end: %v", err)
	}
	testkit.Eventually(t, "the logs to be forgotten", func() bool {
		n := 0
		logs.accepted.Range(func(any, any) bool { n++; return true })
		return n == 0
	})
}

// answer is what a pipeline answers.
func answer(t *testing.T, side *pipelineSide) (ids []uint32) {
	t.Helper()
	n := int32(24)
	stream, err := side.client.Prompt(t.Context(), &pb.Prompt{InputIds: promptIDs(0, PromptLength, side.vocab), MaxTokens: &n, IgnoreEos: true})
	if err != nil {
		t.Fatal(err)
	}
	for chunk, err := range stream.Chunks() {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, chunk.TokenIds...)
	}
	return ids
}

// readAgain has a request read once more while it is answered, as clients do that hear
// nothing for a while: its records go to who delivers them all the same.
func readAgain(t *testing.T, side *pipelineSide) {
	t.Helper()
	n := int32(200)
	stream, err := side.client.Prompt(t.Context(), &pb.Prompt{InputIds: promptIDs(0, PromptLength, side.vocab), MaxTokens: &n, IgnoreEos: true})
	if err != nil {
		t.Fatal(err)
	}
	var again *client.Stream
	got := 0
	for chunk, err := range stream.Chunks() {
		if err != nil {
			t.Fatal(err)
		}
		if again == nil {
			if again, err = side.client.Resume(t.Context(), stream.RequestID(), 0); err != nil {
				t.Fatal(err)
			}
			defer again.Close()
		}
		got += len(chunk.TokenIds)
	}
	if got != int(n) {
		t.Errorf("%d tokens of a request that is read twice, want %d", got, n)
	}
}

func TestPairOf(t *testing.T) {
	p := pairOf([]turn{{100, 10, 1, 1}, {100, 20, 2, 1}, {200, 10, 1, 1}}, []turn{{50, 10, 1, 1}, {90, 10, 3, 1}, {180, 9, 2, 1}})
	want := Pair{Without: 100, With: 90, Share: 0.9, Low: 0.5, High: 0.9, Whole: 0.9, CPU: 0.5}
	if *p != want {
		t.Errorf("%+v, want %+v", *p, want)
	}
}
