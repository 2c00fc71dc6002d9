package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// AuthCmd makes and renews what users and servers are known by.
type AuthCmd struct {
	Init    AuthInitCmd    `cmd:"" help:"Make a folder with credentials of every user, and a NATS server's settings with TLS."`
	Rotate  AuthRotateCmd  `cmd:"" help:"Give users new keys and revoke their old ones."`
	Update  AuthUpdateCmd  `cmd:"" help:"Give users the rights of this version, and of other models and tenants."`
	Secrets AuthSecretsCmd `cmd:"" help:"Print what servers and users need of a folder as Kubernetes Secrets."`
	Show    AuthShowCmd    `cmd:"" help:"Print what each user may publish and subscribe, and why."`
}

// AuthScope says what the rights are of. Its flags are no variables: others have
// their names.
type AuthScope struct {
	Models  []string `env:"-" default:"demo" help:"Models to have rights for: demo, a directory with a config.json, NAME=DIR, or NAME=N with how many layers it has." placeholder:"MODEL"`
	Tenants []string `env:"-" help:"Tenants beside the default one, each with a producer of its own." placeholder:"NAME"`
	Objects bool     `env:"-" help:"Also let services move rows through objects, as plans with transfers indirect or pipelined want (switchyard plan set --transfer)."`

	ProducerBounds `embed:""`
}

// ProducerBounds are what the server lets producers have.
type ProducerBounds struct {
	Payload string `name:"producer-payload" env:"-" help:"Largest message of a producer, such as 1MiB (the default)." placeholder:"BYTES"`
	Subs    int64  `name:"producer-subs" env:"-" help:"Subscriptions that a connection of a producer may have (default 1000)." placeholder:"N"`
	Conns   int64  `name:"producer-conns" env:"-" help:"Connections that all producers of a tenant may have (default 16): for each the server keeps what it does not read, up to its max_pending." placeholder:"N"`
}

// AuthStorage says what the server's limits are for.
type AuthStorage struct {
	LogBytes    string `env:"-" help:"Most bytes of each model's token log, as its services have it, for the servers' limits; 4GiB unless told." placeholder:"BYTES"`
	ObjectStore string `env:"-" help:"Bytes of models' weights in the object store (switchyard weights), for the servers' limits." placeholder:"BYTES"`
}

// AuthInitCmd makes a folder.
type AuthInitCmd struct {
	AuthScope   `embed:""`
	AuthStorage `embed:""`

	Hosts   []string      `env:"-" help:"Names and IP addresses of the NATS server beside the loopback's, for its certificate; the first is in the NATS contexts." placeholder:"HOST"`
	Servers []string      `env:"-" help:"For a cluster instead: the host of each of its three or more servers, by which clients and the other servers reach it. --hosts are further names of theirs." placeholder:"HOST"`
	Expires time.Duration `env:"-" default:"0" help:"How long credentials are good; 0 is for ever." placeholder:"TIME"`

	ServerDir string `env:"-" help:"Where servers will find what is in DIR/server, if that is to lie elsewhere, such as /etc/nats in a container." placeholder:"PATH"`
	StoreDir  string `env:"-" help:"Where servers are to keep what they store; without it in DIR/server." placeholder:"PATH"`
	Dir       string `arg:"" name:"dir" help:"The folder; it must not exist, or be empty."`
}

// AuthRotateCmd renews a folder.
type AuthRotateCmd struct {
	Expires     time.Duration `env:"-" default:"0" help:"How long the new credentials are good; 0 is for ever." placeholder:"TIME"`
	Certificate bool          `env:"-" help:"Make a new server certificate too, for the hosts of the old one and --hosts."`
	Hosts       []string      `env:"-" help:"Names and IP addresses that the new certificate is to have beside those of the old one." placeholder:"HOST"`
	Dir         string        `arg:"" name:"dir" help:"A folder that auth init has made."`
	Users       []string      `arg:"" optional:"" name:"user" help:"Whose keys; without any, those of all."`
}

