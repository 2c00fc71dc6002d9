package bus

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/internal/loopback"
)

// schemes are those of NATS URLs.
var schemes = []string{"nats", "tls", "ws", "wss"}

// parseServers reads a list of servers. What it says of a wrong one has no password.
func parseServers(list string) (servers []*url.URL, err error) {
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue // as the client library does
		}
		u, err := parseServer(text)
		if err != nil {
			return nil, fmt.Errorf("reading the NATS URL %s: %w", Redact(text), err)
		}
		servers = append(servers, u)
	}
	return servers, nil
}

func parseServer(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "nats://" + text
	}
	u, err := url.Parse(text)
	var wrong *url.Error
	switch {
	case errors.As(err, &wrong):
		return nil, wrong.Err // without the URL
	case err != nil:
		return nil, err
	case !slices.Contains(schemes, u.Scheme):
		return nil, fmt.Errorf("its scheme is %q; it must be one of %s", u.Scheme, strings.Join(schemes, ", "))
	case u.Host == "":
		return nil, errors.New("it names no host")
	}
	return u, nil
}

// Redact is a list of servers for logs and people: without passwords and tokens.
func Redact(list string) string {
	texts := strings.Split(list, ",")
	for i, text := range texts {
		if at := strings.LastIndex(text, "@"); at >= 0 {
			scheme, _, ok := strings.Cut(text[:at], "://")
			texts[i] = "xxxxx" + text[at:]
			if ok {
				texts[i] = scheme + "://" + texts[i]
			}
		}
	}
	return strings.Join(texts, ",")
}

// checkEncrypted refuses plain connections beyond the loopback. Credentials
// alone do not help: nobody has proved to be the server.
func checkEncrypted(f contextFile, servers []*url.URL) error {
	if f.CA != "" || f.Cert != "" || f.TLSFirst {
		return nil // these options make TLS mandatory
	}
	for _, u := range servers {
		if u.Scheme != "tls" && u.Scheme != "wss" && !loopback.Is(u.Hostname()) {
			return fmt.Errorf("%w: %s; use tls://, set a TLS CA, or allow it with --insecure", errInsecure, Redact(u.String()))
		}
	}
	return nil
}
