package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/rights"
)

// AuthCmd makes and renews what users and servers are known by.
type AuthCmd struct {
	Init   AuthInitCmd   `cmd:"" help:"Make a folder with credentials of every user, and a NATS server's settings with TLS."`
	Rotate AuthRotateCmd `cmd:"" help:"Give users new keys and revoke their old ones."`
	Show   AuthShowCmd   `cmd:"" help:"Print who may publish and subscribe what, and why."`
}

// AuthScope says what the rights are of. Its flags are no variables: others have
// their names.
type AuthScope struct {
	Models  []string `env:"-" default:"demo" help:"Models to have rights for: demo, a directory with a config.json, NAME=DIR, or NAME=N with how many layers it has." placeholder:"MODEL,…"`
	Tenants []string `env:"-" help:"Tenants beside the default one, each with a producer of its own." placeholder:"NAME,…"`
}

// AuthInitCmd makes a folder.
type AuthInitCmd struct {
	AuthScope `embed:""`

	Hosts   []string      `env:"-" help:"Names and IP addresses of the NATS server beside the loopback's, for its certificate; the first is in the NATS contexts." placeholder:"HOST,…"`
	Expires time.Duration `env:"-" default:"0" help:"How long credentials are good; 0 is for ever." placeholder:"TIME"`
	Dir     string        `arg:"" name:"dir" help:"The folder; it must not exist, or be empty."`
}

// AuthRotateCmd renews a folder.
type AuthRotateCmd struct {
	Expires     time.Duration `env:"-" default:"0" help:"How long the new credentials are good; 0 is for ever." placeholder:"TIME"`
	Certificate bool          `env:"-" help:"Make a new server certificate too, for the hosts of the old one."`
	Dir         string        `arg:"" name:"dir" help:"A folder that auth init has made."`
	Users       []string      `arg:"" optional:"" name:"user" help:"Whose keys; without any, those of all."`
}

// AuthShowCmd prints the table of rights.
type AuthShowCmd struct {
	AuthScope `embed:""`

	Format string `env:"-" default:"markdown" enum:"markdown,conf" help:"markdown, or conf: settings of a NATS server that knows users by passwords." placeholder:"FORMAT"`
}

// Run makes the folder, and says what to do with it.
func (c *AuthInitCmd) Run(e *env) error {
	s, err := c.scope(e.Prefix)
	if err != nil {
		return usage(err)
	}
	f, err := credentials.Init(c.Dir, credentials.Settings{Scope: s, Hosts: c.Hosts, Expires: c.Expires})
	if err != nil {
		return usage(err)
	}
	users, err := f.Users()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.out, `%[1]s has credentials of %[2]s

a server:         nats-server -c %[3]s
a service:        switchyard gate --nats tls://HOST:4222 --creds %[4]s --tls-ca %[5]s
one on this host: XDG_CONFIG_HOME=%[6]s switchyard gate --nats gate

Servers and services need neither keys nor stores in it: keep them where nobody else reads them.
`, c.Dir, strings.Join(users, ", "), f.ServerConfig(), f.Creds("gate"), f.CA(), f.Contexts())
	return err
}

// Run renews keys, and says what has to read them.
func (c *AuthRotateCmd) Run(e *env) error {
	f, err := credentials.Open(c.Dir)
	if err != nil {
		return usage(err)
	}
	users, err := f.Rotate(credentials.Renewal{Users: c.Users, Expires: c.Expires, Certificate: c.Certificate})
	if err != nil {
		return usage(err)
	}
	_, err = fmt.Fprintf(e.out, `new keys of %s

1. put their new files of %s where they are used; a client reads its file each time it connects
2. have every server read %s, and so refuse the old keys:
   nats-server --signal reload
`, strings.Join(users, ", "), filepath.Dir(f.Creds("")), filepath.Join(filepath.Dir(f.ServerConfig()), "accounts.conf"))
	return err
}

// Run prints what docs/permissions.md and deploy/permissions.conf are.
func (c *AuthShowCmd) Run(e *env) error {
	s, err := c.scope(e.Prefix)
	if err != nil {
		return usage(err)
	}
	text := rights.Page
	if c.Format == "conf" {
		text = rights.Config
	}
	_, err = fmt.Fprint(e.out, text(rights.Users(s)))
	return err
}

func (f AuthScope) scope(prefix string) (s rights.Scope, err error) {
	s = rights.Scope{Prefix: prefix, Tenants: f.Tenants}
	for _, text := range f.Models {
		m, err := readModel(text)
		if err != nil {
			return s, fmt.Errorf("--models: %w", err)
		}
		s.Models = append(s.Models, m)
	}
	return s, nil
}

// maxLayers bounds a count of layers: each has rights of its own.
const maxLayers = 1024

// readModel reads what --models names: a name and which layers have experts.
func readModel(text string) (rights.Model, error) {
	name, from, named := strings.Cut(text, "=")
	if !named {
		name, from = model.NameOf(filepath.Dir(filepath.Join(text, configJSON))), text
	}
	if name == "" || model.CleanName(name) != name {
		return rights.Model{}, fmt.Errorf("%q: the name must have letters, digits, '_' and '-' only", text)
	}
	if count, err := strconv.Atoi(from); named && err == nil {
		return countedLayers(name, count)
	}
	spec, err := readSpec(from)
	if err != nil {
		return rights.Model{}, fmt.Errorf("%q is neither demo, nor a model's directory, nor NAME=DIR, nor NAME=LAYERS: %w", text, err)
	}
	return rightsOf(name, spec), nil
}

// countedLayers has experts in all layers, for who only knows how many there are.
func countedLayers(name string, count int) (rights.Model, error) {
	if count < 1 || count > maxLayers {
		return rights.Model{}, fmt.Errorf("%s has %d layers; there must be 1 to %d", name, count, maxLayers)
	}
	m := rights.Model{Name: name}
	for layer := range count {
		m.MoELayers = append(m.MoELayers, layer)
	}
	return m, nil
}

func rightsOf(name string, spec model.Spec) rights.Model {
	m := rights.Model{Name: name}
	for layer, l := range spec.Layer {
		if l.MoE {
			m.MoELayers = append(m.MoELayers, layer)
		}
	}
	return m
}

const configJSON = "config.json"

// readSpec reads a directory's config alone, or the demo model's.
func readSpec(from string) (model.Spec, error) {
	if from == model.DemoName {
		m, err := model.Demo()
		if err != nil {
			return model.Spec{}, err
		}
		return m.Spec, m.Close()
	}
	data, err := os.ReadFile(filepath.Join(from, configJSON))
	if err != nil {
		return model.Spec{}, err
	}
	spec, _, err := model.ParseSpec(data, nil)
	return spec, err
}
