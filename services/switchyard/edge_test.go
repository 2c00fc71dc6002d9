package main

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// One user does for both connections of a tokenizer unless the credentials are of users with
// accounts of their own: then the edge's are asked for.
func TestEdgeFlags(t *testing.T) {
	f := testusers.Make(t, testusers.Demo())
	const url, other = "nats://127.0.0.1:4222", "nats://edge:pw@127.0.0.1:4222"
	for _, tc := range []struct {
		name             string
		creds            string
		flags            EdgeFlags
		url, with, wrong string // of the edge; no url: those of all else
	}{
		{"no users", "", EdgeFlags{}, "", "", ""},
		{"users without the edge's", f.Creds("tokenizer"), EdgeFlags{}, "", "", "--edge-creds"},
		{"both", f.Creds("tokenizer"), EdgeFlags{EdgeCreds: f.Creds("tokenizer-edge")}, url, f.Creds("tokenizer-edge"), ""},
		{"another URL", f.Creds("tokenizer"), EdgeFlags{EdgeNATS: other}, other, "", ""},
		{"another URL, with credentials", "", EdgeFlags{EdgeNATS: other, EdgeCreds: "x"}, other, "x", ""},
	} {
		c, err := tc.flags.config(cli.Globals{NATS: url, Creds: tc.creds})
		switch {
		case tc.wrong != "":
			if err == nil || !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("%s: %v", tc.name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case (c == nil) != (tc.url == "") || c != nil && (c.URL != tc.url || c.Creds != tc.with):
			t.Errorf("%s: %+v", tc.name, c)
		}
	}
}
