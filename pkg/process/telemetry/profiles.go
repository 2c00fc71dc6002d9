package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"

	"github.com/switchyard/switchyard/internal/loopback"
)

// withProfiles adds Go's profiles. They show the command line and what functions do, and
// whoever asks for one slows the process down: so only an address of this machine has them
// unasked.
func withProfiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}

// profilesBeside says whether MetricsAddr has the profiles too.
func (c Config) profilesBeside() bool {
	host, _, err := net.SplitHostPort(c.MetricsAddr)
	return c.PprofAddr == "" && err == nil && loopback.Is(host)
}

// ownNames serves what listens on the loopback under this machine's own names, so that no page
// reads it whose name was made to lead there.
func ownNames(address string, next http.Handler) http.Handler {
	if host, _, err := net.SplitHostPort(address); err != nil || !loopback.Is(host) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback.Plain(r.Host) {
			http.Error(w, "this address is served under IP addresses and localhost alone", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ErrListenProfiles is that PprofAddr cannot be opened.
var ErrListenProfiles = errors.New("listening on --pprof-addr")

// listenForProfiles opens PprofAddr and serves it.
func (t *Telemetry) listenForProfiles(ctx context.Context) error {
	if t.config.PprofAddr == "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", t.config.PprofAddr)
	if err != nil {
		return fmt.Errorf("%w %s (is another process there? choose another port): %w", ErrListenProfiles, t.config.PprofAddr, err)
	}
	mux := http.NewServeMux()
	withProfiles(mux)
	t.profiles = &http.Server{Handler: ownNames(t.config.PprofAddr, mux), ReadHeaderTimeout: headerWithin}
	t.profilesAt = l.Addr().String()
	go func() { t.served <- t.profiles.Serve(l) }()
	return nil
}

// PprofAddr is the address that Config's became; empty without one.
func (t *Telemetry) PprofAddr() string { return t.profilesAt }

// closeProfiles waits for nobody who takes a profile.
func (t *Telemetry) closeProfiles() error {
	if t.profiles == nil {
		return nil
	}
	return closing(t.profiles.Close())
}
