package main

import (
	"slices"
	"testing"
)

// --auth has a folder or none; a file and a variable may say so as well.
func TestAuthFlag(t *testing.T) {
	for _, tc := range []struct {
		name     string
		args     []string
		env, yml string
		want     authFlag
	}{
		{"left out", []string{"up"}, "", "", authFlag{}},
		{"alone", []string{"up", "--auth"}, "", "", authFlag{on: true}},
		{"before a flag", []string{"up", "--auth", "--hosts", "2"}, "", "", authFlag{on: true}},
		{"folder", []string{"up", "--auth", "dir", "--hosts", "2"}, "", "", authFlag{true, "dir"}},
		{"folder with =", []string{"up", "--auth=dir"}, "", "", authFlag{true, "dir"}},
		{"variable", []string{"up"}, "dir", "", authFlag{true, "dir"}},
		{"variable true", []string{"up"}, "true", "", authFlag{on: true}},
		{"variable false", []string{"up"}, "false", "", authFlag{}},
		{"file", []string{"up"}, "", "up:\n  auth: dir\n", authFlag{true, "dir"}},
		{"file true", []string{"up"}, "", "up:\n  auth: true\n", authFlag{on: true}},
		{"flag over file", []string{"up", "--auth=x"}, "", "up:\n  auth: dir\n", authFlag{true, "x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.env != "" {
				t.Setenv("SWITCHYARD_AUTH", tc.env)
			}
			if tc.yml != "" {
				t.Setenv("SWITCHYARD_CONFIG", write(t, tc.yml))
			}
			var cli CLI
			if _, err := parse(&cli, tc.args, stdio{}); err != nil {
				t.Fatal(err)
			}
			if cli.Up.Auth != tc.want || slices.Contains(tc.args, "--hosts") != (cli.Up.Hosts == 2) {
				t.Errorf("%+v, hosts %d", cli.Up.Auth, cli.Up.Hosts)
			}
		})
	}
}
