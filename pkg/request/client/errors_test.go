package client

import "testing"

func TestWithoutUser(t *testing.T) {
	for server, want := range map[string]string{
		"": "", "nats://a:4222": "nats://a:4222", "nats://token@a": "nats://a", "tls://u:p@a:4222": "tls://a:4222", "nats://u:%@a": "the server",
	} {
		if got := withoutUser(server); got != want {
			t.Errorf("%q became %q, want %q", server, got, want)
		}
	}
}