// AuthUpdateCmd changes what a folder's users may do.
type AuthUpdateCmd struct {
	AuthStorage `embed:""`

	Models  []string      `env:"-" help:"All models to have rights for, as in auth init; without it those that there are." placeholder:"MODEL"`
	Tenants []string      `env:"-" help:"All tenants beside the default one; without it those that there are. Producers of others are removed." placeholder:"NAME"`
	Objects bool          `env:"-" help:"Also let services of all models move rows through objects, as in auth init; without it those may that could, and of --models none."`
	Expires time.Duration `env:"-" default:"0" help:"How long new credentials are good; 0 is for ever." placeholder:"TIME"`
	Revoke  bool          `name:"revoke-moved" env:"-" help:"End the credentials of users whom an update has moved to another account; without it they stay good for the old one."`

	ProducerBounds `embed:""`

	Dir string `arg:"" name:"dir" help:"A folder that auth init has made."`
}

// AuthShowCmd prints the table of rights.
type AuthShowCmd struct {
	AuthScope `embed:""`

	Format string `env:"-" default:"markdown" enum:"markdown,conf" help:"markdown, or conf: settings of a NATS server that knows users by passwords." placeholder:"FORMAT"`
}

// Run makes the folder, and says what to do with it.
func (c *AuthInitCmd) Run(e *cli.Env) error {
	s, err := c.scope(e.Prefix)
	if err != nil {
		return cli.Usage(err)
	}
	storage, err := c.storage(credentials.Storage{})
	if err != nil {
		return err
	}
	f, err := credentials.Init(c.Dir, credentials.Settings{
		Scope: s, Servers: c.Servers, Hosts: c.Hosts, Expires: c.Expires,
		ServerDir: c.ServerDir, StoreDir: c.StoreDir, Storage: storage,
	})
	if err != nil {
		return cli.Usage(err)
	}
	users, err := f.Users()
	if err != nil {
		return err
	}
	url, err := f.URL()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.Out, `%[1]s has credentials of %[2]s

%[3]s
its streams:      switchyard setup --keep --model %[8]s --nats %[4]s --creds %[9]s --tls-ca %[6]s
a service:        switchyard gate --nats %[4]s --creds %[5]s --tls-ca %[6]s
one on this host: XDG_CONFIG_HOME=%[7]s switchyard gate --nats gate
all in one:       switchyard up --auth %[1]s

Servers and services need neither keys nor stores in it: keep them where nobody else reads them.
`, c.Dir, strings.Join(users, ", "), c.servers(f), url, f.Creds("gate"), f.CA(), f.Contexts(), strings.Join(c.Models, ","), f.Creds("setup"))
	return err
}

// servers says how to start the server, or each of a cluster's on its own host.
func (c *AuthInitCmd) servers(f credentials.Folder) string {
	if len(c.Servers) == 0 {
		return "a server:         nats-server -c " + f.ServerConfig("")
	}
	lines := []string{"each server, on its host, with " + filepath.Dir(f.ServerConfig("")) + " there as well:"}
	for _, server := range c.Servers {
		lines = append(lines, "                  nats-server -c "+f.ServerConfig(server))
	}
	return strings.Join(lines, "\n")
}

// Run renews keys, and says what has to read them.
func (c *AuthRotateCmd) Run(e *cli.Env) error {
	f, err := credentials.Open(c.Dir)
	if err != nil {
		return cli.Usage(err)
	}
	users, err := f.Rotate(credentials.Renewal{Users: c.Users, Expires: c.Expires, Certificate: c.Certificate, Hosts: c.Hosts})
	if err != nil {
		return cli.Usage(err)
	}
	_, err = fmt.Fprintf(e.Out, `new keys of %s

1. put their new files of %s where they are used; a client reads its file each time it connects
2. bring every server %s, and have it read them, and so refuse the old keys:
   %s
`, strings.Join(users, ", "), filepath.Dir(f.Creds("")), strings.Join(f.ServerFiles(c.Certificate), ", "), reloading)
	return err
}

// reloading is how a running server takes accounts that have changed.
const reloading = "nats-server --signal reload, or kill -HUP of switchyard up"

// Run changes rights, and says what has to read them.
func (c *AuthUpdateCmd) Run(e *cli.Env) error {
	f, err := credentials.Open(c.Dir)
	if err != nil {
		return cli.Usage(err)
	}
	s, err := c.scope(f)
	if err != nil {
		return cli.Usage(err)
	}
	storage, err := c.storageOf(f)
	if err != nil {
		return err
	}
	change, err := f.Update(credentials.Changes{Scope: s, Expires: c.Expires, Revoke: c.Revoke})
	if err != nil {
		return cli.Usage(err)
	}
	limits, err := f.SetLimits(s, storage)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.Out, "new users: %s\nremoved: %s\nlimits: max_memory_store %s, max_file_store %s\nbring every server %s and %s, and have it read them: %s\n%s",
		orNone(change.Made), orNone(change.Removed), bus.BytesText(limits.Memory), bus.BytesText(limits.File), f.AccountsConfig(), f.LimitsConfig(), reloading,
		moving(f, change))
	if err == nil && !f.TakesLimits() {
		_, err = fmt.Fprintf(e.Out, "the settings of servers have limits of their own: put include \"limits.conf\" in their place, within jetstream { }\n")
	}
	return err
}

