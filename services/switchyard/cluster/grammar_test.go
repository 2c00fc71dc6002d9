package cluster_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// person is a schema whose documents are short.
const person = `{"type":"object","properties":{"name":{"type":"string","pattern":"^[A-Z][a-z]{2,9}$"},"age":{"type":"integer","minimum":1,"maximum":99},
"likes":{"type":"array","items":{"enum":["cats","dogs","the sun"]},"minItems":2,"maxItems":4},"happy":{"type":"boolean"}},
"required":["name","age","likes","happy"],"additionalProperties":false}`

// A schema's answer is a document of it, and the same when its owner goes in the middle.
func TestGrammarSurvivesItsOwner(t *testing.T) {
	demo := func() cluster.Settings {
		s, err := clustertest.Settings(t.Context(), clustertest.Demo(t), tensor.F32, schemas.HopsUnacked)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	prompt := func() *pb.Prompt {
		return &pb.Prompt{
			Text: "Once upon a time there was", Seed: proto.Uint32(7), Temperature: proto.Float64(1), MaxTokens: proto.Int32(200),
			FrequencyPenalty: proto.Float64(0.1), Grammar: &pb.Grammar{JsonSchema: person, Compact: true},
		}
	}
	checkPerson(t, survives(t, demo, prompt))
}

// survives is the answer to a prompt, which must be the same when its owner goes in the middle.
func survives(t *testing.T, settings func() cluster.Settings, prompt func() *pb.Prompt) string {
	t.Helper()
	s := settings()
	var valve clustertest.Valve
	valve.In(&s)
	s.Listen, s.Count["attention"] = "127.0.0.1:0", 0
	y, err := cluster.Open(context.Background(), s) // the test's ends before its clean-up
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := y.Close(); err != nil {
			t.Error(err)
		}
	})
	attention := func() (leave, stop func()) {
		s := settings()
		s.Node.Bus.URL = y.URL()
		t.Cleanup(func() {
			if err := s.Node.Close(); err != nil {
				t.Error(err)
			}
		})
		return begun(t, cluster.NewPipeline(s.Node, s.Services, map[string]int{"attention": 1}))
	}
	leave, stopFirst := attention()
	if err := y.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := y.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := client.New(conn.NATS(), client.Settings{Prefix: schemas.DefaultPrefix, Model: s.Node.ModelName()})
	want := answerOf(t, c, prompt(), func() {})
	valve.ShutAt(t, 3)
	got := answerOf(t, c, prompt(), func() {
		leave()
		valve.Open()
		stopFirst()
		attention()
	})
	if got != want {
		t.Errorf("with its owner gone: %q\nwant %q", got, want)
	}
	return want
}

// answerOf is a prompt's text; after the third token something is done.
func answerOf(t *testing.T, c *client.Client, p *pb.Prompt, then func()) string {
	t.Helper()
	stream, err := c.Prompt(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for chunk, err := range stream.Chunks() {
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Failure(chunk); err != nil {
			t.Fatal(err)
		}
		text.WriteString(chunk.Text)
		if chunk.Index == 2 {
			then()
		}
	}
	return text.String()
}

func checkPerson(t *testing.T, text string) {
	t.Helper()
	var p struct {
		Name  string
		Age   int
		Likes []string
		Happy *bool
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil || p.Happy == nil || p.Age < 1 || p.Age > 99 || len(p.Name) < 3 {
		t.Errorf("%q: %+v, %v", text, p, err)
	}
	if len(p.Likes) < 2 || slices.ContainsFunc(p.Likes, func(s string) bool { return !slices.Contains([]string{"cats", "dogs", "the sun"}, s) }) {
		t.Errorf("likes %q", p.Likes)
	}
}
