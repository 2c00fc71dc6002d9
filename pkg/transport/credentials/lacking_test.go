package credentials

import (
	"testing"

	"github.com/nats-io/jwt/v2"

	"github.com/switchyard/switchyard/pkg/transport/rights"
)

// A right to publish is none to subscribe, and the other way round.
func TestLacking(t *testing.T) {
	u := rights.User{Grants: []rights.Grant{{Publish: []string{"a"}, Subscribe: []string{"b.*"}}}}
	for _, tc := range []struct {
		name     string
		pub, sub jwt.StringList
		want     string
	}{
		{"nothing", nil, nil, "publish to a"},
		{"all", jwt.StringList{"a"}, jwt.StringList{"b.*"}, ""},
		{"more", jwt.StringList{"x", "a"}, jwt.StringList{"b.>"}, ""},
		{"less", jwt.StringList{"a"}, jwt.StringList{"b.c"}, "subscribe to b.*"},
		{"publishing alone", jwt.StringList{"a", "b.*"}, nil, "subscribe to b.*"},
		{"subscribing alone", nil, jwt.StringList{"a", "b.*"}, "publish to a"},
	} {
		have := jwt.Permissions{Pub: jwt.Permission{Allow: tc.pub}, Sub: jwt.Permission{Allow: tc.sub}}
		if got := lacking(have, u); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
