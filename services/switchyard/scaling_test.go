package main

import "testing"

// Without --scaling, experts are scaled by load where copies can save time.
func TestAutoScaling(t *testing.T) {
	for _, tc := range []struct {
		name  string
		flags func(*UpCmd)
		want  string
	}{
		{"one host", func(*UpCmd) {}, "static"},
		{"hosts that share processors", func(up *UpCmd) { up.Hosts = 8 }, "static"},
		{"hosts that share a GPU", func(up *UpCmd) { up.Hosts, up.Device = 8, "cuda" }, "static"},
		{"hosts with a device each", func(up *UpCmd) { up.Hosts, up.Device = 8, "paced" }, "moeless+lean"},
		{"one device", func(up *UpCmd) { up.Device = "paced" }, "static"},
		{"replicas that are asked for", func(up *UpCmd) { up.Hosts, up.Device, up.Replication = 8, "paced", 2 }, "static"},
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
