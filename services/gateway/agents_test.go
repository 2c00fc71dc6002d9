package gateway

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/internal/fake"
)

// Bodies as coding agents send them are answered, with all turns and those tools that can be called.
// loadtest/clients/shapes.py makes these of captures.
func TestAgentBodies(t *testing.T) {
	files, err := filepath.Glob("testdata/agents/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d bodies, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var sent struct {
				Route string
				Body  json.RawMessage
			}
			if err := json.Unmarshal(data, &sent); err != nil {
				t.Fatal(err)
			}
			u := &fake.Upstream{}
			if w := ask(newDoor(t, u), "POST", sent.Route, string(sent.Body)); w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			prompts, _ := u.Asked()
			if sent.Route == "/v1/messages/count_tokens" {
				prompts = u.Tokenized()
			}
			if len(prompts) != 1 {
				t.Fatalf("asked %v", prompts)
			}
			checkAgent(t, sent.Body, prompts[0])
		})
	}
}

// checkAgent wants a prompt to have what a body has of tools, calls and results.
func checkAgent(t *testing.T, body json.RawMessage, p *pb.Prompt) {
	t.Helper()
	var all struct {
		Tools    []struct{ Type string }
		Messages []any
		Input    []struct{ Type string }
	}
	if err := json.Unmarshal(body, &all); err != nil {
		t.Fatal(err)
	}
	usable := 0
	for _, tool := range all.Tools {
		if tool.Type == "" || tool.Type == "function" {
			usable++
		}
	}
	var tools, calls []any
	if err := json.Unmarshal([]byte(p.Tools), &tools); p.Tools != "" && err != nil || len(tools) != usable {
		t.Errorf("%d of %d tools, %v", len(tools), usable, err)
	}
	if len(p.Messages) < max(len(all.Messages), len(all.Input)) {
		t.Errorf("%d messages of %d, %d", len(p.Messages), len(all.Messages), len(all.Input))
	}
	results := 0
	for _, m := range p.Messages {
		if m.ToolCalls != "" {
			calls = append(calls, m.ToolCalls)
		}
		if m.Role == "tool" {
			results++
		}
	}
	if len(calls) != results {
		t.Errorf("%d calls, %d results", len(calls), results)
	}
}
