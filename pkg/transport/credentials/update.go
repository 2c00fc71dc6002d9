package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	// Made have new credentials now, Removed have none and no rights any more.
	Made, Removed []string
	// Moved are in another account than before, with new credentials. Their old ones
	// are good for the old account until Changes.Revoke ends them.
	Moved []string
	// Revoked are those whose credentials for an account that they are in no more have ended.
	Revoked []string
}

// Changes are what Update is to make of a folder.
type Changes struct {
	Scope rights.Scope
	// Expires is how long new credentials are good; 0 is for ever.
	Expires time.Duration
	// Revoke ends the credentials that users had before they were moved.
	Revoke bool
}

// Update gives the users the rights of a scope, by today's table. Those who have
// credentials keep them, unless they belong to another account now; new users, such as
// new tenants' producers, get some.
func (f Folder) Update(u Changes) (c Change, err error) {
	if err := (Settings{Scope: u.Scope, Expires: u.Expires}).check(); err != nil {
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
	accounts, err := f.accounts(u.Scope)
	if err != nil {
		return c, err
	}
	if c, err = f.setRoles(accounts, rights.Users(u.Scope), u.Revoke); err != nil {
		return c, err
	}
	cross(accounts, u.Scope)
	var errs []error
	for _, user := range slices.Concat(c.Made, c.Moved) {
		account := accountOf(user)
		token, err := f.makeUser(accounts[account], user, u.Expires)
		errs = append(errs, err, f.keepUser(account, user, token), f.writeContext(f, user, url))
	}
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	for _, name := range slices.Sorted(maps.Keys(accounts)) {
		errs = append(errs, f.writeAccount(accounts[name]))
	}
	if err := errors.Join(errors.Join(errs...), f.writeScope(u.Scope), f.writeAccounts()); err != nil {
		return c, err
	}
	return c, f.forget(slices.Concat(c.Removed, c.Revoked), accounts)
}

// accounts are those that have roles, by their names, those of tenants who are no more too: a
// server that knows them is to hear that nobody is in them. Those of a scope that are not there
// are made.
func (f Folder) accounts(s rights.Scope) (map[string]*jwt.AccountClaims, error) {
	names, err := f.accountNames()
	if err != nil {
		return nil, err
	}
	_, services, err := f.account(servicesName)
	if err != nil {
		return nil, err
	}
	all := map[string]*jwt.AccountClaims{servicesName: services}
	for _, name := range append(names, s.Accounts()...) {
		if all[name] != nil || name == systemName {
			continue
		}
		_, all[name], err = f.account(name)
		if errors.Is(err, fs.ErrNotExist) {
			all[name], err = f.newAccount(name, services.Issuer)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// newAccount is one without roles, which the operator is to sign.
func (f Folder) newAccount(name, operator string) (*jwt.AccountClaims, error) {
	k, err := f.newKey(nkeys.CreateAccount)
	if err != nil {
		return nil, err
	}
	account := accountClaims(k.public, name)
	account.Issuer = operator
	return account, nil
}

// setRoles makes the accounts' scoped keys those of these users. Keys of users who are in
// another account now stay as they are until revoke, and so do rights of all others.
func (f Folder) setRoles(accounts map[string]*jwt.AccountClaims, users []rights.User, revoke bool) (c Change, err error) {
	old := movedFrom(accounts[servicesName])
	for _, u := range users {
		account := accounts[u.Account]
		signer := roleKey(account, u.Name)
		if signer == account.Subject {
			k, err := f.newKey(nkeys.CreateAccount)
			if err != nil {
				return c, err
			}
			if signer = k.public; slices.Contains(old, u.Name) {
				c.Moved = append(c.Moved, u.Name)
			} else {
				c.Made = append(c.Made, u.Name)
			}
		}
		s := scope(u, signer)
		if len(old) > 0 && !revoke {
			keepRights(s, account.SigningKeys[signer])
		}
		account.SigningKeys.AddScopedSigner(s)
	}
	known := func(role string) bool {
		return slices.ContainsFunc(users, func(u rights.User) bool { return u.Name == role })
	}
	c.Removed = removeRoles(accounts, func(_, role string) bool { return known(role) })
	c.Revoked = removeRoles(accounts, func(account, role string) bool { return accountOf(role) == account || !revoke })
	return c, nil
}

// keepRights adds those that a role has: while producers are moved, services of before serve
// those who have not been yet.
func keepRights(to *jwt.UserScope, has jwt.Scope) {
	before, ok := has.(*jwt.UserScope)
	if !ok {
		return
	}
	to.Template.Pub.Allow.Add(before.Template.Pub.Allow...)
	to.Template.Sub.Allow.Add(before.Template.Sub.Allow...)
}

// removeRoles removes the scoped keys of roles that do not stay, and says whose these were.
func removeRoles(accounts map[string]*jwt.AccountClaims, stays func(account, role string) bool) (removed []string) {
	for name, account := range accounts {
		for key, s := range account.SigningKeys {
			if s, ok := s.(*jwt.UserScope); ok && !stays(name, s.Role) {
				delete(account.SigningKeys, key)
				removed = append(removed, s.Role)
			}
		}
	}
	slices.Sort(removed)
	return slices.Compact(removed)
}

// forget removes the files of users who are no more, and what is left of one in an account
// that he is in no more.
func (f Folder) forget(users []string, accounts map[string]*jwt.AccountClaims) error {
	var files []string
	for _, user := range users {
		if account := accounts[accountOf(user)]; account == nil || roleKey(account, user) == account.Subject {
			files = append(files, f.Creds(user), f.context(user), f.userJWT(accountOf(user), user))
		}
		files = append(files, f.userJWT(servicesName, user))
	}
	var errs []error
	for _, file := range files {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
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

// Check says why services of a scope cannot work with the folder's users: a user that is not there
// before rights that another one lacks.
func (f Folder) Check(s rights.Scope) error {
	var without error
	for _, u := range rights.Users(s) {
		_, account, err := f.account(u.Account)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		have, ok := (*jwt.UserScope)(nil), err == nil
		if ok {
			have, ok = account.SigningKeys[roleKey(account, u.Name)].(*jwt.UserScope)
		}
		if !ok {
			return fmt.Errorf("%s: %w: there is no user %s; switchyard auth update %s makes it", f.path, ErrNoRights, u.Name, f.withTenants(s.Tenants))
		}
		if lacks := lacking(have.Template.Permissions, u); lacks != "" && without == nil {
			without = fmt.Errorf("%s: %w: %s may not %s; switchyard auth update gives rights for a model (--models) and of this version",
				f.path, ErrNoRights, u.Name, lacks)
		}
	}
	return without
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
