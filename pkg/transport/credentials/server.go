package credentials

import (
	"crypto/tls"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/jwt/v2"

	"github.com/switchyard/switchyard/pkg/transport/rights"
)

// writeAccounts makes the part of the server's settings that says whom it trusts.
func (f Folder) writeAccounts() error {
	t, err := f.read()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# Made by \"switchyard auth\": do not edit it. A running server takes it with\n# nats-server --signal reload\n\n")
	fmt.Fprintf(&b, "operator: %q\nsystem_account: %q\nresolver: MEMORY\nresolver_preload: {\n", t.Operator, t.System)
	for _, name := range slices.Sorted(maps.Keys(t.names)) {
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

// Producers are the accounts of tenants.
func (t *Trust) Producers() (accounts []string) {
	for name, public := range t.names {
		if rights.IsProducers(name) {
			accounts = append(accounts, public)
		}
	}
	return accounts
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
	names, err := f.accountNames()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
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

// accountNames are those of the accounts in the folder: the services', the system's and,
// unless it is of before producers had accounts of their own, the edge's and each tenant's.
func (f Folder) accountNames() ([]string, error) {
	names := []string{servicesName, systemName}
	entries, err := os.ReadDir(f.store("accounts"))
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if name := entry.Name(); name == edgeName || name == rights.GatewayAccount || rights.IsProducers(name) {
			names = append(names, name)
		}
	}
	return names, nil
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
