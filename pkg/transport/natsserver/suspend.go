package natsserver

import (
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
)

// count takes in what the tenants' producers had, got being what their connections did, keeps out who had too much, and lets those
// in again whose time is over.
func (r *readers) count(now time.Time, accounts []string, got map[string]int64) {
	all, err := r.inner().AccountStatz(&server.AccountStatzOptions{Accounts: accounts, IncludeUnused: true})
	if err != nil {
		return // the server stops
	}
	for _, a := range all.Accounts {
		account, had := a.Account, traffic{Sent: a.Received.Msgs, Bytes: a.Received.Bytes, Got: got[a.Account]}
		m := r.meters[account]
		if m == nil {
			m = &meter{seen: had}
			r.meters[account] = m
		}
		over := m.measure(now, had)
		switch {
		case over >= 0 && m.until.IsZero():
			r.suspend(account, over)
			m.until = now.Add(suspension)
		case !m.until.IsZero() && now.After(m.until):
			m.until = time.Time{}
			r.admit(account, nil)
		}
	}
}

// suspend closes all connections of a tenant's producers, and takes no new ones.
func (r *readers) suspend(account string, over int) {
	b := bounds[over]
	r.log.Warn("a tenant's producers are kept out for a while: they had more than a tenant may have",
		"account", r.nameOf(account), "of", b.what, "a_second", b.rate, "at_once", b.atOnce, "for", suspension)
	r.admit(account, func(c *jwt.AccountClaims) { c.Limits.Conn = 0 })
}

// admit has the server believe what the account's owner has signed, but for a change of ours.
func (r *readers) admit(account string, change func(*jwt.AccountClaims)) {
	r.mu.Lock()
	token := r.trust.Accounts[account]
	r.mu.Unlock()
	claims, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return // the account is none any more
	}
	if change != nil {
		change(claims)
	}
	known, err := r.inner().LookupAccount(account)
	if err != nil {
		r.log.Error("an account's bounds could not be changed", "account", claims.Name, "error", err)
		return
	}
	r.inner().UpdateAccountClaims(known, claims)
}

// nameOf is what people call an account.
func (r *readers) nameOf(account string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if claims, err := jwt.DecodeAccountClaims(r.trust.Accounts[account]); err == nil {
		return claims.Name
	}
	return account
}
