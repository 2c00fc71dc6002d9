package credentials

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nkeys"

	"github.com/switchyard/switchyard/pkg/transport/rights"
)

// Names of the operator and the accounts, in JWTs and in the names of files.
const (
	operatorName = "switchyard"
	servicesName = rights.ServicesAccount
	edgeName     = rights.EdgeAccount
	systemName   = "SYS"
)

// Users beside those of the table of rights: who may do everything in the account of
// the services, and who watches the server itself.
const (
	Admin  = "admin"
	System = "sys"
)

// Folder is a folder that Init has made.
type Folder struct{ path string }

func (f Folder) in(parts ...string) string {
	return filepath.Join(append([]string{f.path}, parts...)...)
}

// Creds is the file that a user logs in with.
func (f Folder) Creds(user string) string { return f.in("creds", user+".creds") }

// CA is the file that clients check the server's certificate with.
func (f Folder) CA() string { return f.in("ca.pem") }

// ServerConfig is the settings for the NATS server; with a name, for that one of a cluster.
func (f Folder) ServerConfig(server string) string {
	if server == "" {
		return f.in("server", "nats.conf")
	}
	return f.in("server", "nats-"+server+".conf")
}

// ServerFiles are those of a server that Rotate changes.
func (f Folder) ServerFiles(certificate bool) []string {
	if certificate {
		return []string{f.AccountsConfig(), f.serverCert(), f.serverKey()}
	}
	return []string{f.AccountsConfig()}
}

// ServerFolder is the folder that servers need, and no other.
func (f Folder) ServerFolder() string { return f.in("server") }

// AccountsConfig is the part of them that changes with users and rights.
func (f Folder) AccountsConfig() string { return f.in("server", "accounts.conf") }

// LimitsConfig is the part of them that changes with the models.
func (f Folder) LimitsConfig() string { return f.in("server", "limits.conf") }

// Contexts is the folder to name as XDG_CONFIG_HOME.
func (f Folder) Contexts() string { return f.path }

func (f Folder) context(user string) string { return f.in("nats", "context", user+".json") }
func (f Folder) serverCert() string         { return f.in("server", "server.pem") }
func (f Folder) serverKey() string          { return f.in("server", "server-key.pem") }
func (f Folder) serverCA() string           { return f.in("server", "ca.pem") } // what servers know each other by
func (f Folder) scopeFile() string          { return f.in("scope.json") }
func (f Folder) limitsFile() string         { return f.in("limits.json") }
func (f Folder) caKey() string              { return f.in("keys", "ca-key.pem") }

// The rest is where nsc looks for it, with --data-dir stores and --keystore-dir keys.
func (f Folder) store(parts ...string) string {
	return f.in(append([]string{"stores", operatorName}, parts...)...)
}
func (f Folder) operatorJWT() string { return f.store(operatorName + ".jwt") }
func (f Folder) accountJWT(account string) string {
	return f.store("accounts", account, account+".jwt")
}
func (f Folder) userJWT(account, user string) string {
	return f.store("accounts", account, "users", user+".jwt")
}

func (f Folder) nkey(public string) string {
	return f.in("keys", "keys", public[:1], public[1:3], public+".nk")
}

func accountOf(user string) string {
	if user == System {
		return systemName
	}
	return rights.AccountOf(user)
}

// Modes of what is made: nobody else reads it.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// write replaces a file, at once or not at all.
func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(temp.Name()))
	}
	return nil
}

func (f Folder) keep(key nkeys.KeyPair) (public string, err error) {
	if public, err = key.PublicKey(); err != nil {
		return "", err
	}
	seed, err := key.Seed()
	if err != nil {
		return "", err
	}
	return public, write(f.nkey(public), seed)
}

func (f Folder) key(public string) (nkeys.KeyPair, error) {
	seed, err := os.ReadFile(f.nkey(public))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the key %s is not in %s: rotate where the keys are kept", f.nkey(public), f.path)
	}
	if err != nil {
		return nil, err
	}
	key, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("reading the key %s: %w", f.nkey(public), err)
	}
	return key, nil
}

// ErrLocked refuses to change a folder that somebody else is changing: of two who write
// the same account, one would lose what he has revoked.
var ErrLocked = errors.New("another process is changing it")

func (f Folder) lock() (unlock func() error, err error) {
	file := f.in("keys", ".lock")
	l, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("%s: %w; if none is, remove %s", f.path, ErrLocked, file)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s has no keys: change it where they are kept", f.path)
	case err != nil:
		return nil, err
	}
	return func() error { return os.Remove(file) }, l.Close()
}
