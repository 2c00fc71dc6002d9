package up

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/services/gateway"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// An address that was asked for is opened or refused; the one by default is done without where
// another process has it, and where everybody could ask whom NATS does not let in.
func TestUpHTTP(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*Cmd)
		count  int
		want   string // of the error
	}{
		"off":           {func(c *Cmd) { c.HTTP = noHTTP }, 0, ""},
		"free":          {func(c *Cmd) { c.HTTP = "127.0.0.1:0" }, 1, ""},
		"taken":         {func(c *Cmd) { c.HTTP = taken.Addr().String() }, 0, "choose another address"},
		"no address":    {func(c *Cmd) { c.HTTP = "8080" }, 0, "it must be HOST:PORT"},
		"off the loop":  {func(c *Cmd) { c.HTTP = "0.0.0.0:0" }, 0, "off the loopback: give --http-cert"},
		"half of a TLS": {func(c *Cmd) { c.HTTP, c.HTTPCert = "127.0.0.1:0", "x" }, 0, "are given together"},
		"auth":          {func(c *Cmd) { c.HTTP, c.Auth.On = "127.0.0.1:0", true }, 0, "give --http-keys, or --http off"},
		"auth, auto":    {func(c *Cmd) { c.HTTP, c.Auth.On = autoHTTP, true }, 0, ""},
		"auth and keys": {func(c *Cmd) { c.HTTP, c.Auth.On, c.HTTPKeys = "127.0.0.1:0", true, keys }, 1, ""},
		"no body":       {func(c *Cmd) { c.HTTP, c.HTTPMaxBody = "127.0.0.1:0", "x" }, 0, "--http-max-body"},
		"no streams":    {func(c *Cmd) { c.HTTP, c.HTTPMaxStreams = "127.0.0.1:0", 0 }, 0, "--http-max-streams is 0"},
	} {
		up, err := OwnUp()
		if err != nil {
			t.Fatal(err)
		}
		tc.change(&up)
		s := cluster.Settings{Count: map[string]int{}}
		d, err := up.openHTTP(t.Context(), quietEnv(), &s)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) || s.Count["gateway"] != tc.count || (d.listener != nil) != (tc.count > 0) {
			t.Errorf("%s: %v, %d gateways", name, err, s.Count["gateway"])
		}
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}
}

// Where another process has the default address, up says what to do, and goes on.
func TestDefaultHTTPTaken(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", gateway.DefaultListen)
	if err == nil { // else another process has it already
		defer func() { _ = taken.Close() }()
	}
	var out bytes.Buffer
	e := quietEnv()
	e.Log = cli.Globals{LogLevel: "info"}.Logger(&out)
	up, err := OwnUp()
	if err != nil {
		t.Fatal(err)
	}
	s := cluster.Settings{Count: map[string]int{}}
	if d, err := up.openHTTP(t.Context(), e, &s); err != nil || d.listener != nil || !strings.Contains(out.String(), "--http HOST:PORT, or --http off") {
		t.Errorf("%v: %s", err, &out)
	}
}
