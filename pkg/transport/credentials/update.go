package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/switchyard/switchyard/pkg/transport/rights"
)

// Change is what Update did to a folder's users.
type Change struct {
	// Made have credentials now, Removed have none and no rights any more.
	Made, Removed []string
}

// Update gives the users the rights of a scope, by today's table. Those who have
// credentials keep them; new tenants' producers get some, good for so long.
func (f Folder) Update(s rights.Scope, lasts time.Duration) (c Change, err error) {
	if err := (Settings{Scope: s, Expires: lasts}).check(); err != nil {
		return c, err
	}
	unlock, err := f.lock()
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	url, err := f.URL()
	if err != nil {
		return c, err
	}
	_, account, err := f.account(accountName)
	if err != nil {
		return c, err
	}
	if c, err = f.setRoles(account, rights.Users(s)); err != nil {
		return c, err
	}
	var errs []error
	for _, user := range c.Made {
		token, err := f.makeUser(account, user, lasts)
		errs = append(errs, err, f.keepUser(accountName, user, token), f.writeContext(f, user, url))
	}
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	if err := errors.Join(f.writeAccount(account), f.writeScope(s), f.writeAccounts()); err != nil {
		return c, err
	}
	return c, f.forget(c.Removed)
}

// setRoles makes the account's scoped keys those of these users.
func (f Folder) setRoles(account *jwt.AccountClaims, users []rights.User) (c Change, err error) {
	for _, u := range users {
		signer := roleKey(account, u.Name)
		if signer == account.Subject {
			k, err := f.newKey(nkeys.CreateAccount)
			if err != nil {
				return c, err
			}
			signer, c.Made = k.public, append(c.Made, u.Name)
		}
		account.SigningKeys.AddScopedSigner(scope(u, signer))
	}
	for key, s := range account.SigningKeys {
		s, ok := s.(*jwt.UserScope)
		if ok && !slices.ContainsFunc(users, func(u rights.User) bool { return u.Name == s.Role }) {
			delete(account.SigningKeys, key)
			c.Removed = append(c.Removed, s.Role)
		}
	}
	slices.Sort(c.Removed)
	return c, nil
}

// forget removes the files of users that are no more.
func (f Folder) forget(users []string) error {
	var errs []error
	for _, user := range users {
		for _, file := range []string{f.Creds(user), f.context(user), f.userJWT(accountName, user)} {
			if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func (f Folder) writeScope(s rights.Scope) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return write(f.scopeFile(), append(text, '\n'))
}

// ReadScope is what the rights are of.
func (f Folder) ReadScope() (s rights.Scope, err error) {
	data, err := os.ReadFile(f.scopeFile())
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("reading %s: %w", f.scopeFile(), err)
	}
	return s, nil
}

// ErrNoRights says that the users of a folder lack rights that they need.
var ErrNoRights = errors.New("its users lack rights")

// Check says why services of a scope cannot work with the folder's users.
func (f Folder) Check(s rights.Scope) error {
	_, account, err := f.account(accountName)
	if err != nil {
		return err
	}
	for _, u := range rights.Users(s) {
		have, ok := account.SigningKeys[roleKey(account, u.Name)].(*jwt.UserScope)
		if !ok {
			return fmt.Errorf("%s: %w: there is no user %s; switchyard auth update %s makes it", f.path, ErrNoRights, u.Name, f.withTenants(s.Tenants))
		}
		if lacks := lacking(have.Template.Permissions, u); lacks != "" {
			return fmt.Errorf("%s: %w: %s may not %s; switchyard auth update gives rights for a model (--models) and of this version",
				f.path, ErrNoRights, u.Name, lacks)
		}
	}
	return nil
}

// withTenants is what to say to auth update so that there are these tenants as well.
func (f Folder) withTenants(tenants []string) string {
	have, err := f.ReadScope()
	if all := distinct(have.Tenants, tenants); err == nil && len(all) > 0 {
		return f.path + " --tenants " + strings.Join(all, ",")
	}
	return f.path
}

// lacking is the first thing that a user is to do and may not; "" if there is none.
func lacking(have jwt.Permissions, u rights.User) string {
	for _, of := range []struct {
		verb        string
		allow, need []string
	}{{"publish to ", have.Pub.Allow, u.Publish()}, {"subscribe to ", have.Sub.Allow, u.Subscribe()}} {
		for _, subject := range of.need {
			if !rights.Covers(of.allow, subject) {
				return of.verb + subject
			}
		}
	}
	return ""
}

// Ensure opens a folder whose users have the rights of a scope, and makes one where
// there is none, or an empty one.
func Ensure(path string, s Settings) (Folder, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		f, err := Init(path, s)
		if !errors.Is(err, ErrExists) { // else somebody has just made it
			return f, err
		}
	}
	f, err := Open(path)
	if err != nil {
		return f, err
	}
	return f, f.Check(s.Scope)
}
