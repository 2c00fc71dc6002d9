package cluster_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

func settings(t *testing.T) cluster.Settings {
	t.Helper()
	m, err := model.Synthetic("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := clustertest.Settings(t.Context(), m, tensor.F32, schemas.HopsUnacked)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ready is a cluster that serves; it ends with the test.
func ready(t *testing.T, s cluster.Settings) *cluster.Cluster {
	t.Helper()
	return clustertest.Ready(t, s)
}

// A cluster answers, counts its messages, and leaves nothing behind.
func TestCluster(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	y, err := cluster.Open(context.Background(), settings(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := y.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	ask(t, y)
	if n := y.Messages(); n == 0 {
		t.Error("no message was counted")
	}
	if err := y.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func ask(t *testing.T, y *cluster.Cluster) {
	t.Helper()
	c, stop, err := y.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	whole(t, c)
}

// whole wants a whole answer.
func whole(t *testing.T, c *client.Client) {
	t.Helper()
	n := int32(3)
	stream, err := c.Prompt(t.Context(), &pb.Prompt{InputIds: []uint32{1, 2}, MaxTokens: &n, IgnoreEos: true})
	if err != nil {
		t.Fatal(err)
	}
	tokens := 0
	for chunk, err := range stream.Chunks() {
		if err != nil {
			t.Fatal(err)
		}
		tokens += len(chunk.TokenIds)
	}
	if tokens != 3 {
		t.Errorf("%d tokens", tokens)
	}
}

func TestUnusableAddress(t *testing.T) {
	s := settings(t)
	s.Listen = "nowhere"
	if y, err := cluster.Open(t.Context(), s); err == nil {
		t.Error("it runs", y.Close())
	}
}

func TestCheck(t *testing.T) {
	s := settings(t)
	defer func() {
		if err := s.Node.Close(); err != nil {
			t.Error(err)
		}
	}()
	of := s.Node.Shared.Model
	for _, tt := range []struct {
		name    string
		change  func(*cluster.Services)
		runs    string
		problem string // empty: none
	}{
		{"defaults", func(*cluster.Services) {}, "attention", ""},
		{"less than a page", func(s *cluster.Services) { s.Attention.KVBytes = 1 }, "attention", "--kv-memory is 1 bytes"},
		{"no attention", func(s *cluster.Services) { s.Attention.KVBytes = 1 }, "gate", ""},
		{"less than an expert", func(s *cluster.Services) { s.Expert.MemoryBudget = 1 }, "expert", "--expert-memory is 1 bytes"},
	} {
		services := s.Services
		tt.change(&services)
		err := services.Check(of, map[string]int{tt.runs: 1})
		if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.problem)
		}
	}
}
