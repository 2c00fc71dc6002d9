package main

import "testing"

// Without --scaling, experts are scaled by load where copies can save time.
func TestAutoScaling(t *testing.T) {
	for _, tc := range []struct {
		name  string
		flags func(*UpCmd)
		want  string
	}{
		{"one host", func(*UpCmd) {}, "none"},
		{"hosts that share processors", func(up *UpCmd) { up.Hosts = 8 }, "none"},
		{"hosts that share a GPU", func(up *UpCmd) { up.Hosts, up.Device = 8, "cuda" }, "none"},
		{"hosts with a device each", func(up *UpCmd) { up.Hosts, up.Device = 8, "paced" }, "moeless+lean"},
		{"one device", func(up *UpCmd) { up.Device = "paced" }, "none"},
		{"replicas that are asked for", func(up *UpCmd) { up.Hosts, up.Device, up.Replication = 8, "paced", 2 }, "none"},
		{"loads that another process reads", func(up *UpCmd) { up.Kafka = []string{"127.0.0.1:9092"} }, "static"},
		{"loads that others may read", func(up *UpCmd) { up.KafkaListen = "127.0.0.1:0" }, "static"},
		{"a policy that is asked for", func(up *UpCmd) { up.Scaling = "eplb" }, "eplb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var up UpCmd
			if err := fillDefaults(&up); err != nil {
				t.Fatal(err)
			}
			if tc.flags(&up); up.chosenScaling() != tc.want {
				t.Errorf("%s, want %s", up.chosenScaling(), tc.want)
			}
		})
	}
}
