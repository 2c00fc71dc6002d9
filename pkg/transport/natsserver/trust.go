package natsserver

import (
	"fmt"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/switchyard/switchyard/pkg/transport/credentials"
)

// believe has the server ask for users of these accounts.
func believe(opts *server.Options, t *credentials.Trust) error {
	operator, err := jwt.DecodeOperatorClaims(t.Operator)
	if err != nil {
		return fmt.Errorf("reading the operator's JWT: %w", err)
	}
	accounts, err := resolver(t)
	if err != nil {
		return err
	}
	opts.TrustedOperators, opts.AccountResolver = []*jwt.OperatorClaims{operator}, accounts
	opts.SystemAccount, opts.NoSystemAccount = t.System, false
	return nil
}

func resolver(t *credentials.Trust) (*server.MemAccResolver, error) {
	r := &server.MemAccResolver{}
	for account, token := range t.Accounts {
		if _, err := jwt.DecodeAccountClaims(token); err != nil {
			return nil, fmt.Errorf("reading account %s: %w", account, err)
		}
		if err := r.Store(account, token); err != nil {
			return nil, fmt.Errorf("storing account %s: %w", account, err)
		}
	}
	return r, nil
}

// Believe has a running server take accounts that have changed: whoever has a key that
// is revoked, or a role whose rights are others now, is disconnected. It reads them as
// nats-server does at a reload: accounts that import from each other are read together.
func (srv *Server) Believe(t *credentials.Trust) error {
	accounts, err := resolver(t)
	if err != nil {
		return err
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	opts := srv.opts.Clone()
	opts.AccountResolver = accounts
	if err := srv.inner.Load().ReloadOptions(opts); err != nil {
		return fmt.Errorf("reading the accounts again: %w", err)
	}
	srv.opts.AccountResolver = accounts // for a server that is started again
	srv.readers.believe(t)
	return nil
}
