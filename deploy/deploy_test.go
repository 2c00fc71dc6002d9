// Package deploy has no code: its test reads the settings beside it.
package deploy

import (
	"os"
	"slices"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"gopkg.in/yaml.v3"
)

// TestNATS reads nats.conf with the server's own parser.
func TestNATS(t *testing.T) {
	t.Setenv("NATS_PASSWORD", "secret")
	options, err := server.ProcessConfigFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !options.JetStream || !options.SyncAlways || options.Password != "secret" {
		t.Errorf("JetStream %v, sync always %v, password %q", options.JetStream, options.SyncAlways, options.Password)
	}
}

// TestCompose wants the services, each with a command of its own name.
func TestCompose(t *testing.T) {
	data, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Image   string
			Command []string
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tokenizer", "attention", "gate", "expert", "aggregator", "predictor", "scaler"} {
		s := file.Services[name]
		if s.Image != "switchyard" || !slices.Equal(s.Command, []string{name}) {
			t.Errorf("service %s runs %v in %q", name, s.Command, s.Image)
		}
	}
}
