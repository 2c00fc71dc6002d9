package up

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/tokenizer"
)

// AuthFlag is --auth, with a folder or without.
type AuthFlag struct {
	On  bool
	Dir string
}

// Decode takes what follows for the folder, unless that is another flag. A file or a
// variable may say true or false, too.
func (f *AuthFlag) Decode(ctx *kong.DecodeContext) error {
	f.On, f.Dir = true, ""
	next := ctx.Scan.Peek()
	if !next.IsValue() {
		return nil
	}
	ctx.Scan.Pop()
	switch v := next.Value.(type) {
	case bool:
		f.On = v
	case string:
		f.set(v)
	default:
		return fmt.Errorf("expected a folder, true or false but got %v", v)
	}
	return nil
}

// set reads what a variable says.
func (f *AuthFlag) set(text string) {
	switch text {
	case "", "false":
		f.On = false
	case "true":
	default:
		f.Dir = text
	}
}

// IsBool returns true, which has the help say that the value may be left out.
func (f *AuthFlag) IsBool() bool { return true }

// settings returns nil without the flag. Each tenant with a quota of its own has a producer.
func (f *AuthFlag) settings(prefix, listen string, n *cluster.Node, quotas map[string]tokenizer.Quota) *cluster.Auth {
	if !f.On {
		return nil
	}
	s := rights.Scope{Prefix: prefix, Models: []rights.Model{RightsOf(n.ModelName(), n.Shared.Model.Spec)}, Tenants: ownTenants(quotas)}
	return &cluster.Auth{Dir: f.Dir, For: credentials.Settings{Scope: s, Hosts: certifiedHosts(listen), Port: portOf(listen)}}
}

// ownTenants returns those named beside the default one, whose producer is there in any case.
func ownTenants(quotas map[string]tokenizer.Quota) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(quotas)) {
		if name != tokenizer.EveryoneElse && name != schemas.DefaultTenant {
			names = append(names, name)
		}
	}
	return names
}

// certifiedHosts returns what other machines may call this one: the address that is
// listened on, and the machine's name.
func certifiedHosts(listen string) (hosts []string) {
	host, _, err := net.SplitHostPort(listen)
	if err != nil || flagvalue.IsLoopback(host) {
		return nil
	}
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		hosts = append(hosts, host)
	}
	if name, err := os.Hostname(); err == nil && name != host {
		hosts = append(hosts, name)
	}
	return hosts
}

// portOf returns 0 where nobody knows it before.
func portOf(listen string) int {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return 0
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return 0 // listening says so
	}
	return number
}

// reloadUsers has the server read the users again at each SIGHUP, as nats-server
// does, until stop is called.
func reloadUsers(e *cli.Env, y *cluster.Cluster) (stop func()) {
	asked, quit, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(asked, syscall.SIGHUP)
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-asked:
			}
			if err := y.ReloadUsers(); err != nil {
				e.Log.Error("the users were not read again; those before it stay", "error", err)
			} else {
				e.Log.Info("read the users again")
			}
		}
	}()
	return func() { signal.Stop(asked); close(quit); <-done }
}

// loginFlags are what commands need beside a URL.
type loginFlags struct{ producer, top, tool string }

// logins returns none where everybody is let in.
func logins(f *credentials.Folder) (l loginFlags) {
	if f == nil {
		return l
	}
	l.producer, l.top = loginOf(f, rights.Producer), loginOf(f, rights.Top)
	l.tool = " --creds " + f.Creds(rights.Producer) + " --tlsca " + f.CA() + " --inbox-prefix " + rights.InboxOf(rights.Producer)
	return l
}

// loginOf returns the flags with which a user logs in.
func loginOf(f *credentials.Folder, user string) string {
	return " --creds " + f.Creds(user) + " --tls-ca " + f.CA()
}

// tenantPrompts returns a command for each tenant's producer; empty where everybody may send
// in anybody's name.
func tenantPrompts(f *credentials.Folder, common, prompt string, tenants []string) string {
	var b strings.Builder
	for _, tenant := range tenants {
		if f != nil {
			fmt.Fprintf(&b, "  switchyard prompt %s --tenant %s%s %s\n", common, tenant, loginOf(f, rights.ProducerOf(tenant)), prompt)
		}
	}
	return b.String()
}

// RightsOf returns what rights depend on of a model that is served as name.
func RightsOf(name string, spec model.Spec) rights.Model {
	m := rights.Model{Name: name, Positions: spec.LongestRequest()}
	for layer, l := range spec.Layer {
		if l.MoE {
			m.MoELayers = append(m.MoELayers, layer)
		}
	}
	return m
}
