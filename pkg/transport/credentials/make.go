package credentials

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
)

// Settings are what a folder is made for.
type Settings struct {
	Scope rights.Scope
	// Servers are the hosts of a cluster's servers; none: there is one server.
	Servers []string
	// Hosts are further names and addresses of the server or servers, beside the loopback's.
	Hosts []string
	// Port is the server's in NATS contexts; 0 is NATS's default.
	Port int
	// Expires is how long users' credentials are good; 0 is for ever.
	Expires time.Duration
	// ServerDir is where servers will find what is in server/, and StoreDir where they keep
	// what they store; empty: in the folder itself.
	ServerDir, StoreDir string
	// Storage is what the servers' limits are for, beside the models.
	Storage Storage
}

func (s Settings) check() error {
	if len(s.Scope.Models) == 0 {
		return errors.New("there is no model to have rights for")
	}
	for _, tenant := range s.Scope.Tenants {
		if err := schemas.CheckTenant(tenant); err != nil {
			return err
		}
		if tenant == schemas.DefaultTenant {
			return fmt.Errorf("tenant %q has a producer in any case", tenant)
		}
	}
	if err := errors.Join(checkLasting(s.Expires), s.Scope.Bounds.Check()); err != nil {
		return err
	}
	if err := checkServers(s.Servers); err != nil {
		return err
	}
	return checkHosts(s.Hosts)
}

// checkLasting refuses a time that no credentials can be good for; 0 is for ever.
func checkLasting(lasts time.Duration) error {
	if lasts < 0 {
		return fmt.Errorf("credentials cannot be good for %v", lasts)
	}
	return nil
}

// maker fills a folder, which gets its final name when it is whole.
type maker struct {
	Folder
	Settings

	final    Folder
	accounts map[string]*jwt.AccountClaims
}

func (m *maker) make() error {
	if err := m.makeAccounts(); err != nil {
		return err
	}
	for _, user := range append(m.users(), Admin, System) {
		account := m.accounts[accountOf(user)]
		token, err := m.makeUser(account, user, m.Expires)
		if err = errors.Join(err, m.keepUser(account.Name, user, token), m.writeContext(m.final, user, m.Settings.url())); err != nil {
			return err
		}
	}
	if err := m.makeAuthority(); err != nil {
		return err
	}
	if err := m.makeCertificate(append(slices.Clone(m.Servers), m.Hosts...)); err != nil {
		return err
	}
	return errors.Join(m.writeScope(m.Scope), m.writeAccounts(), m.writeLimits(LimitsOf(m.Scope, m.Storage), m.Scope.Models), m.writeServers())
}

func (m *maker) users() (names []string) {
	for _, u := range rights.Users(m.Scope) {
		names = append(names, u.Name)
	}
	return names
}

// makeAccounts makes operator and accounts, with a signing key for each role.
func (m *maker) makeAccounts() error {
	operator, err := m.newKey(nkeys.CreateOperator)
	if err != nil {
		return err
	}
	m.accounts = map[string]*jwt.AccountClaims{}
	for _, name := range append(m.Scope.Accounts(), systemName) {
		key, err := m.newKey(nkeys.CreateAccount)
		if err != nil {
			return err
		}
		m.accounts[name] = accountClaims(key.public, name)
	}
	for _, u := range rights.Users(m.Scope) {
		key, err := m.newKey(nkeys.CreateAccount)
		if err != nil {
			return err
		}
		m.accounts[u.Account].SigningKeys.AddScopedSigner(scope(u, key.public))
	}
	cross(m.accounts, m.Scope)
	return m.writeOperator(operator)
}

func (m *maker) writeOperator(operator key) error {
	token, err := signed(operatorClaims(operator.public, m.accounts[systemName].Subject), operator.pair)
	if err != nil {
		return err
	}
	info := fmt.Sprintf("{\"managed\": false, \"name\": %q, \"kind\": \"operator\", \"version\": \"1\"}\n", operatorName)
	errs := []error{write(m.operatorJWT(), []byte(token)), write(m.store(".nsc"), []byte(info))}
	for name, claims := range m.accounts {
		token, err := signed(claims, operator.pair)
		errs = append(errs, err, write(m.accountJWT(name), []byte(token)))
	}
	return errors.Join(errs...)
}

type key struct {
	pair   nkeys.KeyPair
	public string
}

func (f Folder) newKey(create func() (nkeys.KeyPair, error)) (k key, err error) {
	if k.pair, err = create(); err == nil {
		k.public, err = f.keep(k.pair)
	}
	return k, err
}

// makeUser gives a user new credentials, and returns the JWT in them. The user's key
// is nowhere else.
func (f Folder) makeUser(account *jwt.AccountClaims, name string, lasts time.Duration) (token string, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", err
	}
	public, err := pair.PublicKey()
	if err != nil {
		return "", err
	}
	signer := roleKey(account, name)
	by, err := f.key(signer)
	if err != nil {
		return "", err
	}
	token, err = signed(userClaims(public, name, account.Subject, signer != account.Subject, lasts), by)
	if err != nil {
		return "", err
	}
	seed, err := pair.Seed()
	if err != nil {
		return "", err
	}
	creds, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		return "", err
	}
	return token, write(f.Creds(name), creds)
}

func (f Folder) keepUser(account, name, token string) error {
	return write(f.userJWT(account, name), []byte(token))
}

// natsContext is what the nats command line and --nats NAME read.
type natsContext struct {
	Description string `json:"description"`
	URL         string `json:"url"`
	Creds       string `json:"creds"`
	CA          string `json:"ca"`
	InboxPrefix string `json:"inbox_prefix"`
}

// url is where clients reach the servers: all of a cluster, or one by its first host.
func (s Settings) url() string {
	servers := s.Servers
	if len(servers) == 0 {
		servers = append(slices.Clone(s.Hosts), "127.0.0.1")[:1]
	}
	urls := make([]string, len(servers))
	for i, host := range servers {
		urls[i] = "tls://" + address(host, cmp.Or(s.Port, defaultPort))
	}
	return strings.Join(urls, ",")
}

// writeContext writes a user's context for a folder that will be final.
func (f Folder) writeContext(final Folder, user, url string) error {
	text, err := json.MarshalIndent(natsContext{
		Description: "switchyard: " + user, URL: url,
		Creds: final.Creds(user), CA: final.CA(), InboxPrefix: rights.InboxOf(user),
	}, "", "  ")
	if err != nil {
		return err
	}
	return write(f.context(user), append(text, '\n'))
}

// URL is where clients reach the servers, as the folder's contexts say.
func (f Folder) URL() (string, error) {
	data, err := os.ReadFile(f.context(Admin))
	if err != nil {
		return "", err
	}
	var c natsContext
	if err := json.Unmarshal(data, &c); err != nil {
		return "", fmt.Errorf("reading %s: %w", f.context(Admin), err)
	}
	return c.URL, nil
}
