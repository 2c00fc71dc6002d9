package credentials

import (
	"errors"
	"os"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/switchyard/switchyard/pkg/transport/rights"
)

// Before makes a folder what it was before producers had accounts of their own, and returns
// the credentials that they had.
func (f Folder) Before(t *testing.T, s rights.Scope) (creds map[string]string) {
	t.Helper()
	_, services, err := f.account(servicesName)
	if err != nil {
		t.Fatal(err)
	}
	creds = map[string]string{}
	services.Exports, services.Imports = nil, nil
	for _, u := range rights.Users(s) {
		if u.Name == "tokenizer" { // who heard producers himself
			u.Grants = append(u.Grants, rights.Grant{Publish: []string{"_INBOX.>"}, Subscribe: []string{"switchyard.ask.demo"}})
			services.SigningKeys.AddScopedSigner(scope(u, roleKey(services, u.Name)))
		}
		if u.Account == servicesName {
			continue
		}
		mustDo(t, os.RemoveAll(f.store("accounts", u.Account)), os.Remove(f.Creds(u.Name)), os.Remove(f.context(u.Name)))
		if u.Name == rights.Edge {
			continue
		}
		u.Bounds = rights.Bounds{}
		k, err := f.newKey(nkeys.CreateAccount)
		mustDo(t, err)
		services.SigningKeys.AddScopedSigner(scope(u, k.public))
		token, err := f.makeUser(services, u.Name, 0)
		mustDo(t, err, f.keepUser(servicesName, u.Name, token))
		data, err := os.ReadFile(f.Creds(u.Name))
		mustDo(t, err)
		creds[u.Name] = string(data)
	}
	mustDo(t, f.writeAccount(services), f.writeAccounts())
	return creds
}

// Almighty makes a user who may do everything in an account, whom the account's own key signs.
func (f Folder) Almighty(t *testing.T, account string) (user string) {
	t.Helper()
	user = "almighty-" + account
	_, claims, err := f.account(account)
	if err == nil {
		_, err = f.makeUser(claims, user, 0)
	}
	mustDo(t, err)
	return user
}

// Imports are the subjects that an account imports.
func (f Folder) Imports(t *testing.T, account string) (subjects []string) {
	t.Helper()
	_, claims, err := f.account(account)
	mustDo(t, err)
	for _, i := range claims.Imports {
		subjects = append(subjects, string(i.Subject))
	}
	return subjects
}

func mustDo(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
