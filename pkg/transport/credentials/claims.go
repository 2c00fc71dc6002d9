package credentials

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/switchyard/switchyard/pkg/transport/rights"
)

// signed makes a key pair's claims a JWT.
func signed(claims jwt.Claims, by nkeys.KeyPair) (token string, err error) {
	results := jwt.CreateValidationResults()
	if claims.Validate(results); results.IsBlocking(true) {
		return "", fmt.Errorf("claims of %s: %s", claims.Claims().Name, results.Issues[0].Description)
	}
	return claims.Encode(by)
}

func operatorClaims(public, system string) *jwt.OperatorClaims {
	c := jwt.NewOperatorClaims(public)
	c.Name, c.SystemAccount = operatorName, system
	return c
}

// accountClaims are an account without bounds of its own, those of streams suffice; only the
// services' stores anything.
func accountClaims(public, name string) *jwt.AccountClaims {
	c := jwt.NewAccountClaims(public)
	c.Name = name
	if name == servicesName {
		c.Limits.JetStreamLimits = jwt.JetStreamLimits{
			MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
			MaxAckPending: jwt.NoLimit, MemoryMaxStreamBytes: jwt.NoLimit, DiskMaxStreamBytes: jwt.NoLimit,
		}
	}
	return c
}

// scope is a user's rights, which go to whoever is signed by key.
func scope(u rights.User, key string) *jwt.UserScope {
	s := jwt.NewUserScope()
	s.Key, s.Role, s.Description = key, u.Name, u.What
	s.Template.Pub.Allow = jwt.StringList(u.Publish())
	s.Template.Sub.Allow = jwt.StringList(u.Subscribe())
	if b := u.Bounds; b != (rights.Bounds{}) {
		s.Template.Payload, s.Template.Subs = b.Payload, b.Subs
	}
	return s
}

// cross has accounts, by their names, export and import what a scope says, and bounds those of
// producers. Producers who are in the services' account from before hear there what tokenizers
// answer them.
func cross(accounts map[string]*jwt.AccountClaims, s rights.Scope) {
	crossings := s.Crossings()
	for _, user := range movedFrom(accounts[servicesName]) {
		crossings = append(crossings, rights.Crossing{Subject: rights.InboxOf(user) + ".>", From: edgeName, To: servicesName})
	}
	for name, account := range accounts {
		account.Imports, account.Exports = nil, nil
		if rights.IsProducers(name) {
			account.Limits.Conn, account.Limits.LeafNodeConn = s.Bounds.OrDefaults().Conns, 0
		}
	}
	for _, c := range crossings {
		addCrossing(accounts[c.From], accounts[c.To], c)
	}
}

func addCrossing(from, to *jwt.AccountClaims, c rights.Crossing) {
	subject, kind := jwt.Subject(c.Subject), jwt.Stream
	export := &jwt.Export{Name: c.Subject, Subject: subject}
	if c.Service {
		kind, export.ResponseType = jwt.Service, jwt.ResponseTypeSingleton
	}
	export.Type = kind
	if !slices.ContainsFunc(from.Exports, func(e *jwt.Export) bool { return e.Subject == subject }) {
		from.Exports.Add(export)
	}
	to.Imports.Add(&jwt.Import{Name: c.Subject, Subject: subject, Account: from.Subject, Type: kind, LocalSubject: jwt.RenamingSubject(c.As)})
}

// movedFrom are the producers who can still log in to the services' account: until they had
// one of their own, they were in it.
func movedFrom(services *jwt.AccountClaims) (users []string) {
	for _, s := range services.SigningKeys {
		if s, ok := s.(*jwt.UserScope); ok && rights.AccountOf(s.Role) != servicesName {
			users = append(users, s.Role)
		}
	}
	slices.Sort(users)
	return users
}

// roleKey is the public key that signs users of a role; the account's own, for who may
// do everything, if there is no such role.
func roleKey(account *jwt.AccountClaims, role string) string {
	for key, s := range account.SigningKeys {
		if s, ok := s.(*jwt.UserScope); ok && s.Role == role {
			return key
		}
	}
	return account.Subject
}

// userClaims are a new key's, for so long; 0 is for ever. The rights are those of the
// key that signs.
func userClaims(public, name, account string, scoped bool, lasts time.Duration) *jwt.UserClaims {
	c := jwt.NewUserClaims(public)
	c.Name, c.IssuerAccount = name, account
	c.SetScoped(scoped)
	c.Tags.Add(rights.Tag)
	if lasts > 0 {
		c.Expires = time.Now().Add(lasts).Unix()
	}
	return c
}
