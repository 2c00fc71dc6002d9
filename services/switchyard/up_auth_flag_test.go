package main

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// --auth has a folder or none; a file and a variable may say so as well.
func TestAuthFlag(t *testing.T) {
	for _, tc := range []struct {
		name     string
		args     []string
		Env, yml string
		want     up.AuthFlag
	}{
		{"left out", []string{"up"}, "", "", up.AuthFlag{}},
		{"alone", []string{"up", "--auth"}, "", "", up.AuthFlag{On: true}},
		{"before a flag", []string{"up", "--auth", "--hosts", "2"}, "", "", up.AuthFlag{On: true}},
		{"folder", []string{"up", "--auth", "dir", "--hosts", "2"}, "", "", up.AuthFlag{On: true, Dir: "dir"}},
		{"folder with =", []string{"up", "--auth=dir"}, "", "", up.AuthFlag{On: true, Dir: "dir"}},
		{"variable", []string{"up"}, "dir", "", up.AuthFlag{On: true, Dir: "dir"}},
		{"variable true", []string{"up"}, "true", "", up.AuthFlag{On: true}},
		{"variable false", []string{"up"}, "false", "", up.AuthFlag{}},
		{"file", []string{"up"}, "", "up:\n  auth: dir\n", up.AuthFlag{On: true, Dir: "dir"}},
		{"file true", []string{"up"}, "", "up:\n  auth: true\n", up.AuthFlag{On: true}},
		{"flag over file", []string{"up", "--auth=x"}, "", "up:\n  auth: dir\n", up.AuthFlag{On: true, Dir: "x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.Env != "" {
				t.Setenv("SWITCHYARD_AUTH", tc.Env)
			}
			if tc.yml != "" {
				t.Setenv("SWITCHYARD_CONFIG", write(t, tc.yml))
			}
			var c CLI
			if _, err := parse(&c, tc.args, cli.Stdio{}); err != nil {
				t.Fatal(err)
			}
			if c.Up.Auth != tc.want || slices.Contains(tc.args, "--hosts") != (c.Up.Hosts == 2) {
				t.Errorf("%+v, hosts %d", c.Up.Auth, c.Up.Hosts)
			}
		})
	}
}
