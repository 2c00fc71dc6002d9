package main

import (
	"testing"

	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// Without --scaling, experts are scaled by load where copies can save time.
func TestAutoScaling(t *testing.T) {
	for _, tc := range []struct {
		name  string
		flags func(*up.Cmd)
		want  string
	}{
		{"one host", func(*up.Cmd) {}, "none"},
		{"hosts that share processors", func(c *up.Cmd) { c.Hosts = 8 }, "none"},
		{"hosts that share a GPU", func(c *up.Cmd) { c.Hosts, c.Device = 8, "cuda" }, "none"},
		{"hosts with a device each", func(c *up.Cmd) { c.Hosts, c.Device = 8, "paced" }, "moeless+lean"},
		{"one device", func(c *up.Cmd) { c.Device = "paced" }, "none"},
		{"replicas that are asked for", func(c *up.Cmd) { c.Hosts, c.Device, c.Replication = 8, "paced", 2 }, "none"},
		{"loads that another process reads", func(c *up.Cmd) { c.Kafka = []string{"127.0.0.1:9092"} }, "static"},
		{"loads that others may read", func(c *up.Cmd) { c.KafkaListen = "127.0.0.1:0" }, "static"},
		{"a policy that is asked for", func(c *up.Cmd) { c.Scaling = "eplb" }, "eplb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var up up.Cmd
			if err := cli.FillDefaults(&up); err != nil {
				t.Fatal(err)
			}
			if tc.flags(&up); up.ChosenScaling() != tc.want {
				t.Errorf("%s, want %s", up.ChosenScaling(), tc.want)
			}
		})
	}
}
