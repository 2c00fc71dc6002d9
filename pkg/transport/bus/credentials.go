package bus

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
)

// ErrCredentials says that a file to log in with, or to check the server with, is of no use.
var ErrCredentials = errors.New("unusable credentials")

// checkFiles looks at what the client reads only when it dials, again and again: no
// waiting mends a file that is wrong. It takes the user's inboxes from the credentials.
func (f *contextFile) checkFiles() error {
	if f.CA != "" {
		if err := checkCA(f.CA); err != nil {
			return err
		}
	}
	if f.Creds == "" {
		return nil
	}
	user, err := readCreds(f.Creds, time.Now())
	if err == nil && f.InboxPrefix == "" {
		f.InboxPrefix = user.inbox
	}
	return err
}

func checkCA(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%w: reading the TLS CA: %w", ErrCredentials, err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(data) {
		return fmt.Errorf("%w: %s has no certificate in PEM form; --tls-ca is the authority's certificate, not its key", ErrCredentials, file)
	}
	return nil
}

// credsUser is what credentials say of their user.
type credsUser struct {
	name  string
	inbox string // what begins the user's inboxes; empty: anything
}

func readCreds(file string, now time.Time) (u credsUser, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return u, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	if u, err = parseCreds(data, now); err != nil {
		return u, fmt.Errorf("%w: %s %w", ErrCredentials, file, err)
	}
	return u, nil
}

// parseCreds reads a credentials file. Who is in it is the server's to believe.
func parseCreds(data []byte, now time.Time) (u credsUser, err error) {
	token, err := jwt.ParseDecoratedJWT(data)
	if err != nil {
		return u, fmt.Errorf("has no user's JWT: %w", err)
	}
	if _, err := jwt.ParseDecoratedUserNKey(data); err != nil {
		return u, fmt.Errorf("has no user's key: %w", err)
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return u, fmt.Errorf("has no user's JWT: %w", err)
	}
	u.name = claims.Name
	if at := claims.Expires; at > 0 && at <= now.Unix() {
		return u, fmt.Errorf("(user %s) expired at %s; make new ones, with switchyard auth rotate for instance",
			claims.Name, time.Unix(at, 0).UTC().Format(time.RFC3339))
	}
	if name := claims.Name; claims.Tags.Contains(rights.Tag) && name != "" && schemas.ModelToken(name) == name {
		u.inbox = rights.InboxOf(claims.Name)
	}
	return u, nil
}
