package up

import (
	"testing"

	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// Without --scaling, experts are scaled by load where copies can save time.
func TestAutoScaling(t *testing.T) {
	for _, tc := range []struct {
		name  string
		flags func(*Cmd)
		want  string
	}{
		{"one host", func(*Cmd) {}, "none"},
		{"hosts that share processors", func(c *Cmd) { c.Hosts = 8 }, "none"},
		{"hosts that share a GPU", func(c *Cmd) { c.Hosts, c.Device = 8, "cuda" }, "none"},
		{"hosts with a device each", func(c *Cmd) { c.Hosts, c.Device = 8, "paced" }, "moeless+lean"},
		{"one device", func(c *Cmd) { c.Device = "paced" }, "none"},
		{"replicas that are asked for", func(c *Cmd) { c.Hosts, c.Device, c.Replication = 8, "paced", 2 }, "none"},
		{"loads that another process reads", func(c *Cmd) { c.Kafka = []string{"127.0.0.1:9092"} }, "static"},
		{"loads that others may read", func(c *Cmd) { c.KafkaListen = "127.0.0.1:0" }, "static"},
		{"a policy that is asked for", func(c *Cmd) { c.Scaling = "eplb" }, "eplb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c Cmd
			if err := cli.FillDefaults(&c); err != nil {
				t.Fatal(err)
			}
			if tc.flags(&c); c.chosenScaling() != tc.want {
				t.Errorf("%s, want %s", c.chosenScaling(), tc.want)
			}
		})
	}
}
