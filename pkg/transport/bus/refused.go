package bus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// refused reports whether a server answered and does not want this client, or the client
// does not want it: trying again would change nothing.
func refused(err error) bool {
	return isAny(err, notLetIn) || isAny(err, notEncrypted) || notTrusted(err)
}

var (
	notLetIn = []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
	}
	notEncrypted = []error{nats.ErrSecureConnRequired, nats.ErrSecureConnWanted}
)

func isAny(err error, of []error) bool {
	return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
}

func notTrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid)
}

// hasUser reports whether the URL of a server names a user or a token.
func hasUser(servers string) bool {
	return slices.ContainsFunc(strings.Split(servers, ","), func(one string) bool {
		at, err := url.Parse(strings.TrimSpace(one))
		return err == nil && at.User != nil
	})
}

// tooOld refuses a server without what buckets need: messages that expire by themselves came with 2.11.
func tooOld(version string) error {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n < 2 || major > leastMajor || major == leastMajor && minor >= leastMinor {
		return nil // what is no number is a build of somebody's own
	}
	return fmt.Errorf("%w: the server is NATS %.40s; Switchyard needs %d.%d or later", ErrNoConnection, version, leastMajor, leastMinor)
}

const leastMajor, leastMinor = 2, 11

// explain adds which of the settings is to be looked at.
func (f contextFile) explain(err error) error {
	switch {
	case notTrusted(err) && f.CA != "":
		return fmt.Errorf("%w; the server's certificate was not signed for that address by the authority in %s (--tls-ca)", err, f.CA)
	case notTrusted(err):
		return fmt.Errorf("%w; --tls-ca names the authority that signed the server's certificate", err)
	case !isAny(err, notLetIn):
		return err
	case f.Creds == "" && (f.User != "" || f.Token != "" || f.NKey != "" || hasUser(f.URL)):
		return fmt.Errorf("%w; the server knows no such user with this password, token or key: look at those of --nats", err)
	case f.Creds == "":
		return fmt.Errorf("%w; the server wants a user: --creds names a credentials file, --nats a NATS context", err)
	}
	user, unusable := readCreds(f.Creds, time.Time{}) // expired or not
	if unusable != nil {
		return errors.Join(err, unusable)
	}
	return fmt.Errorf("%w; user %s of %s is unknown there, or his key was revoked: fetch the newest credentials", err, user.name, f.Creds)
}