// storageOf returns what servers are to have room for.
func (c *AuthUpdateCmd) storageOf(f credentials.Folder) (credentials.Storage, error) {
	before, err := f.Limits()
	if err != nil {
		return before.Storage, cli.Usage(err)
	}
	return c.storage(before.Storage)
}

// storage returns what was said before, changed as the flags say.
func (f AuthStorage) storage(s credentials.Storage) (credentials.Storage, error) {
	for _, of := range []struct {
		flag, text string
		to         *int64
	}{{"log-bytes", f.LogBytes, &s.LogBytes}, {"object-store", f.ObjectStore, &s.Objects}} {
		if of.text == "" {
			continue
		}
		n, err := up.ParseBytes(of.flag, of.text)
		if err != nil {
			return s, err
		}
		*of.to = n
	}
	return s, nil
}

// moving says what is to be done for users who are in another account now.
func moving(f credentials.Folder, c credentials.Change) string {
	moved := c.Moved
	switch {
	case len(c.Revoked) > 0:
		return fmt.Sprintf("credentials of before accounts have ended: those of %s\n", strings.Join(c.Revoked, ", "))
	case len(moved) == 0:
		return ""
	}
	return fmt.Sprintf(`in an account of their own now, with new credentials: %s
1. start tokenizers of this version with --edge-creds %s beside their own, and stop those of before
2. hand out %s anew; with the old ones prompts are stored and answered, and nobody hears asks, replays and cancellations
3. end the old ones: switchyard auth update %s --revoke-moved
`, strings.Join(moved, ", "), f.Creds(rights.Edge), filepath.Join(filepath.Dir(f.Creds("")), "{"+strings.Join(moved, ",")+"}.creds"), filepath.Dir(f.CA()))
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// scope returns the folder's own, changed as the flags say.
func (c *AuthUpdateCmd) scope(f credentials.Folder) (s rights.Scope, err error) {
	if s, err = f.ReadScope(); err != nil {
		return s, err
	}
	if c.Tenants != nil {
		s.Tenants = c.Tenants
	}
	if c.Models != nil {
		if s.Models, err = readModels(c.Models); err != nil {
			return s, err
		}
	}
	if c.Objects {
		letObjects(s.Models)
	}
	return s, c.ProducerBounds.into(&s.Bounds)
}

func letObjects(models []rights.Model) {
	for i := range models {
		models[i].Objects = true
	}
}

// into sets those bounds that are given.
func (p ProducerBounds) into(b *rights.Bounds) error {
	if p.Payload != "" {
		bytes, err := up.ParseBytes("producer-payload", p.Payload)
		if err != nil {
			return err
		}
		b.Payload = bytes
	}
	b.Subs, b.Conns = cmp.Or(p.Subs, b.Subs), cmp.Or(p.Conns, b.Conns)
	return b.Check()
}

// Run prints what docs/permissions.md and deploy/permissions.conf are.
func (c *AuthShowCmd) Run(e *cli.Env) error {
	s, err := c.scope(e.Prefix)
	if err != nil {
		return cli.Usage(err)
	}
	text := rights.Page
	if c.Format == "conf" {
		text = rights.Config
	}
	_, err = fmt.Fprint(e.Out, text(s))
	return err
}

func (f AuthScope) scope(prefix string) (s rights.Scope, err error) {
	s = rights.Scope{Prefix: prefix, Tenants: f.Tenants}
	if s.Models, err = readModels(f.Models); err != nil {
		return s, err
	}
	if f.Objects {
		letObjects(s.Models)
	}
	return s, f.ProducerBounds.into(&s.Bounds)
}

func readModels(texts []string) (models []rights.Model, err error) {
	for _, text := range texts {
		m, err := readModel(text)
		if err != nil {
			return nil, fmt.Errorf("--models: %w", err)
		}
		models = append(models, m)
	}
	return models, nil
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
	return up.RightsOf(name, spec), nil
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
