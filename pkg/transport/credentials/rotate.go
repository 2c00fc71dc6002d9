package credentials

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
)

// Renewal says what Rotate is to make anew.
type Renewal struct {
	// Users get new keys, and their old ones are revoked; none are all of them.
	Users []string
	// Expires is how long the new credentials are good; 0 is for ever.
	Expires time.Duration
	// Certificate asks for a new server certificate, for the hosts of the old one and Hosts.
	Certificate bool
	Hosts       []string
}

// Rotate gives users new keys and revokes their old ones, which a server refuses once
// it has read the accounts again. It returns whose they are. What fails on the way
// leaves each user with credentials that are good.
func (f Folder) Rotate(r Renewal) (users []string, err error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if users, err = f.choose(r.Users); err != nil {
		return nil, err
	}
	unlock, err := f.lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	names, err := f.accountNames()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, edgeName) {
		return nil, fmt.Errorf("in %s producers have no accounts of their own yet: switchyard auth update makes them", f.path)
	}
	for _, name := range names {
		of := slices.DeleteFunc(slices.Clone(users), func(u string) bool { return accountOf(u) != name })
		if err := f.rotateIn(name, of, r.Expires); err != nil {
			return nil, err
		}
	}
	if r.Certificate {
		hosts, err := f.hosts()
		if err != nil {
			return nil, err
		}
		if err := f.makeCertificate(append(hosts, r.Hosts...)); err != nil {
			return nil, err
		}
	}
	return users, f.writeAccounts()
}

func (r Renewal) check() error {
	if len(r.Hosts) > 0 && !r.Certificate {
		return errors.New("hosts are of a new certificate: add --certificate")
	}
	if err := checkLasting(r.Expires); err != nil {
		return err
	}
	return checkHosts(r.Hosts)
}

func (f Folder) choose(names []string) ([]string, error) {
	all, err := f.Users()
	if err != nil || len(names) == 0 {
		return all, err
	}
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("%s has no user %q; there are %s", f.path, name, strings.Join(all, ", "))
		}
	}
	return names, nil
}

// rotateIn makes new credentials first, then revokes, and notes the new keys last: when
// it is done again after a failure, it revokes what it would have revoked.
func (f Folder) rotateIn(name string, users []string, lasts time.Duration) error {
	if len(users) == 0 {
		return nil
	}
	_, account, err := f.account(name)
	if err != nil {
		return err
	}
	tokens := make([]string, len(users))
	for i, user := range users {
		old, err := f.publicKey(name, user)
		if err != nil {
			return err
		}
		if tokens[i], err = f.makeUser(account, user, lasts); err != nil {
			return fmt.Errorf("making new credentials of %s: %w", user, err)
		}
		account.Revoke(old)
	}
	if err := f.writeAccount(account); err != nil {
		return err
	}
	var errs []error
	for i, user := range users {
		errs = append(errs, f.keepUser(name, user, tokens[i]))
	}
	return errors.Join(errs...)
}

func (f Folder) writeAccount(account *jwt.AccountClaims) error {
	operator, err := f.key(account.Issuer)
	if err != nil {
		return err
	}
	token, err := signed(account, operator)
	if err != nil {
		return err
	}
	return write(f.accountJWT(account.Name), []byte(token))
}

// publicKey is the one in a user's JWT.
func (f Folder) publicKey(account, user string) (string, error) {
	data, err := os.ReadFile(f.userJWT(account, user))
	if err != nil {
		return "", err
	}
	claims, err := jwt.DecodeUserClaims(string(data))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", f.userJWT(account, user), err)
	}
	return claims.Subject, nil
}

// Users lists the folder's users.
func (f Folder) Users() (names []string, err error) {
	accounts, err := f.accountNames()
	if err != nil {
		return nil, err
	}
	for _, account := range accounts {
		files, err := os.ReadDir(f.store("accounts", account, "users"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // which the account of a tenant is who is no more
			return nil, errors.Join(fmt.Errorf("listing the users of %s", f.path), err)
		}
		for _, file := range files {
			if name, ok := strings.CutSuffix(file.Name(), ".jwt"); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil // one who was moved has been in two accounts
}
