package credentials_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/rights"
)

// Whatever is in one of a folder's files: it is read as what it was made as, with every
// account signed by the operator, or an error says which file is wrong.
func FuzzFolder(f *testing.F) {
	path := filepath.Join(f.TempDir(), "auth")
	made, err := credentials.Init(path, settings())
	if err != nil {
		f.Fatal(err)
	}
	whole, err := made.Trust()
	if err != nil {
		f.Fatal(err)
	}
	files := []string{"stores/switchyard/switchyard.jwt", "stores/switchyard/accounts/SYS/SYS.jwt", "scope.json"}
	for i, name := range files {
		data, err := os.ReadFile(filepath.Join(path, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), data)
		f.Add(uint8(i), data[:len(data)/2])
		f.Add(uint8((i+1)%len(files)), data) // the wrong file, but a good one
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		name := filepath.Join(path, files[int(which)%len(files)])
		good, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := os.WriteFile(name, good, 0o600); err != nil {
				t.Fatal(err)
			}
		}()
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if opened, err := credentials.Open(path); err == nil {
			checkTrust(t, opened, whole)
		}
		if scope, err := made.ReadScope(); err == nil {
			checkScope(t, scope)
		}
	})
}

// checkScope reports whether a scope that was read is written as it is.
func checkScope(t *testing.T, s rights.Scope) {
	t.Helper()
	var again rights.Scope
	data, err := json.Marshal(s)
	if err != nil || json.Unmarshal(data, &again) != nil || !reflect.DeepEqual(s, again) {
		t.Errorf("%+v became %s: %v", s, data, err)
	}
}

// checkTrust reports whether whom a folder makes a server believe is who made it.
func checkTrust(t *testing.T, f credentials.Folder, whole *credentials.Trust) {
	t.Helper()
	trust, err := f.Trust()
	if err != nil || len(trust.Accounts) != len(whole.Accounts) {
		t.Fatalf("%d accounts: %v", len(trust.Accounts), err)
	}
	for account := range trust.Accounts {
		if whole.Accounts[account] == "" {
			t.Errorf("account %s is not of this operator", account)
		}
	}
}
