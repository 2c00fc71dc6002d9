package natsserver

import (
	"fmt"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/switchyard/switchyard/pkg/transport/credentials"
)

// believe has the server ask for users of these accounts.
func (srv *Server) believe(opts *server.Options, t *credentials.Trust) error {
	operator, err := jwt.DecodeOperatorClaims(t.Operator)
	if err != nil {
		return fmt.Errorf("reading the operator's JWT: %w", err)
	}
	srv.accounts = &server.MemAccResolver{}
	for account, token := range t.Accounts {
		if err := srv.accounts.Store(account, token); err != nil {
			return fmt.Errorf("storing account %s: %w", account, err)
		}
	}
	opts.TrustedOperators, opts.AccountResolver = []*jwt.OperatorClaims{operator}, srv.accounts
	opts.SystemAccount, opts.NoSystemAccount = t.System, false
	return nil
}

// Believe has a running server take accounts that have changed: whoever has a key that
// is revoked, or a role whose rights are others now, is disconnected.
func (srv *Server) Believe(t *credentials.Trust) error {
	for account, token := range t.Accounts { // all, before one that imports from another is looked at
		if err := srv.accounts.Store(account, token); err != nil {
			return fmt.Errorf("storing account %s: %w", account, err)
		}
	}
	for account, token := range t.Accounts {
		claims, err := jwt.DecodeAccountClaims(token)
		if err != nil {
			return fmt.Errorf("reading account %s: %w", account, err)
		}
		known, err := srv.inner.LookupAccount(account)
		if err != nil {
			return fmt.Errorf("looking for account %s: %w", account, err)
		}
		srv.inner.UpdateAccountClaims(known, claims)
	}
	return nil
}
