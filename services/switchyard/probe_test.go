package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// probe exits with what the page says.
func TestProbe(t *testing.T) {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("live\n")) })
	pages.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("not ready:\nno gate\n"))
	})
	srv := httptest.NewServer(pages)
	defer srv.Close()
	_, port, _ := strings.Cut(srv.Listener.Addr().String(), ":")
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"lives", []string{"--live", "--metrics-addr", "127.0.0.1:" + port}, cli.ExitDone, "live"},
		{"of all interfaces", []string{"--live", "--metrics-addr", ":" + port}, cli.ExitDone, "live"},
		{"of all interfaces by number", []string{"--live", "--metrics-addr", "0.0.0.0:" + port}, cli.ExitDone, "live"},
		{"not ready", []string{"--metrics-addr", ":" + port}, cli.ExitFailed, "no gate"},
		{"nobody there", []string{"--metrics-addr", "127.0.0.1:1"}, cli.ExitFailed, "no answer at --metrics-addr"},
		{"no address", []string{"--metrics-addr", "9090"}, cli.ExitUsage, "it must be HOST:PORT"},
		{"nowhere", nil, cli.ExitUsage, "--metrics-addr"},
	} {
		got := invoke("", append([]string{"probe"}, tc.args...)...)
		if got.Code != tc.code || !strings.Contains(got.Out+got.Err, tc.want) {
			t.Errorf("%s: %+v, want %q", tc.name, got, tc.want)
		}
	}
}
