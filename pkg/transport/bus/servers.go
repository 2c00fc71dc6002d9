package bus

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/internal/flagvalue"
)

var schemes = []string{"nats", "tls", "ws", "wss"}

var (
	errNoHost  = errors.New("it names no host; write nats://HOST:PORT")
	errScheme  = fmt.Errorf("its scheme must be one of %s", strings.Join(schemes, ", "))
	errComma   = errors.New("it has a comma before the @; in a user or password write %2C, and begin a further server that has a user with its scheme")
	errURL     = errors.New("it is no URL; write nats://HOST:PORT, and in a user or password what has a meaning in URLs as %XX, such as %2F for a slash")
	errNoneSet = errors.New("there is no server in it; write nats://HOST:PORT")
)

// CheckURL says why nothing can be dialled by a Config's URL, if that is no context's name.
func (c Config) CheckURL() error {
	if c.URL == "" || c.namesContext() {
		return nil
	}
	_, err := parseServers(c.URL)
	return err
}

// parseServers reads a list of servers. What it says of a wrong one has nothing of a user
// or password.
func parseServers(list string) (servers []*url.URL, err error) {
	for _, group := range groups(list) {
		if strings.Contains(group[:strings.LastIndex(group, "@")+1], ",") {
			return nil, fmt.Errorf("reading the NATS URL %s: %w", Redact(group), errComma)
		}
		for text := range strings.SplitSeq(group, ",") {
			if text = strings.TrimSpace(text); text == "" {
				continue // as the client library does
			}
			u, err := parseServer(text)
			if err != nil {
				return nil, fmt.Errorf("reading the NATS URL %s: %w", Redact(text), err)
			}
			servers = append(servers, u)
		}
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("reading the NATS URL %s: %w", Redact(list), errNoneSet)
	}
	return servers, nil
}

func parseServer(text string) (*url.URL, error) {
	hasUser := strings.Contains(text, "@")
	if !strings.Contains(text, "://") {
		text = "nats://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil: // its words have parts of the URL
		return nil, errURL
	case !slices.Contains(schemes, u.Scheme):
		return nil, errScheme
	case hasUser && (u.User == nil || !hasHost(u, text)): // a slash, ? or # ended the host before the last @
		return nil, errURL
	case u.Hostname() == "":
		return nil, errNoHost
	case u.Port() != "":
		return u, flagvalue.CheckPort(u.Port())
	}
	return u, nil
}

// hasHost reports whether the URL's host is what stands behind the last @ of its text.
func hasHost(u *url.URL, text string) bool {
	host := text[strings.LastIndex(text, "@")+1:]
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	return u.Host == host || strings.Contains(host, "%") // which was decoded
}

// next is where a further server begins for certain: a password with a comma may have
// anything else behind it.
var next = regexp.MustCompile(`,\s*(?i:nats|tls|wss?|https?)://`)

// groups cuts a list where a further server begins for certain.
func groups(list string) (texts []string) {
	from := 0
	for _, at := range next.FindAllStringIndex(list, -1) {
		texts = append(texts, strings.TrimSpace(list[from:at[0]]))
		from = at[0] + 1
	}
	return append(texts, strings.TrimSpace(list[from:]))
}

const redacted = "xxxxx"

// Redact is a list of servers for logs and people: without users, passwords and tokens,
// and without what may be part of them where a server is written wrong.
func Redact(list string) string {
	texts := groups(list)
	for i, text := range texts {
		texts[i] = redactGroup(text)
	}
	return strings.Join(texts, ",")
}

var (
	knownScheme = regexp.MustCompile(`^(?i:nats|tls|wss?|https?)://`)
	anyScheme   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	// address is a host with or without a port, and then perhaps a path. What is written
	// otherwise may be a user and a password whose host was forgotten.
	address = regexp.MustCompile(`^((?:\[[0-9A-Za-z:.]*\]|[0-9A-Za-z_.-]*)(?::[0-9]*)?)(?:/[^@]*)?$`)
)

// redactGroup keeps hosts behind the last @.
func redactGroup(text string) string {
	at := strings.LastIndex(text, "@") + 1
	scheme := knownScheme.FindString(text)
	if at == 0 {
		scheme = anyScheme.FindString(text)
	}
	hosts := redactHosts(text[max(at, len(scheme)):])
	if at > 0 {
		scheme += redacted + "@"
	}
	return scheme + hosts
}

// redactHosts keeps all or nothing: what is no host may be the end of what precedes it.
func redactHosts(list string) string {
	hosts := strings.Split(list, ",")
	for i, host := range hosts {
		m := address.FindStringSubmatch(strings.TrimSpace(host))
		if m == nil {
			return redacted
		}
		hosts[i] = m[1]
	}
	return strings.Join(hosts, ",")
}

// checkEncrypted refuses plain connections beyond the loopback. Credentials
// alone do not help: nobody has proved to be the server.
func checkEncrypted(f contextFile, servers []*url.URL) error {
	if f.CA != "" || f.Cert != "" || f.TLSFirst {
		return nil // these options make TLS mandatory
	}
	for _, u := range servers {
		if u.Scheme != "tls" && u.Scheme != "wss" && !flagvalue.IsLoopback(u.Hostname()) {
			return fmt.Errorf("%w: %s; use tls://, set a TLS CA, or allow it with --insecure", errInsecure, Redact(u.String()))
		}
	}
	return nil
}
