package credentials

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/jwt/v2"
)

// serverConfig is the settings for a NATS server of its own. The accounts are in a
// file beside it, which Rotate replaces.
func serverConfig(f Folder) string {
	return fmt.Sprintf(`# A NATS server for Switchyard, with users and TLS: nats-server -c %[1]s
# "switchyard auth init" has made this file and does not touch it again; accounts.conf
# is made anew by "switchyard auth rotate". Paths name this folder: change them where
# it lies elsewhere. Of all that was made, a server needs this folder only.

listen: 0.0.0.0:4222

# Switchyard splits what is larger.
max_payload: 8MB

# A client that hangs keeps its share of requests until it is cut off, in the third
# interval without an answer.
ping_interval: "2s"
ping_max: 2

# Nobody waits for one who reads too slowly: it loses messages instead.
no_fast_producer_stall: true

jetstream {
  store_dir: %[2]q
  max_memory_store: 2GB   # tensors in flight
  max_file_store: 10GB    # prompts, sequences, token logs
  # Keeps what was acknowledged through a power cut; with three replicas on servers that
  # do not lose power together the default (two minutes) is enough.
  sync_interval: always
}

tls {
  cert_file: %[3]q
  key_file: %[4]q
}

include "accounts.conf"
`, f.ServerConfig(), f.in("server", "jetstream"), f.serverCert(), f.serverKey())
}

// writeAccounts makes the part of the server's settings that says whom it trusts.
func (f Folder) writeAccounts() error {
	t, err := f.read()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# Made by \"switchyard auth\": do not edit it. A running server takes it with\n# nats-server --signal reload\n\n")
	fmt.Fprintf(&b, "operator: %q\nsystem_account: %q\nresolver: MEMORY\nresolver_preload: {\n", t.Operator, t.System)
	for _, name := range accountNames {
		fmt.Fprintf(&b, "  # %s\n  %q: %q\n", name, t.names[name], t.Accounts[t.names[name]])
	}
	b.WriteString("}\n")
	return write(f.AccountsConfig(), []byte(b.String()))
}

// Trust is whom a server believes.
type Trust struct {
	// Operator is a JWT; Accounts are JWTs by their account's public key, of which System is one.
	Operator string
	Accounts map[string]string
	System   string

	names map[string]string // public keys
}

// Open finds a folder that Init has made.
func Open(path string) (f Folder, err error) {
	if f.path, err = filepath.Abs(path); err == nil {
		_, err = f.read()
	}
	if err != nil {
		return f, fmt.Errorf("%s is no folder of credentials (switchyard auth init makes one): %w", path, err)
	}
	return f, nil
}

// Trust reads the operator and the accounts.
func (f Folder) Trust() (*Trust, error) { return f.read() }

func (f Folder) read() (*Trust, error) {
	operator, err := os.ReadFile(f.operatorJWT())
	if err != nil {
		return nil, err
	}
	claims, err := jwt.DecodeOperatorClaims(string(operator))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.operatorJWT(), err)
	}
	t := &Trust{Operator: string(operator), System: claims.SystemAccount, Accounts: map[string]string{}, names: map[string]string{}}
	for _, name := range accountNames {
		token, account, err := f.account(name)
		if err != nil {
			return nil, err
		}
		if account.Issuer != claims.Subject {
			return nil, fmt.Errorf("%s is not of the operator of %s", f.accountJWT(name), f.operatorJWT())
		}
		t.Accounts[account.Subject], t.names[name] = token, account.Subject
	}
	return t, nil
}

func (f Folder) account(name string) (token string, claims *jwt.AccountClaims, err error) {
	data, err := os.ReadFile(f.accountJWT(name))
	if err != nil {
		return "", nil, err
	}
	if claims, err = jwt.DecodeAccountClaims(string(data)); err != nil {
		return "", nil, fmt.Errorf("reading %s: %w", f.accountJWT(name), err)
	}
	return string(data), claims, nil
}

// TLS is the server's side of TLS. A certificate that was renewed is used at once.
func (f Folder) TLS() (*tls.Config, error) {
	read := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.serverCert(), f.serverKey())
		if err != nil {
			return nil, fmt.Errorf("reading the server's certificate: %w", err)
		}
		return &pair, nil
	}
	_, err := read()
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return read() },
		MinVersion:     tls.VersionTLS12,
	}, err
}
