package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Config is what an operator sets.
type Config struct {
	// URL is one or more comma-separated NATS URLs, or the name of a NATS context.
	URL string
	// Creds is a credentials file (JWT and seed).
	Creds string
	// TLSCA, TLSCert and TLSKey are PEM files.
	TLSCA, TLSCert, TLSKey string
	// Domain is JetStream's, where it is that of other servers, as behind a leaf node; or APIPrefix is what the subjects of
	// its API begin with. Empty: those of the context, or the server's own.
	Domain, APIPrefix string
	// Insecure allows unencrypted connections beyond the loopback.
	Insecure bool
}

// contextFile is the part of a NATS context that is understood here.
type contextFile struct {
	URL         string `json:"url"`
	Token       string `json:"token"`
	User        string `json:"user"`
	Password    string `json:"password"`
	Creds       string `json:"creds"`
	NKey        string `json:"nkey"`
	Cert        string `json:"cert"`
	Key         string `json:"key"`
	CA          string `json:"ca"`
	InboxPrefix string `json:"inbox_prefix"`
	TLSFirst    bool   `json:"tls_first"`
	Domain      string `json:"jetstream_domain"`
	APIPrefix   string `json:"jetstream_api_prefix"`
}

// resolve turns the configuration into settings and options; nothing is dialled.
func (c Config) resolve() (settings contextFile, opts []nats.Option, err error) {
	settings.URL = c.URL
	if c.namesContext() {
		if settings, err = readContext(c.URL); err != nil {
			return settings, nil, err
		}
	}
	settings.override(c)
	if settings.URL == "" {
		settings.URL = nats.DefaultURL
	}
	servers, err := parseServers(settings.URL)
	if err == nil {
		err = settings.checkAPI()
	}
	if err == nil && !c.Insecure {
		err = checkEncrypted(settings, servers)
	}
	if err != nil {
		return settings, nil, err
	}
	opts, err = settings.options()
	return settings, opts, err
}

// inProcess is resolve inside the server's process, where there is no URL to connect
// to and nothing to encrypt.
func (c Config) inProcess(server nats.InProcessConnProvider) (settings contextFile, opts []nats.Option, err error) {
	settings.Creds = c.Creds
	opts, err = settings.options()
	return settings, append(opts, nats.InProcessServer(server)), err
}

// User is whom the credentials are of, if Switchyard has made them; else "", as of what
// cannot be read.
func (c Config) User() string {
	settings, _, err := c.resolve()
	if err != nil || settings.Creds == "" {
		return ""
	}
	u, err := readCreds(settings.Creds, time.Now())
	if err != nil || u.inbox == "" {
		return ""
	}
	return u.name
}

// namesContext tells a context's name from an address, which has a colon, a
// dot or is localhost.
func (c Config) namesContext() bool {
	return c.URL != "" && c.URL != "localhost" && !strings.ContainsAny(c.URL, ":.")
}

func readContext(name string) (c contextFile, err error) {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return c, fmt.Errorf("looking for NATS context %q: %w", name, err)
		}
		dir = filepath.Join(home, ".config")
	}
	path := filepath.Join(dir, "nats", "context", name+".json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("%q is neither a NATS URL nor a NATS context (there is no %s)", name, path)
	}
	if err != nil {
		return c, fmt.Errorf("reading NATS context %q: %w", name, err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("reading NATS context %s: %w", path, err)
	}
	return c, nil
}

func (f *contextFile) override(c Config) {
	if c.Domain != "" || c.APIPrefix != "" {
		f.Domain, f.APIPrefix = c.Domain, c.APIPrefix
	}
	for _, o := range []struct {
		to   *string
		from string
	}{{&f.Creds, c.Creds}, {&f.CA, c.TLSCA}, {&f.Cert, c.TLSCert}, {&f.Key, c.TLSKey}} {
		if o.from != "" {
			*o.to = o.from
		}
	}
}

func (f *contextFile) options() (opts []nats.Option, err error) {
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("a TLS certificate needs its key and a key its certificate: set both")
	}
	if err := f.checkFiles(); err != nil {
		return nil, err
	}
	if f.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(f.NKey)
		if err != nil {
			return nil, fmt.Errorf("reading the nkey %s: %w", f.NKey, err)
		}
		opts = append(opts, key)
	}
	for _, o := range []struct {
		set bool
		opt func() nats.Option
	}{
		{f.CA != "", func() nats.Option { return nats.RootCAs(f.CA) }},
		{f.Cert != "", func() nats.Option { return nats.ClientCert(f.Cert, f.Key) }},
		{f.Creds != "", func() nats.Option { return nats.UserCredentials(f.Creds) }},
		{f.User != "", func() nats.Option { return nats.UserInfo(f.User, f.Password) }},
		{f.Token != "", func() nats.Option { return nats.Token(f.Token) }},
		{f.InboxPrefix != "", func() nats.Option { return nats.CustomInboxPrefix(f.InboxPrefix) }},
		{f.TLSFirst, nats.TLSHandshakeFirst},
	} {
		if o.set {
			opts = append(opts, o.opt())
		}
	}
	return opts, nil
}
