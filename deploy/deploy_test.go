// Package deploy has no code: its test reads the settings beside it.
package deploy

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"gopkg.in/yaml.v3"

	"github.com/switchyard/switchyard/pkg/transport/rights"
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

// deployment is what is looked at of one.
type deployment struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct{ Containers []struct{ Args []string } }
		}
	}
}

// TestKubernetes wants a Deployment of each service, with the label by which
// faults/kubernetes finds its pods.
func TestKubernetes(t *testing.T) {
	file, err := os.Open("kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was read only
	ran := map[string]string{}
	for d := yaml.NewDecoder(file); ; {
		var one deployment
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if one.Kind != "Deployment" {
			continue
		}
		app, pod := one.Spec.Selector.MatchLabels["app"], one.Spec.Template
		if app != one.Metadata.Name || pod.Metadata.Labels["app"] != app || len(pod.Spec.Containers) != 1 {
			t.Errorf("%+v", one)
			continue
		}
		ran[app] = strings.Join(pod.Spec.Containers[0].Args, " ")
	}
	for _, name := range []string{"tokenizer", "attention", "gate", "expert", "aggregator"} {
		if ran["switchyard-"+name] != name {
			t.Errorf("switchyard-%s runs %q", name, ran["switchyard-"+name])
		}
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
