package main

import (
	"strings"
	"testing"
)

func TestGreeting(t *testing.T) {
	for _, tt := range []struct {
		name, prefix, text string
		want               []string
	}{
		{"text", "switchyard", "Once upon a time", []string{
			`switchyard prompt --nats nats://x:1 --model m "Once upon a time"`,
			`nats req -s nats://x:1 switchyard.ask.m 'Once upon a time' --wait-for-empty --raw --timeout 60s --reply-timeout 60s`,
			`switchyard top --nats nats://x:1 --model m` + "\n",
		}},
		{"no tokenizer", "switchyard", "", []string{
			`switchyard prompt --nats nats://x:1 --model m --ids 1,2,3` + "\n",
			`switchyard.ask.m '{"input_ids":[1,2,3]}' --wait-for-empty`,
		}},
		{"prefix", "cluster", "x", []string{"top --nats nats://x:1 --model m --prefix cluster\n", "cluster.ask.m"}},
	} {
		got := greeting("nats://x:1", tt.prefix, "m", tt.text)
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", tt.name, want, got)
			}
		}
	}
}
