// Package deploy has no code: its test reads the settings beside it.
package deploy

import (
	"os"
	"slices"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
)

// deployed are the services that a model is served by.
var deployed = catalog.Names(catalog.Way, catalog.Loop)

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

// The server has room for two models as they come in this binary beside two of the deepest.
func TestNATSLimits(t *testing.T) {
	t.Setenv("NATS_PASSWORD", "secret")
	options, err := server.ProcessConfigFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	var need schemas.Room
	for _, layers := range []int{8, 8, 61, 61} {
		need = need.Plus(schemas.Streams{Hops: schemas.HopsUnacked}.Room(make([]int, layers)))
	}
	if options.JetStreamMaxMemory < need.Memory || options.JetStreamMaxStore < need.File {
		t.Errorf("%d bytes of memory and %d of file; %+v is needed", options.JetStreamMaxMemory, options.JetStreamMaxStore, need)
	}
}

// table is the rights that are written down here: those of the demo model.
func table() rights.Scope {
	m := rights.Model{Name: "demo"}
	for layer := range 8 {
		m.MoELayers = append(m.MoELayers, layer)
	}
	return rights.Scope{Prefix: "switchyard", Models: []rights.Model{m}, Tenants: []string{"acme"}}
}

// What is made of the table of rights is what the table says today.
func TestRightsAreCurrent(t *testing.T) {
	for _, tc := range []struct{ file, format, want string }{
		{"permissions.conf", "conf", rights.Config(table())},
		{"../docs/permissions.md", "markdown", rights.Page(table())},
	} {
		have, err := os.ReadFile(tc.file)
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != tc.want {
			t.Errorf("%s is not what the table of rights says: switchyard auth show --tenants acme --format %s > deploy/%s", tc.file, tc.format, tc.file)
		}
	}
}

// A server reads the users, and each has its rights.
func TestPermissionsAreRead(t *testing.T) {
	users := rights.Users(table())
	for _, u := range users {
		t.Setenv(rights.PasswordVariable(u.Name), "secret")
	}
	options, err := server.ProcessConfigFile("permissions.conf")
	if err != nil {
		t.Fatal(err)
	}
	if len(options.Users) != len(users) {
		t.Fatalf("%d users of %d", len(options.Users), len(users))
	}
	for _, u := range users {
		i := slices.IndexFunc(options.Users, func(one *server.User) bool { return one.Username == u.Name })
		if i < 0 {
			t.Errorf("%s is not there", u.Name)
			continue
		}
		p := options.Users[i].Permissions
		if options.Users[i].Account.GetName() != u.Account || !slices.Equal(p.Publish.Allow, u.Publish()) || !slices.Equal(p.Subscribe.Allow, u.Subscribe()) {
			t.Errorf("%s: %+v", u.Name, p)
		}
	}
}
