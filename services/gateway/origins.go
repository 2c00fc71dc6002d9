package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/services/gateway/openai"
)

// anyOrigin lets pages of all sites ask.
const anyOrigin = "*"

// checkOrigins says why pages cannot be let in so.
func checkOrigins(origins []string, keys string) error {
	for _, o := range origins {
		if o == anyOrigin {
			if keys == "" {
				return errors.New("--http-origins * lets every page that a browser shows ask: it needs --http-keys")
			}
			continue
		}
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != o {
			return fmt.Errorf("--http-origins has %q; an origin is as in https://chat.example, with its port if it has one", o)
		}
	}
	return nil
}

// checkHosts says why names cannot be a gateway's.
func checkHosts(names []string) error {
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, ":/*@ ") {
			return fmt.Errorf("--http-hosts has %q; a name is as in gateway.example, without scheme and port", name)
		}
	}
	return nil
}

// guardPages keeps pages of other sites from asking with their reader's rights: those that a
// browser says are of another origin, and those whose name was made to lead here (DNS rebinding).
func (d *Door) guardPages(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	for _, o := range d.Origins {
		if o != anyOrigin {
			_ = protection.AddTrustedOrigin(o) // it was looked at when the flags were read
		}
	}
	protection.SetDenyHandler(d.refusing(&openai.Error{
		Status: http.StatusForbidden, Type: openai.InvalidRequest, Code: "cross_origin", Message: "pages of other origins may not ask here; --http-origins names those that may",
	}))
	strange := d.refusing(&openai.Error{
		Status: http.StatusForbidden, Type: openai.InvalidRequest, Code: "unknown_host", Message: "this gateway has no keys, so it is only served under names that are its own: an IP address, localhost, where it listens, or one of --http-hosts",
	})
	guarded := protection.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		allowed := origin != "" && (slices.Contains(d.Origins, origin) || slices.Contains(d.Origins, anyOrigin))
		switch {
		case !d.isOurs(r):
			strange.ServeHTTP(w, r)
		case allowed && letIn(w, r, origin):
		case allowed:
			next.ServeHTTP(w, r)
		default:
			guarded.ServeHTTP(w, r)
		}
	})
}

// letIn tells a browser that a page may read what comes; true: that was all it asked.
func letIn(w http.ResponseWriter, r *http.Request, origin string) (asked bool) {
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After, X-Should-Retry")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	if wanted := r.Header.Get("Access-Control-Request-Headers"); wanted != "" {
		h.Set("Access-Control-Allow-Headers", wanted)
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// isOurs reports whether a request is for a name of this gateway. Where clients have keys no page
// has one of them, and any name does. Off the loopback it is browsers alone that are asked for it:
// who listens there has names that this process does not know.
func (d *Door) isOurs(r *http.Request) bool {
	if d.Keys != "" {
		return true
	}
	listens, _, err := net.SplitHostPort(d.Listen)
	if err != nil {
		listens = d.Listen
	}
	browser := r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
	if listens != "" && !flagvalue.IsLoopback(listens) && !browser {
		return true
	}
	name := flagvalue.HostOf(r.Host)
	return flagvalue.IsOwnName(r.Host) || name == flagvalue.HostOf(listens) ||
		slices.ContainsFunc(d.Hosts, func(own string) bool { return flagvalue.HostOf(own) == name })
}

// refusing answers everything with an error, in the form of the path's clients.
func (d *Door) refusing(e *openai.Error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { openai.Refuse(w, e, formOf(r)) })
}
